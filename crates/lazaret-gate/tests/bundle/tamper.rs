//! Strangers who change a bundle, with and without mending its end, and keepers who lie before they sign.

use lazaret_gate::bundle::check;
use lazaret_gate::canonical::{self, Bytes, Digest};
use lazaret_gate::merkle::{self, Hash, Prover};
use serde_json::{Value, json};

use crate::keeper::{Dice, Keeper};

pub(crate) type Lines = Vec<Vec<u8>>;

pub(crate) fn lines(bundle: &[u8]) -> Lines {
    bundle.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

pub(crate) fn join(lines: &Lines) -> Vec<u8> {
    lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
}

/// The lines with an end that fits them, whatever they are; the last line is dropped.
pub(crate) fn seal(mut lines: Lines) -> Vec<u8> {
    lines.pop();
    let end = json!({ "end": Digest::of(&join(&lines)) });
    lines.push(canonical::encode(&end).unwrap());
    join(&lines)
}

fn kind(line: &[u8]) -> &str {
    std::str::from_utf8(&line[2..]).unwrap().split('"').next().unwrap()
}

/// Changes bytes and mends nothing.
pub(crate) fn damage(bundle: &[u8], dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let mut bytes = bundle.to_vec();
    let at = dice.below(bytes.len());
    let len = 1 + dice.below(64).min(bytes.len() - at - 1);
    match dice.below(9) {
        0..=3 => {
            bytes[at] ^= 1 << dice.below(8);
            ("bit flip", bytes)
        }
        4 => {
            bytes.truncate(at);
            ("cut tail", bytes)
        }
        5 => {
            bytes.drain(at..at + len);
            ("cut out", bytes)
        }
        6 => {
            let part = bytes[at..at + len].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, part);
            ("insertion", bytes)
        }
        7 => {
            let part = bytes[at..at + len].to_vec();
            let to = dice.below(bytes.len() - len);
            bytes.splice(to..to + len, part);
            ("splice", bytes)
        }
        _ => {
            let mut lines = lines(bundle);
            let what = move_lines(&mut lines, dice);
            (what, join(&lines))
        }
    }
}

fn move_lines(lines: &mut Lines, dice: &mut Dice) -> &'static str {
    let (a, b) = (dice.below(lines.len()), dice.below(lines.len()));
    match dice.below(3) {
        0 => {
            lines.swap(a, b);
            "lines swapped"
        }
        1 => {
            let line = lines[a].clone();
            lines.insert(b, line);
            "line repeated"
        }
        _ => {
            lines.remove(a);
            "line removed"
        }
    }
}

/// Changes lines and mends the end.
pub(crate) fn reseal(bundle: &[u8], other: &[u8], dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let mut lines = lines(bundle);
    let last = lines.len() - 1;
    let at = dice.below(last);
    let what = match dice.below(10) {
        0 => {
            let to = dice.below(last);
            lines.swap(at, to);
            "lines swapped"
        }
        1 => {
            let line = lines[at].clone();
            lines.insert(dice.below(last), line);
            "line repeated"
        }
        2 => {
            let theirs = self::lines(other);
            lines[at] = theirs[dice.below(theirs.len() - 1)].clone();
            "line from another bundle"
        }
        3 => {
            let from = dice.below(last);
            lines[at] = swap_proof(&lines[at], &lines[from]);
            "another proof"
        }
        4 => {
            let byte = dice.below(lines[at].len());
            lines[at][byte] ^= 1 << dice.below(8);
            "bit flip"
        }
        5 => {
            let byte = dice.below(lines[at].len());
            lines[at].truncate(byte);
            "line cut"
        }
        _ => {
            let mut value: Value = serde_json::from_slice(&lines[at]).unwrap();
            mutate(&mut value, dice);
            lines[at] = serde_json_canonicalizer::to_vec(&value).unwrap();
            "value changed"
        }
    };
    (what, seal(lines))
}

fn swap_proof(line: &[u8], from: &[u8]) -> Vec<u8> {
    let (mut line, from): (Value, Value) =
        (serde_json::from_slice(line).unwrap(), serde_json::from_slice(from).unwrap());
    for key in ["inclusion", "consistency"] {
        if let (Some(to), Some(from)) = (line.get_mut(key), from.get(key)) {
            *to = from.clone();
        }
    }
    serde_json_canonicalizer::to_vec(&line).unwrap()
}

/// Removes a line and mends the end. That can give a lawful bundle that says less; it must not say anything else.
pub(crate) fn remove(bundle: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut lines = lines(bundle);
    lines.remove(dice.below(lines.len() - 1));
    seal(lines)
}

/// Whether this is no bundle, or says only what the other one says.
pub(crate) fn says_no_more(than: &[u8], bundle: &[u8]) -> bool {
    let (Ok(than), Ok(found)) = (check(than), check(bundle)) else {
        return true;
    };
    found.key == than.key && found.entries.iter().all(|entry| than.entries.contains(entry))
}

/// Changes one place of a JSON value.
pub(crate) fn mutate(value: &mut Value, dice: &mut Dice) {
    let place = pick_place(value, dice);
    *place = match std::mem::take(place) {
        Value::Null => dice.pick(&[json!(""), json!(0), json!({}), json!([]), json!("clerk")]).clone(),
        Value::Bool(truth) => dice.pick(&[json!(!truth), json!(0), json!("true")]).clone(),
        Value::Number(number) => mutate_number(&number, dice),
        Value::String(text) => mutate_text(&text, dice),
        Value::Array(mut items) => {
            match dice.below(4) {
                0 => items.push(Value::Null),
                1 => items.extend(items.first().cloned().or(Some(json!("x")))),
                2 => drop(items.pop()),
                _ => items.reverse(),
            }
            Value::Array(items)
        }
        Value::Object(mut fields) => {
            let key = fields.keys().nth(dice.below(fields.len())).cloned().unwrap_or_default();
            match dice.below(4) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(key, Value::Null)),
                2 => drop(fields.insert("zz".into(), Value::Null)),
                _ => {
                    let held = fields.remove(&key).unwrap_or_default();
                    fields.insert(format!("{key}s"), held);
                }
            }
            Value::Object(fields)
        }
    };
}

/// Goes down at random; stops at a leaf, or on the way now and then.
fn pick_place<'a>(value: &'a mut Value, dice: &mut Dice) -> &'a mut Value {
    let inner = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if inner == 0 || dice.below(12) == 0 {
        return value;
    }
    let at = dice.below(inner);
    match value {
        Value::Array(items) => pick_place(&mut items[at], dice),
        Value::Object(fields) => pick_place(fields.values_mut().nth(at).unwrap(), dice),
        leaf => leaf,
    }
}

fn mutate_number(number: &serde_json::Number, dice: &mut Dice) -> Value {
    let number = number.as_u64().unwrap_or_default();
    let most = (1_u64 << 53) - 1;
    match dice.below(9) {
        0 => json!(number.wrapping_add(1)),
        1 => json!(number.wrapping_sub(1)),
        2 => json!(0),
        3 => json!(most),
        4 => json!(most + 1),
        5 => json!(*dice.pick(&[1_u64 << 32, (1 << 32) - 1, 65536, 65535, u64::MAX, 10_000_000_000_000_000_000])),
        6 => json!(-1),
        7 => json!(number as f64 + 0.5),
        _ => json!(number.to_string()),
    }
}

/// Spellings that two implementations could judge differently.
const TRICKY: &[&str] = &[
    "",
    " ",
    "storage",
    "storage:",
    "log",
    "tool:*",
    "tool:a**",
    "tool:a*",
    "tool:a",
    "model:a/b",
    "model:é",
    "http:a",
    "http:a:443",
    "http:a:80",
    "http:http://a:80",
    "http:http://a:443",
    "http:https://a",
    "http:A",
    "http:a.",
    "http:.a",
    "http:a:0",
    "http:a:08",
    "http:a:65535",
    "http:a:65536",
    "http:[::]",
    "http:[::1]:1",
    "http:[::1",
    "http:[1:2:3:4:5:6:7:8]",
    "http:[1:2:3:4:5:6:7::]",
    "http:[::2:3:4:5:6:7:8]",
    "http:[1::3::5]",
    "http:[::1.2.3.4]",
    "http:[::01.2.3.4]",
    "http:[1:2:3:4:5:6:1.2.3.4]",
    "http:[1:2:3:4:5:6::1.2.3.4]",
    "http:[::1.2.3.256]",
    "http:[fe80::1%1]",
    "http:[00000::]",
    "http:[::FFFF]",
    "http:[]",
    "http:a]",
    "http:a:1]",
    "http:u@a",
    "http:a/b",
    "http:a b",
    "http:",
    "http:http://",
    "http:a_b",
    "http:-",
    "http:xn--e1afmkfd",
    "agent:a",
    "agent:-a",
    "agent:a-",
    "agent:1a",
    "a",
    "a-1",
    "A",
    "a.b",
    "é",
    "0",
    "1",
    "01",
    "+1",
    "-1",
    "1.0",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999",
    "٣",
    "1_0",
    "AA==",
    "AA=",
    "AA",
    "AB==",
    "AAA=",
    "AAB=",
    "AAAA",
    "A===",
    "====",
    "_-==",
    "AAAA\n",
    " AAAA",
    "aGk=",
    "durable",
    "Durable",
    "stateless",
    "nothing",
    "fuel",
    "wall-clock",
    "bad-ask",
    "declared",
    "info",
    "\u{1f600}",
    "\u{ffff}",
    "\u{7f}",
    "\u{2028}",
    "\u{0}",
    "lazaret-journal/1",
    "storage.get",
    "clock.now",
    "tools.list",
];

fn mutate_text(text: &str, dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => json!(format!("{text}x")),
        1 => json!(text.to_uppercase()),
        2 => json!(text.chars().skip(1).collect::<String>()),
        3 => Value::Null,
        4 => json!(text.chars().rev().collect::<String>()),
        5 => json!(Digest::of(text.as_bytes())),
        _ => json!(*dice.pick(TRICKY)),
    }
}

/// A whole journal taken apart, to be changed and signed anew by its own keeper: a lie that only the rules can catch.
pub(crate) struct Draft {
    pub(crate) entries: Vec<Value>,
    pub(crate) blobs: Vec<Vec<u8>>,
    hashes: Vec<Digest>,
}

impl Draft {
    /// `bundle` must hold every entry of its journal.
    pub(crate) fn of(bundle: &[u8]) -> Self {
        let (mut entries, mut blobs, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines(bundle) {
            let mut value: Value = serde_json::from_slice(&line).unwrap();
            match kind(&line) {
                "entry" => {
                    let entry = value["entry"].take();
                    let bytes = serde_json_canonicalizer::to_vec(&entry).unwrap();
                    assert!(
                        line.windows(bytes.len()).any(|part| part == bytes),
                        "this test relies on plain JSON text of sorted keys being canonical"
                    );
                    hashes.push(Digest::of(&bytes));
                    entries.push(entry);
                }
                "blob" => blobs.push(Bytes::parse(value["blob"].as_str().unwrap()).unwrap().0),
                _ => {}
            }
        }
        Self { entries, blobs, hashes }
    }

    /// Changes a blob and everything that names it.
    pub(crate) fn change_blob(&mut self, at: usize, bytes: Vec<u8>) {
        let (old, new) = (Digest::of(&self.blobs[at]), Digest::of(&bytes));
        self.blobs[at] = bytes;
        for other in 0..self.blobs.len() {
            let changed = replace(&self.blobs[other], &old.0, &new.0)
                .or_else(|| replace(&self.blobs[other], old.to_string().as_bytes(), new.to_string().as_bytes()));
            if let Some(changed) = changed {
                self.change_blob(other, changed);
            }
        }
        self.rename(&old, &new);
    }

    fn rename(&mut self, old: &Digest, new: &Digest) {
        for entry in &mut self.entries {
            let text = serde_json_canonicalizer::to_string(entry).unwrap().replace(&old.to_string(), &new.to_string());
            *entry = serde_json::from_str(&text).unwrap();
        }
    }

    /// Links, signs and bundles it all anew. A `prev` or `previous` that was true stays true.
    pub(crate) fn sign(mut self, keeper: &Keeper) -> Vec<u8> {
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for at in 0..self.entries.len() {
            let bytes = serde_json_canonicalizer::to_vec(&self.entries[at]).unwrap();
            texts.push(bytes);
            let (old, new) = (self.hashes[at], Digest::of(&texts[at]));
            if old != new {
                self.rename(&old, &new);
            }
        }
        let leaves: Vec<Hash> = texts.iter().map(|text| merkle::leaf(text)).collect();
        let (size, prover) = (leaves.len(), Prover::new(leaves));
        let steps = |proof: Vec<Hash>| proof.into_iter().map(|step| Bytes(step.to_vec())).collect::<Vec<_>>();
        let mut lines = vec![
            serde_json_canonicalizer::to_vec(
                &json!({ "bundle": "lazaret-bundle/1", "key": keeper.verifier.to_text() }),
            )
            .unwrap(),
            serde_json_canonicalizer::to_vec(
                &json!({ "checkpoint": keeper.note(size as u64, prover.root(size).unwrap()), "consistency": [] }),
            )
            .unwrap(),
        ];
        for (at, text) in texts.iter().enumerate() {
            let proof = serde_json::to_string(&steps(prover.inclusion(at, size).unwrap())).unwrap();
            lines.push([b"{\"entry\":", &text[..], b",\"inclusion\":", proof.as_bytes(), b"}"].concat());
        }
        self.blobs.sort_by_key(|blob| Digest::of(blob));
        self.blobs.dedup();
        lines.extend(
            self.blobs
                .iter()
                .map(|blob| serde_json_canonicalizer::to_vec(&json!({ "blob": Bytes(blob.clone()) })).unwrap()),
        );
        lines.push(Vec::new());
        seal(lines)
    }

    /// Changes something at random.
    pub(crate) fn lie(&mut self, dice: &mut Dice) -> &'static str {
        let at = dice.below(self.blobs.len());
        match dice.below(6) {
            0 => match serde_json::from_slice::<Value>(&self.blobs[at]) {
                Ok(mut image) => {
                    mutate(&mut image, dice);
                    self.change_blob(at, serde_json_canonicalizer::to_vec(&image).unwrap());
                    "image"
                }
                Err(_) => {
                    let mut bytes = self.blobs[at].clone();
                    match dice.below(4) {
                        0 => bytes.truncate(dice.below(bytes.len())),
                        1 => bytes.push(0),
                        2 => bytes.fill(0),
                        _ => bytes[dice.below(32)] ^= 1 << dice.below(8),
                    }
                    self.change_blob(at, bytes);
                    "blob"
                }
            },
            1 => {
                let turns: Vec<usize> =
                    (0..self.entries.len()).filter(|at| self.entries[*at]["body"].get("turn").is_some()).collect();
                let turn = *dice.pick(&turns);
                let fields = ["turn", "previous", "image_before", "image_after", "ending", "agent", "grants", "budget"];
                mutate(&mut self.entries[turn]["body"]["turn"][*dice.pick(&fields)], dice);
                "turn"
            }
            _ => {
                let entry = dice.below(self.entries.len());
                mutate(&mut self.entries[entry], dice);
                "entry"
            }
        }
    }
}

fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let at = bytes.windows(old.len()).position(|part| part == old)?;
    let mut changed = bytes.to_vec();
    changed[at..at + old.len()].copy_from_slice(new);
    Some(replace(&changed, old, new).unwrap_or(changed))
}
