//! Keepers who lie and sign it, and strangers who know the format: one bundle per rule that they break.

use ed25519_dalek::SigningKey;
use lazaret_gate::canonical::{Bytes, Digest};
use lazaret_gate::checkpoint::{Checkpoint, Verifier};
use lazaret_gate::image::PAGE;
use serde_json::{Value, json};

use crate::keeper::{Keeper, plain};
use crate::tamper::{Draft, Lines, lines, seal};

pub(crate) struct Lie {
    /// Its name in `docs/bundle.md`.
    pub(crate) rule: &'static str,
    pub(crate) what: &'static str,
    /// Part of what must be said about it.
    pub(crate) why: &'static str,
    pub(crate) bundle: Vec<u8>,
}

/// Where things stand in [`plain`]'s journal.
const CREATED: usize = 2;
const CLERK_ADMITTED: usize = 3;
const CLERK_CREATED: usize = 4;
const TURN_1: usize = 5;
const CLERK_TURN: usize = 6;
const TURN_2: usize = 7;
const TURN_3: usize = 8;
const LAST: usize = 9;

fn lied(edit: impl FnOnce(&mut Draft)) -> Vec<u8> {
    let keeper = plain();
    let mut draft = Draft::of(&keeper.everything());
    edit(&mut draft);
    draft.sign(&keeper)
}

fn entry(at: usize, pointer: &str, value: Value) -> Vec<u8> {
    lied(|draft| {
        let place = draft.entries[at].pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer} in entry {at}"));
        assert_ne!(*place, value);
        *place = value;
    })
}

/// Changes the image that turn 3 leaves.
fn image(pointer: &str, value: Value) -> Vec<u8> {
    lied(|draft| {
        let name = draft.entries[TURN_3]["body"]["turn"]["image_after"].as_str().unwrap().to_owned();
        let at = draft.blobs.iter().position(|blob| Digest::of(blob).to_string() == name).unwrap();
        let mut image: Value = serde_json::from_slice(&draft.blobs[at]).unwrap();
        *image.pointer_mut(pointer).unwrap() = value;
        draft.change_blob(at, serde_json_canonicalizer::to_vec(&image).unwrap());
    })
}

/// What the agent had seen before turn 2, told otherwise; nothing at all if there is no value.
fn seen(labels: Option<Value>) -> Vec<u8> {
    lied(|draft| {
        let name = draft.entries[TURN_2]["body"]["turn"]["judged"].as_str().unwrap().to_owned();
        let at = draft.blobs.iter().position(|blob| Digest::of(blob).to_string() == name).unwrap();
        let mut judged: Value = serde_json::from_slice(&draft.blobs[at]).unwrap();
        let before = judged.as_object_mut().unwrap().remove("labels");
        assert_ne!(before, labels);
        judged.as_object_mut().unwrap().extend(labels.map(|labels| ("labels".to_owned(), labels)));
        draft.change_blob(at, serde_json_canonicalizer::to_vec(&judged).unwrap());
    })
}

fn blob(is_it: impl Fn(&[u8]) -> bool, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    lied(|draft| {
        let at = draft.blobs.iter().position(|blob| is_it(blob)).expect("no such blob");
        let mut bytes = draft.blobs[at].clone();
        change(&mut bytes);
        draft.change_blob(at, bytes);
    })
}

fn is_page(blob: &[u8]) -> bool {
    blob.len() == PAGE
}

fn is_node(blob: &[u8]) -> bool {
    let bits: u32 = blob.iter().take(32).map(|byte| byte.count_ones()).sum();
    bits > 0 && blob.len() == 32 + 32 * bits as usize
}

fn resealed(edit: impl FnOnce(&mut Lines)) -> Vec<u8> {
    let mut lines = lines(&plain().everything());
    edit(&mut lines);
    seal(lines)
}

fn edit_line(at: usize, edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    resealed(|lines| {
        let mut value = serde_json::from_slice(&lines[at]).unwrap();
        edit(&mut value);
        lines[at] = serde_json_canonicalizer::to_vec(&value).unwrap();
    })
}

fn note(edit: impl FnOnce(&str) -> String) -> Vec<u8> {
    edit_line(1, |line| {
        let note = edit(line["checkpoint"].as_str().unwrap());
        line["checkpoint"] = json!(note);
    })
}

/// The newest checkpoint as another key would sign it, under the honest key's name and key hash.
fn foreign_signature(found: &str) -> String {
    let keeper = plain();
    let checkpoint = keeper.verifier.check(found).unwrap();
    let other = SigningKey::from_bytes(&[99; 32]);
    keeper.verifier.sign(&checkpoint, &other)
}

fn other_log() -> String {
    let other = SigningKey::from_bytes(&[99; 32]);
    Verifier::of_host(other.verifying_key()).sign(&Checkpoint { size: 10, root: [0; 32] }, &other)
}

/// A key whose bytes are no lawful spelling: y is 2^255 - 19 + 3.
fn unreduced_key() -> String {
    use sha2::{Digest as _, Sha256};
    let mut key = vec![0xff; 33];
    (key[0], key[1], key[32]) = (1, 0xed + 3, 0x7f);
    let id: [u8; 32] = Sha256::new_with_prefix("k\n").chain_update(&key).finalize().into();
    let encoded = serde_json::to_value(Bytes(key)).unwrap();
    format!("k+{:02x}{:02x}{:02x}{:02x}+{}", id[0], id[1], id[2], id[3], encoded.as_str().unwrap())
}

fn other_key() -> String {
    Keeper::new(99).verifier.to_text()
}

const FIRST_ENTRY: usize = 5;
const FIRST_BLOB: usize = 15;

pub(crate) fn all() -> Vec<Lie> {
    let lie = |rule, what, why, bundle| Lie { rule, what, why, bundle };
    let mut lies = lines_and_keys(lie);
    lies.extend(about_entries(lie));
    lies.extend(about_turns(lie));
    lies.extend(about_blobs(lie));
    lies.extend(crate::kin::lies(lie));
    lies
}

pub(crate) type Make = fn(&'static str, &'static str, &'static str, Vec<u8>) -> Lie;

fn lines_and_keys(lie: Make) -> Vec<Lie> {
    let zeros = || json!([Bytes(vec![0; 32])]);
    vec![
        lie("L2", "no checkpoint", "no checkpoint", resealed(|lines| drop(lines.drain(1..FIRST_ENTRY)))),
        lie(
            "L3",
            "another format",
            "is not `lazaret-bundle/1`",
            edit_line(0, |l| l["bundle"] = json!("lazaret-bundle/2")),
        ),
        lie("K1", "not a key", "is not a verifier key", edit_line(0, |line| line["key"] = json!("key"))),
        lie("K2", "unreduced key", "is not a verifier key", edit_line(0, |line| line["key"] = json!(unreduced_key()))),
        lie("K3", "extension line", "signature is wrong", note(|note| note.replacen("\n\n", "\nextension\n\n", 1))),
        lie("K3", "size in another spelling", "signature is wrong", note(|note| note.replacen("\n10\n", "\n+10\n", 1))),
        lie("K3", "two signatures", "not base64", note(|note| format!("{note}{}", note.split("\n\n").nth(1).unwrap()))),
        lie("K4", "another log's checkpoint", "is of `lazaret.invalid/", note(|_| other_log())),
        lie("K5", "another size", "signature is wrong", note(|note| note.replacen("\n10\n", "\n11\n", 1))),
        lie("K5", "foreign signature", "signature is wrong", note(foreign_signature)),
        lie("K6", "checkpoints in another order", "from the newest", resealed(|lines| lines.swap(3, 4))),
        lie("K6", "a checkpoint twice", "from the newest", resealed(|lines| lines.insert(2, lines[1].clone()))),
        lie("K7", "a proof for the newest", "needs no", edit_line(1, |line| line["consistency"] = zeros())),
        lie("K7", "another consistency proof", "was rewritten", edit_line(3, |line| line["consistency"] = zeros())),
        lie("K8", "a proof step of 3 bytes", "not 32 bytes", edit_line(6, |line| line["inclusion"] = json!(["AAAA"]))),
        lie(
            "K8",
            "an endless proof",
            "longer than",
            edit_line(6, |l| l["inclusion"] = json!(vec![Bytes(vec![0; 32]); 65])),
        ),
    ]
}

fn about_entries(lie: Make) -> Vec<Lie> {
    vec![
        lie("V2", "fuel of 2^53", "whole one up to", entry(TURN_1, "/body/turn/fuel", json!(1_u64 << 53))),
        lie("V2", "fuel of half a unit", "not the expected", entry(TURN_1, "/body/turn/fuel", json!(0.5))),
        lie(
            "V3",
            "an unknown key",
            "not in canonical",
            lied(|draft| draft.entries[TURN_1]["body"]["turn"]["mood"] = json!(1)),
        ),
        lie("V4", "an unknown kind", "not the expected", entry(LAST, "/body", json!({ "agent-moved": {} }))),
        lie(
            "V5",
            "an upper-case digest",
            "lower-case",
            entry(1, "/body/component-admitted/engine", json!("AB".repeat(32))),
        ),
        lie("V6", "stray bits in base64", "not base64", entry(TURN_1, "/body/turn/input/body", json!("AB=="))),
        lie("V7", "a leading zero", "not in canonical", entry(TURN_1, "/body/turn/tape/12/effect/nanos", json!("01"))),
        lie("V8", "an agent's name", "can't name", entry(LAST, "/body/agent-removed/agent", json!("Clerk"))),
        lie(
            "V9",
            "a grant in another spelling",
            "not in canonical",
            entry(CREATED, "/body/agent-created/grants", json!(["log:"])),
        ),
        lie(
            "V9",
            "grants in another order",
            "not in canonical",
            entry(CREATED, "/body/agent-created/grants", json!(["log", "storage"])),
        ),
        lie(
            "E2",
            "another entry's proof",
            "is not in the signed",
            edit_line(FIRST_ENTRY, |line| line["inclusion"] = json!([])),
        ),
        lie(
            "E3",
            "entries in another order",
            "journal's order",
            resealed(|lines| lines.swap(FIRST_ENTRY, FIRST_ENTRY + 1)),
        ),
        lie("E4", "a broken chain", "doesn't follow entry 2", entry(3, "/prev", json!("0".repeat(64)))),
        lie("E5", "no first entry", "first entry is missing", resealed(|lines| drop(lines.remove(FIRST_ENTRY)))),
        lie(
            "E5",
            "another key at the beginning",
            "names another key",
            entry(0, "/body/genesis/key", json!(other_key())),
        ),
        lie(
            "E5",
            "another journal format",
            "another format",
            entry(0, "/body/genesis/format", json!("lazaret-journal/2")),
        ),
        lie("E5", "something before the beginning", "a predecessor", entry(0, "/prev", json!("1".repeat(64)))),
        lie(
            "E6",
            "a second beginning",
            "a second beginning",
            lied(|draft| {
                let genesis = draft.entries[0]["body"].clone();
                draft.entries[LAST]["body"] = genesis;
            }),
        ),
    ]
}

fn about_turns(lie: Make) -> Vec<Lie> {
    let stateless = json!("stateless");
    let turn = |at, field: &str, value| entry(at, &format!("/body/turn/{field}"), value);
    vec![
        lie("T12", "a label from nowhere", "begins with other labels", seen(Some(json!(["made-up"])))),
        lie("T12", "labels that nobody counts any more", "begins with other labels", seen(None)),
        lie("B9", "labels in another order", "labels are malformed", seen(Some(json!(["b", "a"])))),
        lie("B9", "a label that is no text", "labels are malformed", seen(Some(json!([7])))),
        lie(
            "T1",
            "an agent created twice",
            "created twice",
            entry(CLERK_CREATED, "/body/agent-created/agent", json!("mailbox")),
        ),
        lie("T2", "a turn of nobody", "creation is missing", turn(CLERK_TURN, "agent", json!("nobody"))),
        lie("T3", "another budget", "are not the agent's", turn(TURN_1, "budget/effects", json!(1))),
        lie("T3", "another component", "are not the agent's", turn(CLERK_TURN, "component", json!("0".repeat(64)))),
        lie("T4", "turn 0", "doesn't follow", turn(TURN_1, "turn", json!(0))),
        lie("T4", "turn 1 twice", "doesn't follow", turn(TURN_2, "turn", json!(1))),
        lie("T5", "another turn before", "doesn't follow", turn(TURN_2, "previous", json!("0".repeat(64)))),
        lie(
            "T5",
            "another image before",
            "doesn't follow",
            lied(|draft| {
                let image = draft.entries[CREATED]["body"]["agent-created"]["image"].clone();
                draft.entries[TURN_3]["body"]["turn"]["image_before"] = image;
            }),
        ),
        lie(
            "T6",
            "an image of a stateless agent",
            "another has none",
            entry(CREATED, "/body/agent-created/world", stateless),
        ),
        lie("T6", "a durable turn without image", "another has none", turn(TURN_3, "image_after", Value::Null)),
        lie(
            "T7",
            "a failure that is kept",
            "didn't end well",
            turn(TURN_1, "ending", json!({ "failed": { "failed": "" } })),
        ),
        lie("T8", "a turn after the end", "removed before", {
            entry(CLERK_ADMITTED, "/body", json!({ "agent-removed": { "agent": "mailbox" } }))
        }),
    ]
}

fn about_blobs(lie: Make) -> Vec<Lie> {
    let memories = |size: u32, nodes: Value| json!([{ "nodes": nodes, "size": size }]);
    let none = "0".repeat(64);
    vec![
        lie("B1", "blobs in another order", "order of their digests", resealed(|l| l.swap(FIRST_BLOB, FIRST_BLOB + 1))),
        lie("B2", "a missing blob", "missing", resealed(|lines| drop(lines.remove(FIRST_BLOB)))),
        lie("B3", "a blob too many", "nothing asks for", lied(|draft| draft.blobs.push(b"stowaway".to_vec()))),
        lie("B4", "another agent's image", "bound to another", image("/agent", json!("clerk"))),
        lie("B4", "an image from later", "bound to another", image("/turn", json!(4))),
        lie("B5", "more nodes than memory", "don't fit", image("/memories", memories(16, json!([null, none])))),
        lie("B5", "a trailing null", "don't fit", image("/memories", memories(48, json!([null])))),
        lie("B5", "more memory than there is", "don't fit", image("/memories", memories(65537, json!([])))),
        lie("B6", "a node cut short", "malformed", blob(is_node, |node| node.truncate(node.len() - 1))),
        lie("B7", "a page cut short", "has another size", blob(is_page, |page| page.truncate(PAGE - 1))),
        lie("B7", "a page of zeros", "all zeros", blob(is_page, |page| page.fill(0))),
        lie(
            "B8",
            "pages beyond the memory",
            "beyond",
            lied(|draft| {
                let at = draft.blobs.iter().position(|blob| blob.starts_with(b"{\"agent\"")).unwrap();
                let mut image: Value = serde_json::from_slice(&draft.blobs[at]).unwrap();
                let size = image["memories"][0]["size"].as_u64().unwrap();
                assert_eq!(image["memories"][0]["nodes"].as_array().unwrap().len(), 3, "{size}");
                image["memories"][0]["size"] = json!(33);
                draft.change_blob(at, serde_json_canonicalizer::to_vec(&image).unwrap());
            }),
        ),
    ]
}
