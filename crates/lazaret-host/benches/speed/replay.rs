//! How fast the past is run again.

use std::time::Duration;

use lazaret_host::{Host, Selection, Verdict, verify_bundle};

use crate::guests;
use crate::timing::{Pair, show, time};

const TURNS: u32 = 10_000;

/// Replays, each by a host that was opened for it; the median counts.
const REPLAYS: usize = 5;

/// Ten thousand durable turns, and the same from their records; then a stranger's check of a thousand of them. What was begun
/// for the turns is over when their host is closed, so nothing of it falls on the replays, and these know nothing from before.
pub(crate) fn replay() {
    let dir = guests::data_root();
    let root = dir.path().join("root");
    let host = Host::open(&root).expect("a data root");
    let agent = guests::create(&host, "counter", &guests::counter());
    let durable: Duration = (0..TURNS).map(|_| time(|| guests::send(&host, &agent, b"add 1"))).sum();
    drop(host);
    let all = Selection { agent: agent.clone(), turns: None };
    let mut replays = [Duration::ZERO; REPLAYS];
    for replayed in &mut replays {
        let host = Host::open(&root).expect("the data root");
        let mut matched = 0;
        *replayed = time(|| {
            let verdicts = host.replay(&all, |_, _, _| ()).expect("a replay");
            matched = verdicts.iter().filter(|verdict| **verdict == Verdict::Match).count();
        });
        assert_eq!(matched, TURNS as usize, "every turn matches");
    }
    replays.sort_unstable();
    let replayed = replays[REPLAYS / 2];
    let pair = Pair { ours: replayed, anchor: durable };
    let faster = 1.0 / pair.ratio();
    println!(
        "{:<34} replay  {:>9}   durable {:>9}   {faster:.1} times faster (target at least 10)",
        format!("{TURNS} turns"),
        show(replayed),
        show(durable),
    );
    let host = Host::open(&root).expect("the data root");
    bundle(&host, &Selection { agent, turns: Some((1, 1_000)) });
}

fn bundle(host: &Host, turns: &Selection) {
    let mut bytes = Vec::new();
    let exported = time(|| bytes = host.export(std::slice::from_ref(turns)).expect("a bundle"));
    let engine = lazaret_guest::Engine::new().expect("an engine");
    let mut matched = 0;
    let verified = time(|| {
        let report = verify_bundle(&engine, &bytes, |_, _, _| ()).expect("a bundle that holds");
        matched = report.verdicts.iter().filter(|(.., verdict)| *verdict == Verdict::Match).count();
    });
    assert_eq!(matched, 1_000, "every turn matches");
    println!(
        "{:<34} verify  {:>9}   export  {:>9}   {} bytes",
        "bundle of 1000 turns",
        show(verified),
        show(exported),
        bytes.len()
    );
}
