//! What Lazaret costs, beside what can't be had for less: bare Wasmtime, one flush of a disk, a plain host call.
//!
//! `cargo bench -p lazaret-host` measures everything; a word after `--` picks one part: instantiate, durable, heap,
//! effect, edit, backtest, replay, metering, clients, asleep, awake, revoke. Every figure stands beside its anchor from the
//! same run. Times of a busy machine mean little; the ratios hold.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

mod bare;
mod clients;
mod crowd;
mod guests;
mod metering;
mod rates;
mod replay;
mod revoke;
mod rules;
mod timing;
mod turns;

/// A part of what is measured.
type Part = (&'static str, fn());

const PARTS: [Part; 12] = [
    ("instantiate", turns::instantiate),
    ("durable", turns::durable),
    ("heap", turns::heap),
    ("effect", turns::effect),
    ("edit", rules::edit),
    ("backtest", rules::backtest),
    ("replay", replay::replay),
    ("metering", metering::metering),
    ("clients", clients::clients),
    ("asleep", crowd::asleep),
    ("awake", crowd::awake),
    ("revoke", revoke::revoke),
];

fn main() {
    if crowd::is_child() {
        return crowd::child();
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            part();
            println!();
        }
    }
}
