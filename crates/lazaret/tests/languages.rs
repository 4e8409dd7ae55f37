//! Agents of four languages, each turn in a process of its own that is killed: in the middle, or after its reply and
//! before it could close anything. Their state goes on as a model says; every turn replays on a copy of the data root;
//! their bundles convince the binary and the checker that shares no code with it.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use station::{Dice, done, lazaret, number, say};

const LANGUAGES: [&str; 4] = ["rust", "c", "js", "python"];

const TURNS: u64 = 20;

const SIGKILL: i32 = 9;

/// What a counter must remember.
#[derive(Default)]
struct Model {
    numbers: Vec<i64>,
    rolls: Vec<String>,
}

impl Model {
    fn total(&self) -> i64 {
        self.numbers.iter().sum()
    }

    /// The reply to a message, if it can be known before. Takes it in.
    fn answer(&mut self, message: &str) -> Option<String> {
        let list = self.numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match message.split_once(' ') {
            Some(("add", number)) => {
                self.numbers.push(number.parse().expect("a number"));
                Some(format!("total={} count={}", self.total(), self.numbers.len()))
            }
            None if message == "recall" => Some(list),
            // Each `add` writes the total once, so its version is their number.
            None if message == "stored" => Some(format!("stored={}@{}", self.total(), self.numbers.len())),
            None if message == "rolls" => Some(self.rolls.join(",")),
            _ => None,
        }
    }
}

fn message(turn: u64, dice: &mut Dice) -> String {
    match turn {
        6 | 12 | 18 => "recall".to_owned(),
        7 | 14 => "roll".to_owned(),
        13 => "stored".to_owned(),
        20 => "rolls".to_owned(),
        _ => format!("add {}", dice.below(2_000_001) as i64 - 1_000_000),
    }
}

/// A turn whose process is killed as soon as it has replied: its remark about the turn goes into a pipe that is full, so
/// it waits there, with the data root open.
fn acknowledged(root: &Path, agent: &str, message: &str) -> String {
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'.'; 65536]).expect("an empty pipe takes this much");
    let mut command = lazaret(root);
    command.args(["agent", "send", agent, message]).stdout(Stdio::piped()).stderr(writer);
    let mut process = command.spawn().expect("the command starts");
    let mut reply = String::new();
    let stdout = process.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut reply).expect("the reply is text");
    process.kill().expect("it can be killed");
    let status = process.wait().expect("it ends");
    assert_eq!(status.signal(), Some(SIGKILL), "{agent}: `{message}` ended by itself with {status}, after `{reply}`");
    reply.trim_end_matches('\n').to_owned()
}

/// A turn whose process is killed at some moment, perhaps before it did anything, perhaps too late.
fn interrupted(root: &Path, agent: &str, message: &str, after: Duration) {
    let mut command = lazaret(root);
    command.args(["agent", "send", agent, message]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().expect("the command starts");
    std::thread::sleep(after);
    process.kill().expect("it can be killed");
    process.wait().expect("it ends");
}

fn turns_taken(root: &Path, agent: &str) -> u64 {
    let shown = done(lazaret(root).args(["agent", "show", agent, "--json"]));
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown["turn"].as_u64().expect("a number of turns")
}

/// How often an agent's process was killed.
#[derive(Default)]
struct Kills {
    /// After its reply.
    after: u32,
    /// At some moment, and the turn had happened.
    kept: u32,
    /// At some moment, and it was as if the message had never been sent.
    undone: u32,
}

fn live(root: &Path, agent: &str, dice: &mut Dice) -> Kills {
    let (mut model, mut kills) = (Model::default(), Kills::default());
    let mut usual = Duration::from_millis(200);
    for turn in 1..=TURNS {
        let message = message(turn, dice);
        let expected = model.answer(&message);
        if expected.is_some() && dice.below(2) == 0 {
            let after = usual.mul_f64(dice.below(1000) as f64 / 800.0);
            interrupted(root, agent, &message, after);
            // Nobody was told; what counts is that it happened whole or not at all.
            match turns_taken(root, agent) {
                taken if taken == turn => {
                    kills.kept += 1;
                    continue;
                }
                taken => assert_eq!(taken, turn - 1, "{agent}: a turn was lost or taken twice"),
            }
            kills.undone += 1;
        }
        let begun = Instant::now();
        let reply = acknowledged(root, agent, &message);
        usual = begun.elapsed();
        kills.after += 1;
        match expected {
            Some(expected) => assert_eq!(reply, expected, "{agent}, turn {turn}: `{message}`"),
            None => {
                assert!(reply.starts_with("random="), "{agent}, turn {turn}: `{message}` got `{reply}`");
                assert!(!model.rolls.contains(&reply), "{agent}, turn {turn}: the same roll twice");
                model.rolls.push(reply);
            }
        }
        assert_eq!(turns_taken(root, agent), turn, "{agent}: a turn was lost or taken twice");
    }
    kills
}

/// Replays everything on a copy and counts.
fn replayed(copy: &Path) -> usize {
    let mut command = lazaret(copy);
    let verdicts = done(command.args(["replay", "verify", "--json"]).args(LANGUAGES));
    let verdicts: Vec<Value> = serde_json::from_str(&verdicts).expect("JSON");
    let matches = verdicts.iter().filter(|verdict| verdict["result"]["verdict"] == "match").count();
    assert_eq!(matches, verdicts.len(), "{verdicts:?}");
    matches
}

fn checked_twice(copy: &Path, agent: &str) -> usize {
    let bundle = copy.join(format!("{agent}.bundle"));
    done(lazaret(copy).args(["bundle", "export", agent, "-o"]).arg(&bundle));
    // A stranger has neither a data root nor anything compiled.
    let nowhere = copy.join("nowhere");
    let verified = done(lazaret(&nowhere).args(["verify", "--json"]).arg(&bundle));
    let verified: Value = serde_json::from_str(&verified).expect("JSON");
    assert_eq!(verified["match"], true);
    assert_eq!(verified["turns"].as_array().map(Vec::len), Some(TURNS as usize));
    assert!(!nowhere.exists(), "`verify` wrote into a data root");
    let checker = station::workspace().join("tools/check_bundle.py");
    let said = done(Command::new("python3").arg(checker).arg(&bundle));
    assert!(said.starts_with(&format!("OK  {TURNS} turns")), "{said}");
    std::fs::metadata(&bundle).expect("the bundle is there").len() as usize
}

#[test]
fn four_languages_sleep_and_wake_across_kills() {
    let guests = station::guests();
    let seed = number("LAZARET_SEED", 20);
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("data");
    say(&format!("languages: seed {seed}"));
    let mut table = Vec::new();
    for (number, language) in LANGUAGES.iter().enumerate() {
        let begun = Instant::now();
        let component = guests.join(format!("{language}-counter.wasm"));
        done(lazaret(&root).args(["agent", "create", language]).arg(component));
        let made = begun.elapsed();
        let kills = live(&root, language, &mut Dice(seed + number as u64));
        table.push((language, made, begun.elapsed() - made, kills));
    }
    done(lazaret(&root).args(["journal", "verify"]));
    let copy = dir.path().join("copy");
    station::copy_dir(&root, &copy);
    std::fs::remove_dir_all(&root).expect("the original goes, so that the copy stands alone");
    let matches = replayed(&copy);
    assert_eq!(matches as u64, LANGUAGES.len() as u64 * TURNS);
    for (language, made, lived, kills) in table {
        let begun = Instant::now();
        let bytes = checked_twice(&copy, language);
        let Kills { after, kept, undone } = kills;
        say(&format!(
            "  {language:<6} created in {:.1} s; {TURNS} turns in {:.1} s, killed {after} times after the reply and {} times \
             at any moment ({kept} kept, {undone} undone); bundle of {bytes} bytes verified twice in {:.1} s",
            made.as_secs_f64(),
            lived.as_secs_f64(),
            kept + undone,
            begun.elapsed().as_secs_f64()
        ));
    }
    say(&format!("languages: 4 x {TURNS} turns, state continued, {matches} MATCH, 4 bundles verified twice"));
}
