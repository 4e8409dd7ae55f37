//! Writing a bundle.

use std::collections::{BTreeMap, BTreeSet};

use super::{BadBundle, BlobLine, CheckpointLine, Depth, EndLine, EntryLine, FORMAT, HeaderLine};
use crate::canonical::{self, Bytes, Digest};
use crate::entry::Entry;
use crate::id::AgentId;
use crate::image::{Image, Node};
use crate::merkle::Hash;
use crate::record::Body;

/// Collects what goes into a bundle; `finish` finds the blobs that its entries ask for.
pub struct Builder {
    lines: Vec<Vec<u8>>,
    entries: Vec<Entry>,
}

fn steps(proof: &[Hash]) -> Vec<Bytes> {
    proof.iter().map(|step| Bytes(step.to_vec())).collect()
}

fn unwritable(why: canonical::NotCanonical) -> BadBundle {
    BadBundle::Whole(why.to_string())
}

impl Builder {
    /// Begins a bundle of the journal with this verifier key.
    pub fn new(key: &str) -> Result<Self, BadBundle> {
        let header = HeaderLine { bundle: FORMAT.to_owned(), key: key.to_owned() };
        Ok(Self { lines: vec![canonical::encode(&header).map_err(unwritable)?], entries: Vec::new() })
    }

    /// Adds a checkpoint: the newest first, then older ones, each with the proof that the newest extends it.
    pub fn checkpoint(&mut self, note: &str, consistency: &[Hash]) -> Result<(), BadBundle> {
        let line = CheckpointLine { checkpoint: note.to_owned(), consistency: steps(consistency) };
        self.lines.push(canonical::encode(&line).map_err(unwritable)?);
        Ok(())
    }

    /// Adds an entry, in the journal's order.
    pub fn entry(&mut self, entry: Entry, inclusion: &[Hash]) -> Result<(), BadBundle> {
        let line = EntryLine { entry: entry.clone(), inclusion: steps(inclusion) };
        self.lines.push(canonical::encode(&line).map_err(unwritable)?);
        self.entries.push(entry);
        Ok(())
    }

    /// Fetches every blob that the entries ask for and closes the bundle.
    pub fn finish(self, mut fetch: impl FnMut(&Digest) -> Result<Vec<u8>, String>) -> Result<Vec<u8>, BadBundle> {
        let mut fetch = |digest: &Digest| fetch(digest).map_err(BadBundle::Whole);
        let wanted = wanted(&self.entries, &mut fetch)?;
        let mut bytes = Vec::new();
        for line in &self.lines {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        for digest in wanted {
            let line = BlobLine { blob: Bytes(fetch(&digest)?) };
            bytes.extend_from_slice(&canonical::encode(&line).map_err(unwritable)?);
            bytes.push(b'\n');
        }
        let end = EndLine { end: Digest::of(&bytes) };
        bytes.extend_from_slice(&canonical::encode(&end).map_err(unwritable)?);
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The images that these entries ask for. The image a turn left is asked for by name only when the next turn isn't there to
/// wake from it: re-execution makes it again. What an agent was rolled back to isn't at hand any more by then. A fork asks for
/// its image, and for the one it was made from if that one's entry is there.
pub(super) fn images(entries: &[Entry]) -> BTreeMap<Digest, Depth> {
    let mut images = BTreeMap::new();
    let mut last: BTreeMap<&AgentId, Digest> = BTreeMap::new();
    let mut left: BTreeMap<(&AgentId, u64), Digest> = BTreeMap::new();
    for entry in entries {
        if let Some(birth) = entry.body.birth() {
            left.extend(birth.image.map(|image| ((birth.agent, 0), image)));
        }
        match &entry.body {
            Body::AgentForked(fork) => {
                let source = left.get(&(&fork.from, fork.turn)).copied().filter(|_| fork.image.is_some());
                for image in fork.image.into_iter().chain(source) {
                    images.entry(image).or_insert(Depth::Names);
                }
            }
            Body::Turn(turn) => {
                if let Some(image) = turn.image_before {
                    let depth = if last.get(&turn.agent) == Some(&image) { Depth::Names } else { Depth::Pages };
                    let known = images.entry(image).or_insert(depth);
                    if depth == Depth::Pages {
                        *known = Depth::Pages;
                    }
                }
                if let Some(image) = turn.image_after {
                    images.entry(image).or_insert(Depth::Names);
                    last.insert(&turn.agent, image);
                    left.insert((&turn.agent, turn.turn), image);
                }
            }
            _ => {}
        }
    }
    images
}

/// The rulebooks that a turn's asks were judged by. Only their names are read here: whether the asks were judged rightly is
/// for whoever judges them again.
fn rulebooks(digest: &Digest, judged: &[u8]) -> Result<BTreeSet<Digest>, BadBundle> {
    let bad = |why: String| BadBundle::Whole(format!("judged {digest}: {why}"));
    let judged: serde_json::Value = canonical::decode(judged).map_err(|why| bad(why.to_string()))?;
    let malformed = || bad("its rulings are malformed".to_owned());
    let named = |value: &serde_json::Value| {
        serde_json::from_value::<Digest>(value["rulebook"].clone()).map_err(|why| bad(why.to_string()))
    };
    let mut names = BTreeSet::new();
    for ruling in judged["rulings"].as_array().ok_or_else(malformed)? {
        names.insert(named(&ruling["under"])?);
        for asked in ruling["asked"].as_array().ok_or_else(malformed)? {
            names.insert(named(&asked["then"])?);
        }
    }
    Ok(names)
}

/// Every blob that these entries ask for, directly or through an image.
pub(super) fn wanted(
    entries: &[Entry],
    fetch: &mut impl FnMut(&Digest) -> Result<Vec<u8>, BadBundle>,
) -> Result<BTreeSet<Digest>, BadBundle> {
    let mut wanted = BTreeSet::new();
    for entry in entries {
        if let Body::Turn(turn) = &entry.body {
            wanted.insert(turn.component);
            wanted.insert(turn.judged);
            wanted.extend(rulebooks(&turn.judged, &fetch(&turn.judged)?)?);
        }
    }
    for (digest, depth) in images(entries) {
        wanted.insert(digest);
        let image: Image =
            canonical::decode(&fetch(&digest)?).map_err(|why| BadBundle::Whole(format!("image {digest}: {why}")))?;
        for memory in &image.memories {
            if !memory.is_well_formed() {
                return Err(BadBundle::Whole(format!("image {digest}: a memory's nodes don't fit its size")));
            }
            for name in memory.nodes.iter().flatten() {
                wanted.insert(*name);
                if depth == Depth::Pages {
                    let node = Node::decode(&fetch(name)?)
                        .ok_or_else(|| BadBundle::Whole(format!("node {name} is malformed")))?;
                    wanted.extend(node.pages().iter().flatten());
                }
            }
        }
    }
    Ok(wanted)
}
