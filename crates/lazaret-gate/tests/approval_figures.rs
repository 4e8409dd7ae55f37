//! Approvals under attack, in figures: `cargo test -p lazaret-gate --test approval_figures`.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]
#![expect(clippy::disallowed_methods, reason = "a test prints its figures past the capture")]

#[path = "approval/gate.rs"]
mod gate;
#[path = "approval/world.rs"]
mod world;

use std::io::Write as _;
use std::sync::{Barrier, Mutex};

use gate::Gate;
use lazaret_gate::Effect;
use lazaret_gate::approval::Now;
use lazaret_gate::effect::{Header, Prompt, Request, Role, Utterance};
use serde_json::Value;
use world::{PATIENCE, at, get, now, send};

const MUTATIONS: usize = 10_000;
const ATTEMPTS: usize = 1_000;
const JUMPS: usize = 1_000;

fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((mixed ^ mixed >> 27) >> 33).unwrap() % limit
    }
}

fn effects() -> Vec<Effect> {
    let post = Request {
        method: "POST".into(),
        url: "https://api.example.com/v1/pay?to=ann".into(),
        headers: vec![
            Header { name: "content-type".into(), value: "application/json".into() },
            Header { name: "x-note".into(), value: "naive cafe".into() },
        ],
        body: "{\"amount\":100,\"to\":\"ann\"}".into(),
    };
    let said = |role, text: &str| Utterance { role, text: text.into() };
    let utterances = vec![said(Role::System, "Be brief."), said(Role::User, "Pay 100 to Ann.")];
    vec![
        send("ann@example.com"),
        get("https://api.example.com/v1/items/1"),
        Effect::HttpFetch(post),
        Effect::ModelGenerate(Prompt { model: "rehearsal/large".into(), utterances, max_tokens: 100 }),
        Effect::StorageSet { key: "notes/1".into(), value: "hello".into() },
        Effect::StorageDelete { key: "notes/1".into() },
        Effect::StorageList { prefix: "notes/".into(), after: Some("notes/1".into()), limit: 10 },
        Effect::AgentsSend { to: "bob".into(), content_type: "text/plain".into(), body: "hello".into() },
        Effect::RandomBytes { len: 32 },
    ]
}

/// Changes one leaf of a JSON value, or one length of a list.
fn change(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Object(fields) => {
            let at = dice.below(fields.len().max(1));
            if let Some(field) = fields.values_mut().nth(at) {
                change(field, dice);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = dice.below(items.len());
            match dice.below(4) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => change(&mut items[at], dice),
            }
        }
        Value::String(text) => *text = changed_text(text, dice),
        Value::Number(number) => {
            let new = number.as_u64().unwrap_or(0) ^ (1 << dice.below(20));
            *value = new.into();
        }
        other => *other = if dice.below(2) == 0 { "x".into() } else { Value::Null },
    }
}

/// Another text that could pass for it: a character more, less, swapped, in another case, or a look-alike.
fn changed_text(text: &str, dice: &mut Dice) -> String {
    const KINDS: [&str; 6] =
        ["storage.get", "storage.delete", "storage.set", "clock.now", "tools.list", "environment.read"];
    const INSERTS: [char; 8] = ['a', '0', ' ', '\u{200b}', '\u{202e}', '\u{301}', '.', '='];
    const ALIKE: [(char, char); 6] =
        [('a', '\u{430}'), ('e', '\u{435}'), ('o', '\u{43e}'), ('.', '\u{2024}'), ('/', '\u{2215}'), ('1', 'l')];
    let mut chars: Vec<char> = text.chars().collect();
    let place = dice.below(chars.len().max(1));
    match dice.below(6) {
        0 if !chars.is_empty() => drop(chars.remove(place)),
        1 if !chars.is_empty() => {
            chars[place] = match chars[place] {
                c if c.is_lowercase() => c.to_ascii_uppercase(),
                c => c.to_ascii_lowercase(),
            }
        }
        2 if chars.len() > 1 => chars.swap(place, (place + 1) % text.chars().count()),
        3 => {
            let (from, to) = ALIKE[dice.below(ALIKE.len())];
            chars.iter_mut().filter(|c| **c == from).take(1).for_each(|c| *c = to);
        }
        4 => return KINDS[dice.below(KINDS.len())].to_owned(),
        _ => chars.insert(place, INSERTS[dice.below(INSERTS.len())]),
    }
    chars.into_iter().collect()
}

#[test]
fn mutated_effects_do_not_run() {
    let mut dice = Dice(7);
    let effects = effects();
    let mut gates: Vec<Gate> = effects.iter().map(|effect| Gate::approved(effect.clone())).collect();
    for (gate, effect) in gates.iter().zip(&effects) {
        assert!(gate.clone().runs(effect.clone(), &at(20)), "unchanged, each runs: {effect:?}");
    }
    let (mut tried, mut ran) = (0, 0);
    while tried < MUTATIONS {
        let which = dice.below(effects.len());
        let mut value = serde_json::to_value(&effects[which]).unwrap();
        change(&mut value, &mut dice);
        // What is no effect any more can't reach the gate; what is the same by chance is no mutation.
        let Ok(mutant) = serde_json::from_value::<Effect>(value) else { continue };
        if mutant == effects[which] {
            continue;
        }
        tried += 1;
        ran += usize::from(gates[which].runs(mutant, &at(20)));
    }
    let asked: usize = gates.iter().map(Gate::asked).sum();
    say(&format!("mutated effects: {tried} tried between approval and execution ({asked} got as far), {ran} executed"));
    assert_eq!(ran, 0);
    assert!(asked > MUTATIONS / 2, "most must be stopped by the approval and by nothing before it: {asked}");
}

#[test]
fn one_approval_runs_once() {
    let effect = send("ann@example.com");
    let gate = Mutex::new(Gate::approved(effect.clone()));
    let start = Barrier::new(ATTEMPTS);
    let ran: usize = std::thread::scope(|scope| {
        let attempts: Vec<_> = (0..ATTEMPTS)
            .map(|_| {
                let work = || {
                    start.wait();
                    gate.lock().unwrap().runs(effect.clone(), &at(20))
                };
                std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, work).unwrap()
            })
            .collect();
        attempts.into_iter().map(|attempt| usize::from(attempt.join().unwrap())).sum()
    });
    say(&format!("one approval: {ATTEMPTS} concurrent attempts, {ran} executed"));
    assert_eq!(ran, 1);
}

#[test]
fn one_approval_is_for_one_run_of_one_agent() {
    let effect = send("ann@example.com");
    let gate = Gate::approved(effect.clone());
    assert!(gate.clone().runs(effect.clone(), &at(20)));
    assert!(!gate.clone().in_run("run-8").runs(effect.clone(), &at(20)), "another run");
    assert!(!gate.of_agent("other").runs(effect, &at(20)), "another agent");
}

#[test]
fn expired_approvals_do_not_run() {
    let mut dice = Dice(11);
    let effect = send("ann@example.com");
    let gate = Gate::approved(effect.clone());
    let patience = usize::try_from(PATIENCE).unwrap();
    let (mut expired_ran, mut good_ran) = (0, 0);
    for _ in 0..JUMPS {
        let early = i64::try_from(10 + dice.below(patience - 10)).unwrap();
        let far = 1 << (1 + dice.below(30));
        let late = i64::try_from(patience + dice.below(far)).unwrap();
        let back = -i64::try_from(dice.below(1 << 30)).unwrap();
        let jump = match dice.below(6) {
            0 => now(late, early),
            1 => now(early, late),
            2 => now(back, late),
            3 => now(late, late),
            4 => now(early, -1 - early),
            _ => Now { boot: "boot-2".into(), ..now(early, early) },
        };
        expired_ran += usize::from(gate.clone().runs(effect.clone(), &jump));
        let good = if dice.below(2) == 0 { now(back, early) } else { now(early, early) };
        good_ran += usize::from(gate.clone().runs(effect.clone(), &good));
    }
    say(&format!("clock jumps: {JUMPS} past the end, {expired_ran} executed; {JUMPS} within it, {good_ran} executed"));
    assert_eq!((expired_ran, good_ran), (0, JUMPS));
}
