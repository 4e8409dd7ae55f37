//! Tampering with images: pages, nodes, the images themselves, components, and the rows that say which one to wake.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use lazaret_gate::entry::Entry;
use lazaret_gate::image::{Image, Node};
use lazaret_gate::record::{Body, Message};
use lazaret_gate::{Digest, canonical};
use lazaret_guest::State;
use lazaret_host::Host;
use lazaret_store::{AgentRow, AgentState, Reader, Store};
use rusqlite::types::Value;

use crate::Fate;
use crate::journal::{check, seal};
use crate::rows::{AGENTS, BLOBS, Copy, Row, Table};
use crate::station::Dice;
use crate::world::{World, blob, id};

pub(crate) struct Vandal {
    original: Reader,
    copy: Copy,
    blobs: Table,
    agents: Table,
}

/// Wakes every image that the journal names, and reads every component, judgement and rulebook.
fn wake_all(reader: &Reader) -> Result<(), String> {
    let (mut images, mut others) = (BTreeSet::new(), BTreeSet::new());
    let read = reader.entries(0..u64::MAX, |_, bytes| {
        match Entry::read(bytes).map(|entry| entry.body) {
            Ok(Body::ComponentAdmitted(body)) => drop(others.insert(body.component)),
            Ok(Body::RulebookInForce(body)) => drop(others.insert(body.rulebook)),
            Ok(Body::AgentCreated(body)) => images.extend(body.image),
            Ok(Body::AgentForked(body)) => images.extend(body.image),
            Ok(Body::EffectOpened(body)) => drop(others.insert(body.judged)),
            Ok(Body::Turn(body)) => {
                others.insert(body.judged);
                images.extend(body.image_before.into_iter().chain(body.image_after));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    read.map_err(|why| why.to_string())?;
    for other in &others {
        reader.blob(other).map_err(|why| why.to_string())?;
    }
    for name in &images {
        let image: Image =
            canonical::decode(&reader.blob(name).map_err(|why| why.to_string())?).map_err(|why| why.to_string())?;
        State::wake(&image, |digest| reader.blob(digest).map_err(|why| why.to_string()))
            .map_err(|why| why.to_string())?;
    }
    Ok(())
}

/// Lets an agent take a turn, as its row now says.
fn take_turn(root: &Path, agent: &str) -> Result<(), String> {
    let host = Host::open(root).map_err(|why| why.to_string())?;
    let input = Message::outside("text/plain", "recall");
    host.send(&id(agent), input).map(drop).map_err(|why| why.to_string())
}

impl Vandal {
    pub(crate) fn new(world: &World, at: &Path) -> Self {
        let copy = Copy::new(&world.still, at);
        let original = Store::open_read_only(&world.root).expect("a data root");
        wake_all(&original).expect("every image wakes before");
        Self { original, copy, blobs: world.table(&BLOBS), agents: world.table(&AGENTS) }
    }

    pub(crate) fn tamper(&mut self, dice: &mut Dice) -> Fate {
        let (mut blobs, mut agents) = (self.blobs.clone(), self.agents.clone());
        let mut forged = None;
        let how = match dice.below(40) {
            0..35 => blobs.damage(dice),
            35..39 => agents.damage(dice),
            _ => {
                let (agent, how) = forge(&self.original, &mut agents, &mut blobs, dice);
                forged = Some(agent);
                how
            }
        };
        if blobs.rows == self.blobs.rows && agents.rows == self.agents.rows {
            return Fate::Nothing;
        }
        let path = self.copy.fresh();
        if !blobs.write(&path, &self.blobs) || !agents.write(&path, &self.agents) {
            return Fate::Nothing;
        }
        if let Err(by) = check(&self.copy.root) {
            return Fate::Found(by);
        }
        let woken =
            Store::open_read_only(&self.copy.root).map_err(|why| why.to_string()).and_then(|reader| wake_all(&reader));
        if woken.is_err() {
            return Fate::Found("waking every image");
        }
        match forged.map(|agent| take_turn(&self.copy.root, agent)) {
            Some(Err(_)) => Fate::Found("the agent's next turn"),
            None if self.reads_the_same() => Fate::Nothing,
            _ => Fate::Unseen(how.to_owned()),
        }
    }

    /// Packed bytes have more than one spelling: a flipped bit can leave another packing of the very same page.
    fn reads_the_same(&self) -> bool {
        let reader = Store::open_read_only(&self.copy.root).expect("it was opened before");
        let same = |row: &Row| {
            let digest = Digest(blob(&row[0]).try_into().expect("32 bytes"));
            reader.blob(&digest).ok() == self.original.blob(&digest).ok()
        };
        self.blobs.rows.iter().all(same) && reader.agents() == self.original.agents()
    }
}

/// Makes an agent's row say something else, with a digest that fits.
fn forge(original: &Reader, agents: &mut Table, blobs: &mut Table, dice: &mut Dice) -> (&'static str, &'static str) {
    let which = dice.below(8);
    let (at, agent) = if which == 7 { (4, "shut") } else { [(0, "alpha"), (1, "beta"), (2, "gamma")][dice.below(3)] };
    let read =
        |at: usize, agents: &Table| serde_json::from_slice::<AgentRow>(blob(&agents.rows[at][1])).expect("a row");
    let (mut row, other) = (read(at, agents), read(1 - at % 2, agents));
    let how = match which {
        0 => {
            row.grants = lazaret_gate::Grants::new(vec!["http:example.com".parse().expect("a grant")]);
            "other grants"
        }
        1 => {
            row.budget.fuel *= 2;
            "another budget"
        }
        2 => {
            row.image = other.image;
            "another agent's image"
        }
        3 => {
            row.turn -= 1;
            "a turn less"
        }
        4 => {
            row.component = other.component;
            "another component"
        }
        5 => {
            row.image = older(original, &row, blobs, dice);
            "an older image"
        }
        7 => {
            row.state = AgentState::Asleep;
            "a quarantine forgotten"
        }
        _ => {
            row.image = row.image.map(|image| implant(original, image, blobs, dice));
            "a changed page, with its node and image"
        }
    };
    let bytes = serde_json::to_vec(&row).expect("a row");
    agents.rows[at][2] = seal("agents", &[agent.as_bytes(), &bytes]);
    agents.rows[at][1] = Value::Blob(bytes);
    (agent, how)
}

fn find(original: &Reader, digest: &Digest) -> Vec<u8> {
    original.blob(digest).expect("the blob is there")
}

fn put(blobs: &mut Table, bytes: Vec<u8>) -> Digest {
    let digest = Digest::of(&bytes);
    let row =
        vec![Value::Blob(digest.0.to_vec()), Value::Integer(bytes.len() as i64), Value::Integer(0), Value::Blob(bytes)];
    if !blobs.rows.iter().any(|known| known[0] == row[0]) {
        blobs.rows.push(row);
    }
    digest
}

/// Some other image of the same agent.
fn older(original: &Reader, row: &AgentRow, blobs: &Table, dice: &mut Dice) -> Option<Digest> {
    let digests = blobs.rows.iter().map(|blob_row| Digest(blob(&blob_row[0]).try_into().expect("32 bytes")));
    let images: Vec<_> = digests
        .filter(|digest| {
            canonical::decode::<Image>(&find(original, digest)).is_ok_and(|image| image.agent == row.agent)
        })
        .collect();
    images.get(dice.below(images.len().max(1))).copied().or(row.image)
}

/// An image in which one byte of memory is another, as if it had been so from the beginning.
fn implant(original: &Reader, name: Digest, blobs: &mut Table, dice: &mut Dice) -> Digest {
    let mut image: Image = canonical::decode(&find(original, &name)).expect("an image");
    let slot = image.memories[0].nodes.iter().position(Option::is_some).expect("a node");
    let node = find(original, &image.memories[0].nodes[slot].expect("it is there"));
    let pages = Node::decode(&node).expect("a node");
    let pages: Vec<_> = pages.pages().iter().flatten().copied().collect();
    let at = dice.below(pages.len());
    let mut page = find(original, &pages[at]);
    page[dice.below(4096)] ^= 1 << dice.below(8);
    let page = put(blobs, page);
    let mut node = node;
    node[32 + 32 * at..64 + 32 * at].copy_from_slice(&page.0);
    image.memories[0].nodes[slot] = Some(put(blobs, node));
    put(blobs, canonical::encode(&image).expect("an image"))
}
