#!/bin/sh
# Makes agent.wasm from agent.c.
set -eu
cd "$(dirname "$0")"

componentize() { cargo run --quiet --locked --manifest-path componentize/Cargo.toml -- "$@"; }

componentize bindings wit agent bindings
.venv/bin/python -m ziglang cc -target wasm32-wasi -mexec-model=reactor -Os -flto -g0 -s -Wall -Wextra -I bindings \
    agent.c bindings/agent.c bindings/agent_component_type.o -o bindings/core.wasm
componentize component bindings/core.wasm agent.wasm
