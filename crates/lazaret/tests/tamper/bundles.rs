//! Tampering with bundles, and whether both checkers say the same of the result.

use std::process::{Command, Stdio};

use lazaret_gate::bundle::check;
use lazaret_gate::{Digest, canonical};
use serde_json::{Value, json};

use crate::Fate;
use crate::station::{self, Dice, say};
use crate::world::World;

type Lines = Vec<Vec<u8>>;

pub(crate) struct Vandal<'a> {
    world: &'a World,
}

fn lines(bundle: &[u8]) -> Lines {
    bundle.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// The lines with an end that fits them; the last one was the old end.
fn mended(mut lines: Lines) -> Vec<u8> {
    lines.pop();
    let mut bytes = lines.concat();
    let end = canonical::encode(&json!({ "end": Digest::of(&bytes) })).expect("an end");
    bytes.extend_from_slice(&end);
    bytes.push(b'\n');
    bytes
}

impl<'a> Vandal<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        check(&world.bundle).expect("nothing is wrong before");
        check(&world.other).expect("nothing is wrong before");
        Self { world }
    }

    pub(crate) fn tamper(&mut self, dice: &mut Dice) -> Fate {
        let (how, bytes) = tampered(&self.world.bundle, &self.world.other, dice);
        if bytes == self.world.bundle || bytes == self.world.other {
            return Fate::Nothing;
        }
        match check(&bytes) {
            Err(_) if how.ends_with("end mended") => Fate::Found("checking a bundle whose end was mended"),
            Err(_) => Fate::Found("checking a bundle"),
            Ok(_) if says_less(&bytes, &self.world.bundle) => Fate::Nothing,
            Ok(_) => Fate::Unseen(how.to_owned()),
        }
    }
}

/// A bundle of fewer entries or checkpoints is a bundle too: the format says that they may be left out.
fn says_less(bytes: &[u8], whole: &[u8]) -> bool {
    let (mut some, mut all) = (lines(bytes), lines(whole));
    some.pop();
    all.pop();
    some.len() < all.len() && some.iter().all(|line| all.contains(line))
}

fn tampered(bundle: &[u8], other: &[u8], dice: &mut Dice) -> (&'static str, Vec<u8>) {
    if dice.below(3) == 0 { damaged(bundle, dice) } else { remade(bundle, other, dice) }
}

/// Changes bytes and mends nothing.
fn damaged(bundle: &[u8], dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let mut bytes = bundle.to_vec();
    let (at, to) = (dice.below(bytes.len()), dice.below(bytes.len()));
    let end = (at + 1 + dice.below(64)).min(bytes.len());
    match dice.below(8) {
        0..4 => bytes[at] ^= 1 << dice.below(8),
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..end)),
        6 => drop(bytes.splice(to..to, bundle[at..end].iter().copied())),
        _ => {
            let len = (end - at).min(bytes.len() - to);
            bytes[to..to + len].copy_from_slice(&bundle[at..at + len]);
        }
    }
    ("bytes changed", bytes)
}

/// Changes lines and mends the end.
fn remade(bundle: &[u8], other: &[u8], dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let mut lines = lines(bundle);
    let last = lines.len() - 1;
    // Blobs are many and alike: half of the time something else is chosen.
    let few = lines.iter().position(|line| line.starts_with(b"{\"blob\"")).unwrap_or(last);
    let range = if dice.below(2) == 0 { few } else { last };
    let (at, from) = (dice.below(range), dice.below(range));
    let how = match dice.below(12) {
        0 => {
            lines.swap(at, from);
            "lines swapped, end mended"
        }
        1 => {
            lines.insert(from, lines[at].clone());
            "a line repeated, end mended"
        }
        2 => {
            lines.remove(at);
            "a line removed, end mended"
        }
        3 => {
            let theirs = self::lines(other);
            lines[at] = theirs[dice.below(theirs.len() - 1)].clone();
            "a line from another journal, end mended"
        }
        4..6 => {
            let byte = dice.below(lines[at].len() - 1);
            lines[at][byte] ^= 1 << dice.below(8);
            "a bit flipped, end mended"
        }
        6..9 => {
            let theirs = value(&lines[from]);
            lines[at] = changed(&lines[at], |value| graft(value, &theirs, dice));
            "part of another line, end mended"
        }
        _ => {
            lines[at] = changed(&lines[at], |value| mutate(value, dice));
            "a value changed, end mended"
        }
    };
    (how, mended(lines))
}

fn value(line: &[u8]) -> Value {
    serde_json::from_slice(line).expect("a line is JSON")
}

/// The line after a change of its value, in canonical JSON.
fn changed(line: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = value(line);
    change(&mut value);
    let mut line = canonical::encode(&value).unwrap_or_else(|_| line.to_vec());
    line.push(b'\n');
    line
}

/// Walks down to some value that holds no others, or stops on the way at a list.
fn descend<'a>(value: &'a mut Value, dice: &mut Dice) -> &'a mut Value {
    let inside = match value {
        Value::Array(items) if dice.below(6) > 0 => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if inside == 0 {
        return value;
    }
    let at = dice.below(inside);
    let inner = match value {
        Value::Array(items) => items.get_mut(at),
        Value::Object(fields) => fields.values_mut().nth(at),
        _ => None,
    };
    descend(inner.expect("it was counted"), dice)
}

/// Puts what stands under the same keys of another line into this one: a turn's tape into another turn, for example.
fn graft(value: &mut Value, theirs: &Value, dice: &mut Dice) {
    if let (Value::Object(fields), Value::Object(from)) = (&mut *value, theirs) {
        let shared: Vec<_> = fields.keys().filter(|key| from.contains_key(*key)).cloned().collect();
        if !shared.is_empty() {
            let key = &shared[dice.below(shared.len())];
            let deeper = fields[key].is_object() && dice.below(4) > 0;
            return if deeper { graft(&mut fields[key], &from[key], dice) } else { fields[key] = from[key].clone() };
        }
    }
    *value = theirs.clone();
}

fn mutate(value: &mut Value, dice: &mut Dice) {
    let value = descend(value, dice);
    *value = match value.take() {
        Value::Null => json!("0".repeat(64)),
        Value::Bool(truth) => json!(!truth),
        Value::Number(number) => json!(number.as_u64().unwrap_or_default() ^ (1 << dice.below(20))),
        Value::String(text) => {
            let mut chars: Vec<char> = text.chars().collect();
            let at = dice.below(chars.len() + 1);
            let new = ['0', 'A', 'f', '=', 'é', '\u{0}'][dice.below(6)];
            match dice.below(3) {
                0 => chars.insert(at, new),
                1 => chars.truncate(at),
                _ if at < chars.len() => chars[at] = new,
                _ => chars.push(new),
            }
            json!(chars.into_iter().collect::<String>())
        }
        Value::Array(mut items) if !items.is_empty() => {
            let (at, to) = (dice.below(items.len()), dice.below(items.len()));
            match dice.below(3) {
                0 => drop(items.remove(at)),
                1 => items.insert(to, items[at].clone()),
                _ => items.swap(at, to),
            }
            Value::Array(items)
        }
        Value::Array(_) => json!(["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]),
        other => json!([other]),
    };
}

/// Tampers with a bundle that both can check in little time, and compares what they say.
pub(crate) fn agree(world: &World, seed: u64, count: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut dice = Dice(seed);
    let mut ours = Vec::new();
    for number in 0..count {
        let (how, bytes) = match number {
            0 => ("nothing changed", world.small.clone()),
            _ => tampered(&world.small, &world.other, &mut dice),
        };
        std::fs::write(dir.path().join(format!("{number}.bundle")), &bytes).expect("the bundle is written");
        ours.push((how, check(&bytes).is_ok()));
    }
    let mut command = Command::new("python3");
    command.arg(station::workspace().join("tools/check_bundle.py")).arg("--json").stderr(Stdio::inherit());
    command.args((0..count).map(|number| dir.path().join(format!("{number}.bundle"))));
    let said = command.output().expect("python3 starts");
    let theirs: Vec<Value> = String::from_utf8_lossy(&said.stdout).lines().map(|line| value(line.as_bytes())).collect();
    assert_eq!(theirs.len(), count, "the other checker says something of each bundle");
    let mut good = 0;
    for (number, ((how, ours), theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(*ours, theirs["verdict"] == "ok", "bundle {number}, {how}: the other checker says {theirs}");
        good += usize::from(*ours);
    }
    assert!((1..count / 4).contains(&good), "{good} of {count} are good");
    say(&format!("agreement: {count} bundles, {good} good and {} bad by both checkers", count - good));
}
