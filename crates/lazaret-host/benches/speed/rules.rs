//! How soon an edit of the rules acts, and how fast the past is decided again.

use std::path::Path;
use std::time::{Duration, Instant};

use lazaret_gate::policy::Policies;
use lazaret_gate::{AgentId, Outcome};
use lazaret_host::{Host, backtest as decide_again};

use crate::guests;
use crate::timing::{median, show, time};

/// Fifty rules of the sorts that people write. Those about storage, ten and two, all read what is asked for; `seed` is in
/// every one of them, and only one rule says what the measured agent may do.
fn fifty(seed: u32, permit: bool) -> String {
    let mut text = String::new();
    for n in 0..10 {
        let bytes = 1_000_000 + seed;
        text += &format!(
            r#"
@id("reads-{n}")
permit (principal in App::"app-{n}", action == Action::"http.fetch", resource in Host::"host-{n}.example.com")
when {{ ["GET", "HEAD"].contains(context.method) && context.path like "/v{n}/*" && context.bytes < {bytes} }};

@id("writes-{n}")
@requireApproval("a write")
permit (principal in App::"app-{n}", action == Action::"http.fetch", resource in Host::"host-{n}.example.com")
when {{ context.method == "POST" && context.bytes < {bytes} }}
unless {{ context.risk.tier == "high" || context.spent > 5000000 }};

@id("tools-{n}")
permit (principal in App::"app-{n}", action == Action::"tool.call", resource in Tool::"tool-{n}")
when {{ context.risk.score < 700 && !context.labels.contains("secret-{n}") && context.bytes < {bytes} }};

@id("secrets-{n}")
forbid (principal is Agent, action in Action::"storage.*", resource)
when {{ context.path like "secret-{n}/*" && context.bytes < {bytes} && context.tier == "A" }};
"#
        );
    }
    for n in 0..8 {
        let bytes = 1_000_000 + seed;
        text += &format!(
            r#"
@id("labels-{n}")
forbid (principal, action in [Action::"http.*", Action::"tool.*"], resource)
when {{ context.labels.containsAll(["private", "from-{n}"]) && context.bytes < {bytes} }};
"#
        );
    }
    let effect = if permit { "permit" } else { "forbid" };
    text += &format!(
        r#"
@id("changes")
permit (principal, action in [Action::"storage.set", Action::"storage.delete"], resource)
when {{ context.bytes < {} }};

@id("reading")
{effect} (principal, action == Action::"storage.get", resource) when {{ context.path like "key*" }};
"#,
        1_000_000 + seed
    );
    text
}

/// Puts a file of rules in place, as an editor does that writes beside and renames.
fn put(root: &Path, text: &str) -> Instant {
    let beside = root.with_extension("draft");
    std::fs::write(&beside, text).expect("a draft");
    let start = Instant::now();
    std::fs::rename(beside, root.join("policy/fifty.cedar")).expect("a rename");
    start
}

fn host(root: &Path) -> (Host, AgentId) {
    let host = Host::open(root).expect("a data root");
    put(root, &fifty(0, true));
    std::fs::remove_file(root.join("policy/default.cedar")).expect("the preset's file");
    let agent = guests::create(&host, "asker", &guests::asker());
    (host, agent)
}

/// Whether the agent's one ask is let through.
fn asks(host: &Host, agent: &AgentId) -> bool {
    let turn = host.send(agent, guests::message(&1_u32.to_le_bytes())).expect("a turn");
    matches!(turn.record.tape[0].outcome, Outcome::Done(_))
}

/// From the rename of a file of fifty rules into the policy folder to the end of a turn whose effect they decided: each
/// edit turns a permit into a forbid or back, and the very next effect must show it.
pub(crate) fn edit() {
    const EDITS: u32 = 50;
    let dir = guests::data_root();
    let root = dir.path().join("root");
    let (host, agent) = host(&root);
    assert!(asks(&host, &agent), "fifty rules are in force");
    let mut permit = true;
    let mut measure = |what: &str, seed: fn(u32) -> u32| {
        let mut times: Vec<Duration> = Vec::new();
        for number in 1..=EDITS {
            permit = !permit;
            let start = put(&root, &fifty(seed(number), permit));
            assert_eq!(asks(&host, &agent), permit, "the next effect is decided by the new rules");
            times.push(start.elapsed());
        }
        let worst = times.iter().max().copied().unwrap_or_default();
        println!("{what:<34} median {:>9}   worst {:>9}   (target at most 10 ms)", show(median(times)), show(worst));
    };
    measure("edit to effect, one rule of 50", |_| 0);
    measure("edit to effect, all 50 rules", |number| number);
    let turn = median((0..50).map(|_| time(|| asks(&host, &agent))).collect());
    println!("  both end with a turn on disk, which alone takes {}", show(turn));
}

/// The recorded past, decided again by the rules in force and by a draft: the same call as `lazaret policy backtest`,
/// reading of the journal included. No two effects are alike in what the rules read.
pub(crate) fn backtest() {
    const TURNS: u32 = 2_000;
    const ASKS: u32 = 20;
    let dir = guests::data_root();
    let root = dir.path().join("root");
    let (host, agent) = host(&root);
    for turn in 0..TURNS {
        let message = [ASKS.to_le_bytes(), (turn * ASKS).to_le_bytes()].concat();
        guests::send(&host, &agent, &message);
    }
    let load = |text: String| Policies::load(&[("fifty.cedar", text)]).expect("rules");
    let (old, other) = (load(fifty(0, true)), load(fifty(0, false)));
    let new = load(fifty(1, true).replace("like \"key*\"", "like \"keya*\""));
    drop(host);
    let reader = lazaret_store::Store::open_read_only(&root).expect("a data root");
    let measure = |what: &str, draft: &Policies, most: u64| {
        let mut changed = 0;
        let mut times = (0..5).map(|_| {
            time(|| {
                let found = decide_again(&reader, 0, &old, draft).expect("a past");
                assert_eq!((found.total(), found.unknown), (u64::from(TURNS * ASKS), 0), "everything is decided again");
                changed = found.changed();
            })
        });
        let took = median(times.by_ref().collect());
        assert!(changed > 0 && changed <= most, "{changed} are decided otherwise");
        let rate = f64::from(TURNS * ASKS) / took.as_secs_f64();
        println!("{what:<34} {rate:>9.0} effects per second (target at least 20000); {changed} change");
    };
    measure("backtest, one rule differs", &other, u64::from(TURNS * ASKS));
    measure("backtest, all 50 rules differ", &new, u64::from(TURNS * ASKS) - 1);
}
