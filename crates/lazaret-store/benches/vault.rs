//! What a vault costs: deriving its key from a passphrase, reading a value, writing one.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, touches the disk and prints"
)]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/vaults/mod.rs"]
mod vaults;

use std::time::{Duration, Instant};

use common::dir;
use lazaret_store::vault::{Cost, Scope, Source, Unlock, Vault};
use vaults::*;

/// The median of so many.
fn median(times: usize, mut work: impl FnMut(usize)) -> Duration {
    let mut taken: Vec<Duration> = (0..times)
        .map(|n| {
            let begun = Instant::now();
            work(n);
            begun.elapsed()
        })
        .collect();
    taken.sort();
    taken[times / 2]
}

/// What this thread has been on a processor: what it costs however busy the machine is.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn main() {
    let words = "correct horse battery staple";
    for cost in [Cost::default(), cheap()] {
        let dir = dir();
        drop(Vault::init(dir.path(), &Source::Passphrase { passphrase: secret(words), cost }, now).unwrap());
        let unlock = Unlock::Passphrase(secret(words));
        let before = on_cpu();
        let took = median(5, |_| drop(Vault::unlock(dir.path(), &unlock, now).unwrap()));
        let cpu = (on_cpu() - before) / 5;
        println!("vault: unlock by passphrase, {cost:?}: {took:.1?}, of which on a processor {cpu:.1?}");
    }
    for count in [10, 1_000, 10_000] {
        let dir = dir();
        let vault = init(dir.path());
        let (names, values): (Vec<_>, Vec<_>) = (0..count)
            .map(|n| (name(&format!("canary-{n}")), secret(&format!("a canary value with number {n}"))))
            .unzip();
        let all: Vec<_> = names.iter().zip(&values).map(|(name, value)| (name, &Scope::Global, value)).collect();
        let begun = Instant::now();
        vault.set_many(&all).unwrap();
        let filled = begun.elapsed();
        let read = median(200, |n| drop(vault.get(&names[n % count]).unwrap()));
        let write = median(20, |n| drop(vault.rotate(&names[n % count], &values[(n + 1) % count]).unwrap()));
        let open = median(5, |_| drop(unlock(dir.path()).unwrap()));
        let bytes = std::fs::metadata(file(dir.path())).unwrap().len();
        println!(
            "vault: {count} secrets, {bytes} bytes: set_many {filled:.1?}, get {read:.1?}, rotate {write:.1?}, unlock by key file {open:.1?}"
        );
    }
}
