//! Replay keeps an agent's instance from turn to turn. It must say exactly what it says when it doesn't: of what happened,
//! and of what did not.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test reads guests from the disk, prints what it counted, and one that can't go on has failed"
)]

use std::path::Path;
use std::sync::Arc;

use lazaret_gate::record::{Ending, Message, TurnRecord};
use lazaret_gate::{AgentId, Answer, Budget, Digest, Grants, Outcome};
use lazaret_host::{Host, NewAgent, Replayer, Selection, Verdict};
use tempfile::TempDir;

/// An agent that remembers, asks, fails, traps and runs dry.
const SESSION: [&str; 18] = [
    "add 5",
    "recall",
    "roll",
    "stored",
    "fail on purpose",
    "add 7",
    "add 8",
    "crash",
    "add 9",
    "say hello",
    "nonsense",
    "roll",
    "rolls",
    "add -3",
    "spin",
    "add 4",
    "stored",
    "recall",
];

fn built(guest: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/build/{guest}.wasm"));
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; `sh guests/build.sh` makes it", path.display()))
}

/// An agent with a heap of so many 64 KiB pages that changes as many pages of 4 KiB as it is told, and does what is
/// written here before.
fn heap(pages: u32, first: &str) -> Vec<u8> {
    let text = include_str!("../benches/speed/heap.wat").replace("PAGES", &pages.to_string());
    let (start, rest) = text.split_once("(local.set $pages").expect("the guest's handler");
    wat::parse_str(format!("{start}{first}(local.set $pages{rest}")).expect("the guest's text")
}

struct Past {
    host: Host,
    records: Vec<Arc<TurnRecord>>,
    _dir: TempDir,
}

impl Past {
    /// What an agent did.
    fn new(component: &[u8], fuel: u64, messages: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::open(&dir.path().join("root")).unwrap();
        let agent: AgentId = "agent".parse().unwrap();
        let budget = Budget { fuel, ..Budget::default() };
        let (grants, caps) = (Grants::basic(), lazaret_gate::ledger::Caps::default());
        host.create(NewAgent { agent: agent.clone(), grants, budget, caps, slots: Default::default() }, component)
            .unwrap();
        for body in messages {
            host.send(&agent, Message::outside("text/plain", body)).unwrap();
        }
        let records = host.turns(&Selection { agent, turns: None }).unwrap();
        Self { host, records: records.into_iter().map(|(_, record)| Arc::new(record)).collect(), _dir: dir }
    }

    /// The verdicts on these turns, which must not depend on keeping.
    fn verdicts(&self, records: &[Arc<TurnRecord>]) -> Vec<Verdict> {
        let mut keeping = Replayer::new(self.host.engine(), &self.host);
        let mut fresh = Replayer::new(self.host.engine(), &self.host).without_keeping();
        let verdicts: Vec<_> = records.iter().map(|record| keeping.verify(record)).collect();
        assert_eq!(keeping.misled(), 0, "a kept instance did what a fresh one didn't");
        for (record, verdict) in records.iter().zip(&verdicts) {
            assert_eq!(*verdict, fresh.verify(record), "turn {} says something else when kept", record.turn);
        }
        verdicts
    }

    fn all_match(&self) {
        let verdicts = self.verdicts(&self.records);
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match), "{verdicts:?}");
    }
}

type Lie = fn(&mut TurnRecord);

/// Ways to say what did not happen. One that doesn't apply to a turn leaves its record as it is.
const LIES: [(&str, Lie); 13] = [
    ("more fuel", |record| record.fuel += 1),
    ("another answer", |record| {
        if let Ending::Replied(reply) = &mut record.ending {
            reply.body.0.push(b'!');
        }
    }),
    ("another question", |record| record.input.body = "add 1000".into()),
    ("a failure", |record| {
        record.ending = Ending::Failed(lazaret_gate::record::Failure::Failed("no".into()));
    }),
    ("an effect less", |record| drop(record.tape.pop())),
    ("an effect more", |record| record.tape.extend(record.tape.first().cloned())),
    ("other random bytes", |record| {
        for entry in &mut record.tape {
            if let Outcome::Done(Answer::Random(bytes)) = &mut entry.outcome {
                bytes.0[0] ^= 1;
            }
        }
    }),
    ("too little fuel", |record| record.budget.fuel = record.fuel / 2),
    ("too little memory", |record| record.budget.memory = 1 << 16),
    ("no effects", |record| record.budget.effects = 0),
    ("no grants", |record| record.grants = Grants::new(Vec::new())),
    ("another image after", |record| record.image_after = Some(Digest([7; 32]))),
    ("no image before", |record| record.image_before = None),
];

/// Every lie about every turn, one at a time, with the truth before and after.
fn lies_are_seen(past: &Past) -> usize {
    let mut seen = 0;
    for (what, lie) in LIES {
        for at in 0..past.records.len() {
            let mut lying = (*past.records[at]).clone();
            lie(&mut lying);
            if lying == *past.records[at] {
                continue;
            }
            let around = at.saturating_sub(2)..past.records.len().min(at + 3);
            let mut records = past.records[around.clone()].to_vec();
            records[at - around.start] = Arc::new(lying);
            let verdicts = past.verdicts(&records);
            for (turn, verdict) in around.zip(&verdicts) {
                // Of a turn that asks for nothing, whether it might have doesn't show.
                let harmless = matches!(what, "no effects" | "no grants") && past.records[turn].tape.is_empty();
                assert_eq!(
                    *verdict == Verdict::Match,
                    turn != at || harmless,
                    "{what} in turn {at}, so turn {turn}: {verdict:?}"
                );
            }
            seen += 1;
        }
    }
    seen
}

fn session(guest: &str, fuel: u64) {
    let past = Past::new(&built(guest), fuel, SESSION.map(|text| text.as_bytes().to_vec()));
    past.all_match();
    let lies = lies_are_seen(&past);
    println!("{guest}: {} turns, {lies} lies", past.records.len());
    assert!(lies > 100, "only {lies} lies");
}

#[test]
fn an_agent_in_rust() {
    session("rust-counter", 50_000_000);
}

#[test]
fn an_agent_in_c() {
    session("c-counter", 50_000_000);
}

#[test]
fn an_agent_in_javascript() {
    session("js-counter", 200_000_000);
}

#[test]
fn an_agent_that_reads_mail() {
    let past = Past::new(&built("mailbox"), 2_000_000_000, ["check", "", "check"].map(|text| text.as_bytes().to_vec()));
    past.all_match();
}

fn numbers(of: &[u32]) -> Vec<Vec<u8>> {
    of.iter().map(|number| number.to_le_bytes().to_vec()).collect()
}

/// More pages than are held beside an instance, few, none, and the same again: every way in which an instance is let go.
#[test]
fn agents_that_change_much_and_little() {
    let few = [3; 20];
    let changes = [&[u32::MAX, 3, 164, 0, 0, 1200][..], &few, &[700, 1, 1, 1, u32::MAX, 5], &few, &[300, 2, 2, 2]];
    Past::new(&heap(80, ""), 2_000_000_000, numbers(&changes.concat())).all_match();
}

/// Memory that grows in every turn, and what was grown is written to.
#[test]
fn an_agent_that_grows() {
    let past = Past::new(&heap(1, "(drop (memory.grow (i32.const 3)))"), 2_000_000_000, numbers(&[40; 30]));
    past.all_match();
    let small = |record: &TurnRecord| {
        Arc::new(TurnRecord { budget: Budget { memory: 20 << 16, ..record.budget.clone() }, ..record.clone() })
    };
    let records: Vec<_> = past.records.iter().map(|record| small(record)).collect();
    let verdicts = past.verdicts(&records);
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Match).count(), 6, "{verdicts:?}");
}

/// A trap in the middle of writing: the next turn must not see what was written.
#[test]
fn an_agent_that_traps_half_way() {
    let trap =
        "(if (i32.eq (i32.load (local.get $body)) (i32.const 77)) (then (call $change (i32.const 9)) unreachable))";
    Past::new(&heap(2, trap), 2_000_000_000, numbers(&[3, 4, 77, 5, 6, 77, 77, 7, 3])).all_match();
}
