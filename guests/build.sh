#!/bin/sh
# Builds the guest components into guests/build.
#
#   guests/build.sh [--record] [rust|c|js|python|all]...
#
# Tools are installed into target/, never globally. A guest whose sources didn't change is left alone. What can be built
# to the same bytes anywhere is compared with guests/DIGESTS; --record writes the digests, and the component that the
# binary embeds, instead.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
guests=$root/guests
out=$guests/build
tools=$root/target/guest-tools
embedded=$root/crates/lazaret/assets/mailbox.wasm
export CARGO_TARGET_DIR="$root/target/guests"
export ZIG_GLOBAL_CACHE_DIR="$tools/zig" ZIG_LOCAL_CACHE_DIR="$tools/zig"
export npm_config_update_notifier=false
# Flags from outside would change what is built.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CFLAGS VIRTUAL_ENV

say() { printf '%s\n' "$*" >&2; }
die() { say "build.sh: $*"; exit 1; }
need() { command -v "$1" >/dev/null || die "$2 needs $1, which is not installed"; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

# One digest over the names and contents of every source file in the given files and directories, relative to the root.
digest_of() {
    (cd "$root" && find "$@" -type d \( -name target -o -name node_modules -o -name __pycache__ \) -prune -o -type f -print) |
        LC_ALL=C sort | (cd "$root" && while read -r file; do sha256 "$file"; done) | sha256 - | cut -d ' ' -f 1
}

# is_fresh NAME STAMP: whether NAME.wasm was built from what STAMP stands for.
is_fresh() {
    [ -f "$out/$1.wasm" ] && [ "$(cat "$out/$1.stamp" 2>/dev/null)" = "$2" ] && say "$1: up to date"
}

# guest NAME FUNCTION SOURCE...: calls FUNCTION to make NAME.wasm, unless nothing changed.
guest() {
    name=$1 make=$2
    shift 2
    stamp=$(digest_of "$@" wit guests/build.sh)
    is_fresh "$name" "$stamp" && return
    say "$name: building"
    rm -f "$out/$name.stamp"
    "$make"
    [ "$name" = wasi-tool ] || check_imports "$name"
    printf '%s\n' "$stamp" >"$out/$name.stamp"
}

# ---- tools ----

componentize() {
    (cd "$guests/componentize" && cargo build --quiet --locked)
    "$CARGO_TARGET_DIR/debug/componentize" "$@"
}

venv() {
    need python3 "the C and Python guests"
    stamp_of_tools=$(digest_of guests/requirements.txt)
    [ "$(cat "$tools/venv/stamp" 2>/dev/null)" = "$stamp_of_tools" ] && return
    say "installing zig and componentize-py into target/guest-tools/venv"
    python3 -m venv --clear "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        -r "$guests/requirements.txt"
    printf '%s\n' "$stamp_of_tools" >"$tools/venv/stamp"
}

zig() { "$tools/venv/bin/python" -m ziglang "$@"; }

node_modules() {
    need npm "the JavaScript guest"
    stamp_of_tools=$(digest_of guests/js-counter/package.json guests/js-counter/package-lock.json)
    [ "$(cat "$tools/js/stamp" 2>/dev/null)" = "$stamp_of_tools" ] && return
    say "installing componentize-qjs into target/guest-tools/js"
    rm -rf "$tools/js"
    mkdir -p "$tools/js"
    cp "$guests/js-counter/package.json" "$guests/js-counter/package-lock.json" "$tools/js/"
    (cd "$tools/js" && npm ci --loglevel=error --no-audit --no-fund)
    printf '%s\n' "$stamp_of_tools" >"$tools/js/stamp"
}

# ---- guests ----

# cargo_guest DIRECTORY TARGET FILE NAME
cargo_guest() {
    need cargo "the Rust guests"
    (
        cd "$root/$1"
        cargo fetch --quiet --locked --target "$2"
        # Messages of a panic name source files: without this they would say where this machine keeps its registry.
        flags=
        for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
            flags="$flags --remap-path-prefix=$registry=/registry"
        done
        flags="$flags --remap-path-prefix=$root=/lazaret"
        variable=CARGO_TARGET_$(printf %s "$2" | tr 'a-z-' 'A-Z_')_RUSTFLAGS
        env "$variable=$flags" cargo build --quiet --release --locked --target "$2"
    )
    cp "$CARGO_TARGET_DIR/$2/release/$3" "$out/$4.wasm"
}

make_rust() { cargo_guest guests/rust-counter wasm32-unknown-unknown rust_counter.wasm rust-counter; }
make_mailbox() { cargo_guest examples/mailbox wasm32-unknown-unknown mailbox.wasm mailbox; }
make_rust_web() { cargo_guest examples/rust-web wasm32-unknown-unknown rust_web.wasm rust-web; }
make_wasi_tool() { cargo_guest examples/wasi-tool wasm32-wasip2 wasi-tool.wasm wasi-tool; }

make_c() { c_guest c-counter "$guests/c-counter/counter.c"; }
make_c_web() { c_guest c-web -I "$root/sdk/c" "$root/examples/c-web/agent.c" "$root/sdk/c/lazaret_http.c"; }

# c_guest NAME FLAG-OR-SOURCE...
c_guest() {
    need cargo "the C guests"
    venv
    made=$1 bindings=$tools/c-bindings
    shift
    componentize bindings "$root/wit" agent "$bindings"
    zig cc -target wasm32-wasi -mexec-model=reactor -Os -flto -g0 -s -Wall -Wextra -I "$bindings" \
        "$@" "$bindings/agent.c" "$bindings/agent_component_type.o" -o "$bindings/core.wasm"
    componentize component "$bindings/core.wasm" "$out/$made.wasm"
}

make_js() {
    make_js_tools
    componentize_js js-counter/counter.js js-counter
}

make_js_tools() {
    need node "the JavaScript guests"
    node_modules
    preload=
    if [ "$(uname -s)" = Linux ]; then
        venv
        preload=$tools/frozen.so
        zig cc -shared -fPIC -O1 -g0 "$guests/frozen.c" -o "$preload"
    fi
}

# componentize_js SCRIPT NAME. The script's path goes into the component: always give the same one.
componentize_js() {
    (cd "$guests" && LD_PRELOAD=$preload node "$tools/js/node_modules/componentize-qjs/cli.mjs" --wit ../wit \
        --world agent --js "$1" --sync --stub-wasi --output "$out/$2.wasm" >/dev/null)
}

make_js_web() {
    make_js_tools
    # One module: the tool reads no others.
    cat "$root/sdk/js/fetch.js" "$root/examples/js-web/agent.js" >"$out/js-web.js"
    componentize_js build/js-web.js js-web
}

make_python() {
    venv
    (cd "$guests" && "$tools/venv/bin/componentize-py" --quiet --wit-path ../wit --world agent componentize \
        --stub-wasi --python-path python-counter counter --output "$out/python-counter.wasm")
}

make_python_web() {
    venv
    (cd "$root/examples/python-web" && "$tools/venv/bin/componentize-py" --quiet --wit-path ../../wit --world agent \
        componentize --stub-wasi --python-path . --python-path ../../sdk/python app --output "$out/python-web.wasm")
}

# ---- checks ----

# A durable agent imports nothing but lazaret:host and the types the world takes from it.
check_imports() {
    componentize imports "$out/$1.wasm" >"$out/$1.imports"
    if grep -v -x -e 'lazaret:host/.*@0\.1\.0' -e message -e reply -e failure "$out/$1.imports"; then
        die "$1 imports the above, which is not in wit/host.wit"
    fi
}

reproducible='c-counter c-web js-counter js-web mailbox rust-counter rust-web wasi-tool'

check_digest() {
    case " $reproducible " in *" $1 "*) ;; *) return 0 ;; esac
    if [ "${1#js-}" != "$1" ] && [ "$(uname -s)" != Linux ]; then
        say "$1: not compared with guests/DIGESTS, it can be built to the same bytes on Linux only"
        return 0
    fi
    built=$(sha256 "$out/$1.wasm" | cut -d ' ' -f 1)
    if [ -n "$record" ]; then
        { grep -v "  $1\.wasm\$" "$guests/DIGESTS" 2>/dev/null || :; printf '%s  %s.wasm\n' "$built" "$1"; } |
            LC_ALL=C sort -k 2 >"$out/DIGESTS"
        mv "$out/DIGESTS" "$guests/DIGESTS"
        [ "$1" != mailbox ] || { mkdir -p "$(dirname "$embedded")" && cp "$out/mailbox.wasm" "$embedded"; }
    elif ! grep -q -x "$built  $1\.wasm" "$guests/DIGESTS" 2>/dev/null; then
        die "$1.wasm is not what guests/DIGESTS says. If its sources changed on purpose, run: guests/build.sh --record"
    elif [ "$1" = mailbox ] && ! cmp -s "$out/mailbox.wasm" "$embedded"; then
        die "crates/lazaret/assets/mailbox.wasm is not the one built here. Run: guests/build.sh --record rust"
    fi
}

# ---- which ----

build_rust() {
    guest rust-counter make_rust guests/rust-counter
    guest mailbox make_mailbox examples/mailbox
    guest wasi-tool make_wasi_tool examples/wasi-tool
    guest rust-web make_rust_web examples/rust-web sdk/rust
    names="$names rust-counter mailbox wasi-tool rust-web"
}
build_c() {
    guest c-counter make_c guests/c-counter guests/componentize guests/requirements.txt
    guest c-web make_c_web examples/c-web sdk/c guests/componentize guests/requirements.txt
    names="$names c-counter c-web"
}
build_js() {
    guest js-counter make_js guests/js-counter guests/frozen.c guests/requirements.txt
    guest js-web make_js_web examples/js-web sdk/js guests/frozen.c guests/requirements.txt guests/js-counter/package-lock.json
    names="$names js-counter js-web"
}
build_python() {
    guest python-counter make_python guests/python-counter guests/requirements.txt
    guest python-web make_python_web examples/python-web sdk/python guests/requirements.txt
    names="$names python-counter python-web"
}

mkdir -p "$out" "$tools"
record='' names='' asked=''
for argument in "$@"; do
    case $argument in
        --record) record=1 ;;
        rust | c | js | python) asked="$asked $argument" ;;
        all) asked='rust c js python' ;;
        *) die "usage: guests/build.sh [--record] [rust|c|js|python|all]..." ;;
    esac
done
for language in ${asked:-rust c js python}; do "build_$language"; done
for name in $names; do check_digest "$name"; done
