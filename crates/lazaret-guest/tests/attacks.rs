//! Hostile guests. Each file of `tests/attacks` is one: it says in its header what it tries and how it must end. After
//! each, the host must be as it was. A new attack is a new file there, not new code here.

#![expect(clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a test reads its data files and prints")]

mod support {
    pub(crate) mod attack;
    pub(crate) mod bombs;
    pub(crate) mod unharmed;
    pub(crate) mod world;
    pub(crate) mod wrap;
}

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lazaret_gate::record::{Cause, Reply, Stop, World};
use lazaret_gate::{Ending, Outcome, TapeEntry};
use lazaret_guest::{Engine, State, Terms, turn};

use support::attack::{Attack, Came};
use support::unharmed::{self, Host};
use support::world::Memory;

/// No attack may hold the host longer: the longest are those that a compiler works on.
const LONGEST: Duration = Duration::from_secs(120);

/// Resident memory that no attack may exceed, whatever it was budgeted.
const MOST_MEMORY: u64 = 1 << 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn attacks() -> Vec<Attack> {
    let directory = root().join("tests/attacks");
    let entries = std::fs::read_dir(&directory).expect("tests/attacks is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    let only = std::env::var("LAZARET_ATTACK").unwrap_or_default();
    paths.retain(|path| path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains(&only)));
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("an attack is text");
        Attack::parse(path, &text).unwrap_or_else(|why| panic!("{why}"))
    };
    paths.iter().map(read).collect()
}

/// From bytes to the end of its first turn.
fn launch(engine: &Engine, attack: &Attack, bytes: &[u8]) -> Came {
    let admitted = match engine.admit(bytes) {
        Ok(admitted) => admitted,
        Err(why) => return Came::Inadmissible(why.to_string()),
    };
    let mut state = State::default();
    state.advance(&admitted.birth);
    state.settle(admitted.birth).expect("there is room for a newborn");
    let world = Box::new(Memory::new(attack.grants.clone(), attack.budget.clone()));
    let terms = Terms { input: &attack.input, budget: &attack.budget };
    let ran = turn::run(&admitted.program, &state, &terms, world);
    let tape = Memory::tape(ran.world);
    match ran.ending {
        Ok(ending) => {
            let durable = admitted.program.lives() == World::Durable;
            Came::Ran { ending, tape, changed: ran.change.is_some(), durable }
        }
        Err(halt) => Came::Halted(halt.to_string()),
    }
}

/// Launches it in a thread of its own, and judges. A hang can't be undone: it ends the test.
fn contain(engine: &Engine, attack: Attack) -> Result<String, String> {
    let bytes = attack.bytes()?;
    unharmed::forget_peak();
    let (sender, receiver) = mpsc::channel();
    let engine = engine.clone();
    let started = Instant::now();
    let thread = std::thread::spawn(move || {
        let came = launch(&engine, &attack, &bytes);
        let verdict = attack.judge(&came).map(|()| came.to_string());
        let _ = sender.send(());
        verdict
    });
    if receiver.recv_timeout(LONGEST) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("it still runs after {LONGEST:?}");
    }
    let verdict = thread.join().map_err(|_| "it made the host panic".to_owned())??;
    let (took, peak) = (started.elapsed(), unharmed::peak());
    if peak > MOST_MEMORY {
        return Err(format!("it made the host take {} MiB", peak >> 20));
    }
    Ok(format!("{:>5} ms {:>4} MiB  {verdict}", took.as_millis(), peak >> 20))
}

#[test]
fn every_attack_is_contained() {
    a_wrong_ending_is_an_escape();
    let engine = Engine::new().expect("the engine starts here");
    let good = root().join("guests/build/rust-counter.wasm");
    let good =
        std::fs::read(&good).unwrap_or_else(|why| panic!("{}: {why}; `cargo xtask guests` builds it", good.display()));
    let host = Host::at_rest(&engine, good);
    let (mut contained, mut escaped) = (0, Vec::new());
    for attack in attacks() {
        let name = attack.name.clone();
        println!("{name}: {}", attack.what);
        match contain(&engine, attack).and_then(|how| host.check().map(|()| how)) {
            Ok(how) => {
                contained += 1;
                println!("    {how}");
            }
            Err(how) => {
                println!("    ESCAPED: {how}");
                escaped.push(format!("{name}: {how}"));
            }
        }
    }
    host.check_admission(&engine).expect("the host is unharmed");
    // Past the test harness's capture: the figure is what this test is run for.
    let _ = writeln!(std::io::stderr(), "attacks: {contained} contained, {} escaped", escaped.len());
    let least = if std::env::var("LAZARET_ATTACK").is_ok() { 1 } else { 150 };
    assert!(contained + escaped.len() >= least, "attacks are missing");
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// The judge says no when it must: a harness that can't fail shows nothing. Called and not a test of its own: a second test's thread would be counted as an attack's.
fn a_wrong_ending_is_an_escape() {
    let attack = |header: &str| Attack::parse(Path::new("a.wat"), &format!(";; attack: a\n{header}"));
    let judge = |header: &str, came: &Came| attack(header).expect("a lawful header").judge(came);
    let ran = |ending, changed| Came::Ran { ending, tape: Vec::new(), changed, durable: true };
    let replied = |text: &str| Ending::Replied(Reply { content_type: "t".into(), body: text.into() });
    let stopped = |cause| Ending::Stopped(Stop { cause, detail: "because".into() });
    let refused = Came::Inadmissible("too large".into());

    let lawful = [
        (";; expect: admission refused: large", &refused),
        (";; expect: stopped: trap because", &ran(stopped(Cause::Trap), false)),
        (";; expect: replied done", &ran(replied("done"), true)),
    ];
    for (header, came) in lawful {
        judge(header, came).unwrap_or_else(|why| panic!("{header}: {why}"));
    }
    let asked = vec![TapeEntry {
        effect: lazaret_gate::Effect::ClockNow {},
        outcome: Outcome::Failed("no".into()),
        ruling: None,
    }];
    let asked = Came::Ran { ending: replied("done"), tape: asked, changed: true, durable: true };
    let escapes = [
        (";; expect: admission refused: small", &refused),
        (";; expect: replied", &refused),
        (";; expect: stopped: fuel", &ran(stopped(Cause::Trap), false)),
        (";; expect: stopped: trap reason", &ran(stopped(Cause::Trap), false)),
        (";; expect: stopped: trap", &ran(stopped(Cause::Trap), true)),
        (";; expect: stopped: trap", &Came::Halted("the journal can't be written".into())),
        (";; expect: replied done", &ran(replied("undone"), true)),
        (";; expect: replied done", &ran(replied("done"), false)),
        (";; expect: failed", &ran(replied("done"), true)),
        (";; expect: replied done\n;; effects: 0", &asked),
        (";; expect: replied done\n;; refused: 1", &asked),
        (";; expect: replied done\n;; refusal: not-granted", &asked),
        (";; expect: admission refused: x", &Came::Inadmissible("x".repeat(5000))),
    ];
    for (header, came) in escapes {
        judge(header, came).expect_err(header);
    }
    for header in ["", ";; expect: stoped: fuel", ";; expect: replied\n;; efects: 1", ";; expect: admission refused:"] {
        assert!(attack(header).is_err(), "`{header}` is understood");
    }
}
