//! Checking a bundle: all but re-execution.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::build::{images, wanted};
use super::lives::{self, Descent};
use super::seen;
use super::{BadBundle, BlobLine, CheckpointLine, Depth, EndLine, EntryLine, FORMAT, HeaderLine};
use crate::canonical::{self, Bytes, Digest};
use crate::checkpoint::{Checkpoint, Verifier};
use crate::entry::{Entry, NO_ENTRY};
use crate::image::{Image, NODE_PAGES, Node, PAGE, WASM_PAGE};
use crate::limits::{MAX_BUNDLE, MAX_ENTRY, MAX_PROOF};
use crate::merkle::{self, Hash};
use crate::record::{AgentForked, Body, JOURNAL_FORMAT, TurnRecord};

/// A bundle whose every claim but the turns' own outcome was checked.
#[derive(Debug)]
pub struct Checked {
    /// The journal's verifier key, as the bundle claims it. Whether to trust it is the reader's to decide.
    pub key: String,
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// How many older checkpoints it was shown to extend.
    pub older: usize,
    /// The entries, each shown to be in the journal.
    pub entries: Vec<Entry>,
    /// The states that were taken from earlier turns, by forks and rollbacks, in the journal's order.
    pub descents: Vec<Descent>,
    /// Components, images, nodes and pages by digest.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
}

impl Checked {
    /// The turns, in the journal's order, with their place in it.
    pub fn turns(&self) -> impl Iterator<Item = (u64, &TurnRecord)> {
        self.entries.iter().filter_map(|entry| match &entry.body {
            Body::Turn(turn) => Some((entry.seq, &**turn)),
            _ => None,
        })
    }
}

/// The lines, read one after the other.
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    fn bad(&self, why: impl Into<String>) -> BadBundle {
        BadBundle::Line { line: self.number, why: why.into() }
    }

    fn next(&mut self) -> Result<&'a [u8], BadBundle> {
        self.number += 1;
        let end =
            self.rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| self.bad("the bundle is cut short"))?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(line)
    }

    /// Whether the next line starts so. The first key tells what a line is.
    fn peek(&self, start: &str) -> bool {
        self.rest.starts_with(start.as_bytes())
    }

    fn read<T: Serialize + DeserializeOwned>(&mut self) -> Result<T, BadBundle> {
        let line = self.next()?;
        canonical::decode(line).map_err(|why| self.bad(why.to_string()))
    }
}

fn hashes(lines: &Lines<'_>, steps: &[Bytes]) -> Result<Vec<Hash>, BadBundle> {
    if steps.len() > MAX_PROOF {
        return Err(lines.bad("the proof is longer than any journal needs"));
    }
    let hash = |step: &Bytes| step.0.clone().try_into().map_err(|_| lines.bad("a proof step is not 32 bytes"));
    steps.iter().map(hash).collect()
}

/// Checks a bundle and returns what it holds.
pub fn check(bytes: &[u8]) -> Result<Checked, BadBundle> {
    if bytes.len() > MAX_BUNDLE {
        return Err(BadBundle::Whole(format!("{} bytes; the most is {MAX_BUNDLE}", bytes.len())));
    }
    let mut lines = Lines { rest: bytes, number: 0 };
    let header: HeaderLine = lines.read()?;
    if header.bundle != FORMAT {
        return Err(lines.bad(format!("`{}` is not `{FORMAT}`", header.bundle)));
    }
    let verifier = Verifier::parse(&header.key).map_err(|why| lines.bad(why.to_string()))?;
    let (checkpoint, older) = read_checkpoints(&mut lines, &verifier)?;
    let (entries, entry_hashes) = read_entries(&mut lines, &checkpoint)?;
    let blobs = read_blobs(&mut lines)?;
    let covered = bytes.len() - lines.rest.len();
    let end: EndLine = lines.read()?;
    if end.end != Digest::of(&bytes[..covered]) {
        return Err(lines.bad("the bundle's own digest doesn't match: it was changed or damaged"));
    }
    if !lines.rest.is_empty() {
        return Err(lines.bad("something follows the end"));
    }
    check_genesis(&header.key, entries.first())?;
    let descents = lives::follow(&entries, &entry_hashes)?;
    check_blobs(&entries, &blobs)?;
    check_forks(&entries, &descents, &blobs)?;
    seen::follow(&entries, &blobs)?;
    Ok(Checked { key: header.key, checkpoint, older, entries, descents, blobs })
}

fn read_checkpoints(lines: &mut Lines<'_>, verifier: &Verifier) -> Result<(Checkpoint, usize), BadBundle> {
    let mut newest: Option<Checkpoint> = None;
    let mut size = u64::MAX;
    let mut older = 0;
    while lines.peek("{\"checkpoint\":") {
        let line: CheckpointLine = lines.read()?;
        let checkpoint = verifier.check(&line.checkpoint).map_err(|why| lines.bad(why.to_string()))?;
        let proof = hashes(lines, &line.consistency)?;
        if checkpoint.size >= size {
            return Err(lines.bad("checkpoints stand from the newest to the oldest"));
        }
        size = checkpoint.size;
        match &newest {
            None if proof.is_empty() => newest = Some(checkpoint),
            None => return Err(lines.bad("the newest checkpoint needs no consistency proof")),
            Some(new) => {
                if !merkle::verify_consistency(size, &checkpoint.root, new.size, &new.root, &proof) {
                    return Err(lines.bad("the newest checkpoint doesn't extend this one: the journal was rewritten"));
                }
                older += 1;
            }
        }
    }
    newest.map(|newest| (newest, older)).ok_or_else(|| lines.bad("no checkpoint"))
}

/// The entries and their hashes.
fn read_entries(lines: &mut Lines<'_>, checkpoint: &Checkpoint) -> Result<(Vec<Entry>, Vec<Digest>), BadBundle> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut entry_hashes = Vec::new();
    while lines.peek("{\"entry\":") {
        let line: EntryLine = lines.read()?;
        let bytes = canonical::encode(&line.entry).map_err(|why| lines.bad(why.to_string()))?;
        if bytes.len() > MAX_ENTRY {
            return Err(lines.bad(format!("an entry of {} bytes; the most is {MAX_ENTRY}", bytes.len())));
        }
        let proof = hashes(lines, &line.inclusion)?;
        let seq = line.entry.seq;
        if !merkle::verify_inclusion(&merkle::leaf(&bytes), seq, checkpoint.size, &proof, &checkpoint.root) {
            return Err(lines.bad(format!("entry {seq} is not in the signed journal")));
        }
        match entries.last().map(|entry| entry.seq) {
            Some(before) if before >= seq => return Err(lines.bad("entries stand in the journal's order")),
            Some(before) if before + 1 == seq && entry_hashes.last() != Some(&line.entry.prev) => {
                return Err(lines.bad(format!("entry {seq} doesn't follow entry {before}")));
            }
            _ => entry_hashes.push(Digest::of(&bytes)),
        }
        entries.push(line.entry);
    }
    Ok((entries, entry_hashes))
}

fn read_blobs(lines: &mut Lines<'_>) -> Result<BTreeMap<Digest, Vec<u8>>, BadBundle> {
    let mut blobs = BTreeMap::new();
    while lines.peek("{\"blob\":") {
        let line: BlobLine = lines.read()?;
        let digest = Digest::of(&line.blob.0);
        if blobs.last_key_value().is_some_and(|(last, _)| *last >= digest) {
            return Err(lines.bad("blobs stand in the order of their digests"));
        }
        blobs.insert(digest, line.blob.0);
    }
    Ok(blobs)
}

fn check_genesis(key: &str, first: Option<&Entry>) -> Result<(), BadBundle> {
    let whole = |why: &str| Err(BadBundle::Whole(why.to_owned()));
    let Some(Entry { seq: 0, prev, body: Body::Genesis(genesis), .. }) = first else {
        return whole("the journal's first entry is missing");
    };
    if genesis.key != key {
        return whole("the journal's first entry names another key");
    }
    if genesis.format != JOURNAL_FORMAT || *prev != NO_ENTRY {
        return whole("the journal's first entry has another format or a predecessor");
    }
    Ok(())
}

fn check_blobs(entries: &[Entry], blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<(), BadBundle> {
    let mut fetch = |digest: &Digest| {
        blobs.get(digest).cloned().ok_or_else(|| BadBundle::Whole(format!("blob {digest} is missing")))
    };
    let wanted = wanted(entries, &mut fetch)?;
    if let Some(missing) = wanted.iter().find(|digest| !blobs.contains_key(digest)) {
        return Err(BadBundle::Whole(format!("blob {missing} is missing")));
    }
    if let Some(extra) = blobs.keys().find(|digest| !wanted.contains(digest)) {
        return Err(BadBundle::Whole(format!("nothing asks for blob {extra}")));
    }
    check_images(entries, blobs)
}

/// Each image must be of the agent, component and engine whose turn names it, and be whole.
fn check_images(entries: &[Entry], blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<(), BadBundle> {
    let depths = images(entries);
    for entry in entries {
        let Body::Turn(turn) = &entry.body else { continue };
        for (digest, latest) in [(turn.image_before, turn.turn - 1), (turn.image_after, turn.turn)] {
            let Some(digest) = digest else { continue };
            let bad = |why: &str| BadBundle::Whole(format!("image {digest}: {why}"));
            let bytes = blobs.get(&digest).ok_or_else(|| bad("missing"))?;
            let image: Image = canonical::decode(bytes).map_err(|why| bad(&why.to_string()))?;
            let bound = image.agent == turn.agent && image.component == turn.component && image.engine == turn.engine;
            if !bound || image.turn > latest {
                return Err(bad("it is bound to another agent, component, engine or turn"));
            }
            let depth = depths.get(&digest).copied().unwrap_or(Depth::Names);
            check_memories(&image, depth, blobs).map_err(bad)?;
        }
    }
    Ok(())
}

/// The image of a fork must be of that agent before its first turn; and but for its name and number the one that it was made
/// from, if the bundle has that.
fn check_forks(entries: &[Entry], descents: &[Descent], blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<(), BadBundle> {
    let depths = images(entries);
    for entry in entries {
        let Body::AgentForked(fork) = &entry.body else { continue };
        let Some(name) = fork.image else { continue };
        let bad = |why: String| BadBundle::Whole(format!("entry {}: {why}", entry.seq));
        let read = |name: &Digest| -> Result<Image, String> {
            let bytes = blobs.get(name).ok_or_else(|| format!("image {name}: missing"))?;
            let image: Image = canonical::decode(bytes).map_err(|why| format!("image {name}: {why}"))?;
            let depth = depths.get(name).copied().unwrap_or(Depth::Names);
            check_memories(&image, depth, blobs).map_err(|why| format!("image {name}: {why}"))?;
            Ok(image)
        };
        let image = read(&name).map_err(bad)?;
        let bound = image.agent == fork.agent && image.component == fork.component && image.engine == fork.engine;
        if !bound || image.turn != 0 {
            return Err(bad(format!("image {name}: it is bound to another agent, component, engine or turn")));
        }
        if descents.iter().any(|descent| descent.seq == entry.seq && descent.shown) {
            let source = left(entries, fork).ok_or_else(|| bad("its source has no image".into()))?;
            let source = read(&source).map_err(bad)?;
            if image != (Image { agent: fork.agent.clone(), turn: 0, ..source }) {
                return Err(bad(format!("the fork's image is not what turn {} of `{}` left", fork.turn, fork.from)));
            }
        }
    }
    Ok(())
}

/// The image that a fork was made from, as the bundle's own entries have it.
fn left(entries: &[Entry], fork: &AgentForked) -> Option<Digest> {
    entries.iter().find_map(|entry| match &entry.body {
        Body::Turn(turn) if turn.agent == fork.from && turn.turn == fork.turn => turn.image_after,
        body => body.birth().filter(|birth| fork.turn == 0 && *birth.agent == fork.from)?.image,
    })
}

/// Every node of an image must be well-formed and within its memory, and so must its pages where they are asked for.
fn check_memories(image: &Image, depth: Depth, blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<(), &'static str> {
    for memory in &image.memories {
        let pages = memory.size as usize * (WASM_PAGE / PAGE);
        for (at, name) in memory.nodes.iter().enumerate() {
            let Some(name) = name else { continue };
            let node = blobs.get(name).and_then(|bytes| Node::decode(bytes)).ok_or("a node is malformed")?;
            let inside = pages.saturating_sub(at * NODE_PAGES).min(NODE_PAGES);
            if node.pages()[inside..].iter().any(Option::is_some) {
                return Err("a page lies beyond its memory's end");
            }
            let full = |page: &Vec<u8>| page.len() == PAGE && page.iter().any(|byte| *byte != 0);
            if depth == Depth::Pages && !node.pages().iter().flatten().all(|page| blobs.get(page).is_some_and(full)) {
                return Err("a page is missing, has another size or is all zeros");
            }
        }
    }
    Ok(())
}
