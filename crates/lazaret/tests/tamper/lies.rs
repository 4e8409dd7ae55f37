//! The keeper itself lies: it changes a record, chains and signs everything anew with its own key, and gives out a
//! bundle in which nothing is wrong. Only running the turn again shows it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ed25519_dalek::SigningKey;
use lazaret_gate::bundle::{self, Builder, Checked};
use lazaret_gate::checkpoint::{Checkpoint, Verifier};
use lazaret_gate::entry::{Entry, NO_ENTRY};
use lazaret_gate::image::{Image, Node};
use lazaret_gate::lineage::CHAINED;
use lazaret_gate::merkle::{self, Prover};
use lazaret_gate::record::{Body, Ending, Failure, Reply, TurnRecord};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::{AgentId, Answer, Bytes, Digest, Effect, Outcome, Refusal, canonical};
use lazaret_guest::{Engine, Program};
use lazaret_host::{Replayer, Source, Verdict};
use lazaret_store::{Reader, Store};

use crate::Fate;
use crate::station::Dice;
use crate::world::World;

pub(crate) struct Liar {
    engine: Engine,
    programs: BTreeMap<Digest, Program>,
    reader: Reader,
    key: SigningKey,
    entries: Vec<Entry>,
}

/// A bundle as the source of a replay, with components that were compiled before.
struct Compiled<'a>(&'a Checked, &'a BTreeMap<Digest, Program>);

impl Source for Compiled<'_> {
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
        self.0.blobs.get(digest).cloned().ok_or_else(|| "not in the bundle".to_owned())
    }

    fn program(&self, component: &Digest) -> Option<Program> {
        self.1.get(component).cloned()
    }
}

/// A journal in the making, and blobs that only the lie has.
struct Story {
    entries: Vec<Entry>,
    made_up: BTreeMap<Digest, Vec<u8>>,
}

impl Liar {
    pub(crate) fn new(world: &World) -> Self {
        let engine = Engine::new().expect("an engine");
        let reader = Store::open_read_only(&world.root).expect("a data root");
        let key = std::fs::read(world.root.join("host.key")).expect("the host's key");
        let key = SigningKey::from_bytes(&key.try_into().expect("32 bytes"));
        let (mut entries, mut programs) = (Vec::new(), BTreeMap::new());
        let each = |_, bytes: &[u8]| {
            entries.push(Entry::read(bytes).expect("an entry"));
            ControlFlow::Continue(())
        };
        reader.entries(0..u64::MAX, each).expect("the journal can be read");
        for entry in &entries {
            if let Body::ComponentAdmitted(body) = &entry.body {
                let bytes = reader.blob(&body.component).expect("the component");
                programs.insert(body.component, engine.admit(&bytes).expect("it was admitted before").program);
            }
        }
        let liar = Self { engine, programs, reader, key, entries };
        let truth = Story { entries: liar.entries.clone(), made_up: BTreeMap::new() };
        liar.judge(truth).expect_err("the truth matches");
        liar
    }

    pub(crate) fn lie(&self, dice: &mut Dice) -> Fate {
        let mut story = Story { entries: self.entries.clone(), made_up: BTreeMap::new() };
        let turns = story.entries.iter().filter(|entry| matches!(entry.body, Body::Turn(_))).count();
        let Some(how) = story.tell(&self.reader, dice.below(turns), dice) else { return Fate::Nothing };
        self.judge(story).map_or_else(|()| Fate::Unseen(how.to_owned()), Fate::Found)
    }

    /// What finds the lie, if anything does.
    fn judge(&self, mut story: Story) -> Result<&'static str, ()> {
        story.relink();
        let bundle = story.bundle(&self.reader, &self.key);
        let Ok(checked) = bundle::check(&bundle) else { return Ok("checking what the keeper signed") };
        let source = Compiled(&checked, &self.programs);
        let mut replayer = Replayer::new(&self.engine, &source);
        let mut turns: Vec<_> = checked.turns().collect();
        turns.sort_by_key(|(_, record)| &record.agent);
        for (_, record) in turns {
            match replayer.verify(record) {
                Verdict::Match => {}
                Verdict::Mismatch(_) => return Ok("re-execution: MISMATCH"),
                Verdict::Unverifiable { .. } => return Ok("re-execution: UNVERIFIABLE"),
            }
        }
        Err(())
    }
}

impl Story {
    /// Makes every `prev` and `previous` right again.
    fn relink(&mut self) {
        let mut prev = NO_ENTRY;
        let mut last: BTreeMap<AgentId, Digest> = BTreeMap::new();
        let mut taken: BTreeMap<(AgentId, u64), Digest> = BTreeMap::new();
        for entry in &mut self.entries {
            entry.prev = prev;
            match &mut entry.body {
                Body::Turn(turn) => turn.previous = last.get(&turn.agent).copied().unwrap_or(turn.previous),
                Body::AgentForked(fork) => {
                    fork.entry = taken.get(&(fork.from.clone(), fork.turn)).copied().unwrap_or(fork.entry);
                }
                Body::AgentRolledBack(back) => {
                    back.previous = last.get(&back.agent).copied().unwrap_or(back.previous);
                    back.entry = taken.get(&(back.agent.clone(), back.to)).copied().unwrap_or(back.entry);
                }
                _ => {}
            }
            prev = Digest::of_value(entry).expect("an entry");
            let turn = match &entry.body {
                Body::Turn(turn) => Some(turn.turn),
                body => body.birth().map(|_| 0),
            };
            if let Some(agent) = entry.body.agent().filter(|_| CHAINED.contains(&entry.body.kind())) {
                last.insert(agent.clone(), prev);
                taken.extend(turn.map(|turn| ((agent.clone(), turn), prev)));
            }
        }
    }

    fn bundle(&self, reader: &Reader, key: &SigningKey) -> Vec<u8> {
        let verifier = Verifier::of_host(key.verifying_key());
        let leaves =
            self.entries.iter().map(|entry| merkle::leaf(&canonical::encode(entry).expect("an entry"))).collect();
        let prover = Prover::new(leaves);
        let size = prover.size();
        let mut builder = Builder::new(&verifier.to_text()).expect("a header");
        let checkpoint = Checkpoint { size: size as u64, root: prover.root(size).expect("a root") };
        builder.checkpoint(&verifier.sign(&checkpoint, key), &[]).expect("a checkpoint");
        for entry in &self.entries {
            let proof = prover.inclusion(entry.seq as usize, size).expect("a proof");
            builder.entry(entry.clone(), &proof).expect("an entry");
        }
        let fetch = |digest: &Digest| match self.made_up.get(digest) {
            Some(bytes) => Ok(bytes.clone()),
            None => reader.blob(digest).map_err(|why| why.to_string()),
        };
        builder.finish(fetch).expect("a bundle")
    }

    /// Changes something that the turn's re-execution must contradict. `None` if this turn has no such thing.
    fn tell(&mut self, reader: &Reader, turn: usize, dice: &mut Dice) -> Option<&'static str> {
        if dice.below(10) == 0 {
            return self.misplace(reader, dice);
        }
        let mut turns = self.entries.iter_mut().filter_map(|entry| match &mut entry.body {
            Body::Turn(turn) => Some(turn),
            _ => None,
        });
        let record = turns.nth(turn)?;
        match dice.below(9) {
            0 => {
                record.fuel ^= 1 << dice.below(20);
                Some("other fuel")
            }
            1 => other_ending(record, dice),
            2 => {
                let at = dice.below(record.input.body.0.len().max(1));
                *record.input.body.0.get_mut(at)? ^= 1 << dice.below(8);
                Some("another input")
            }
            3 => {
                record.tape.remove(dice.below(record.tape.len().max(1)).min(record.tape.len().checked_sub(1)?));
                Some("an effect left out")
            }
            4 => {
                let again = record.tape.get(dice.below(record.tape.len().max(1)))?.clone();
                record.tape.push(again);
                Some("an effect too many")
            }
            5 => other_effect(record, dice),
            6 => other_verdict(record, dice),
            7 => {
                let unlike = |asked: &lazaret_gate::TapeEntry| asked.effect != record.tape[0].effect;
                let at = record.tape.iter().position(unlike)?;
                record.tape.swap(0, at);
                Some("effects in another order")
            }
            _ => {
                let (before, after) = (record.image_before, record.image_after?);
                let agent = record.agent.clone();
                (before != Some(after)).then_some(())?;
                let forged = self.implant(reader, after, dice);
                self.replace(&agent, after, forged);
                Some("another memory")
            }
        }
    }

    /// Says that a fork began, or that an agent was put back, with another memory than that turn had left, and lets the turns
    /// after it go on from there.
    fn misplace(&mut self, reader: &Reader, dice: &mut Dice) -> Option<&'static str> {
        let kin = |entry: &&Entry| matches!(entry.body, Body::AgentForked(_) | Body::AgentRolledBack(_));
        let kin: Vec<Body> = self.entries.iter().filter(kin).map(|entry| entry.body.clone()).collect();
        let (agent, image, seq) = match kin.get(dice.below(kin.len()))? {
            Body::AgentForked(fork) => (fork.agent.clone(), fork.image?, None),
            body @ Body::AgentRolledBack(back) => {
                let at = self.entries.iter().position(|entry| entry.body == *body)?;
                (back.agent.clone(), back.image, Some(at))
            }
            _ => return None,
        };
        let forged = self.implant(reader, image, dice);
        for entry in self.entries.iter_mut().skip(seq.unwrap_or(0)) {
            match &mut entry.body {
                Body::AgentForked(fork) if seq.is_none() && fork.agent == agent => fork.image = Some(forged),
                Body::AgentRolledBack(back) if back.agent == agent && back.image == image => back.image = forged,
                Body::Turn(turn) if turn.agent == agent => {
                    for named in [&mut turn.image_before, &mut turn.image_after] {
                        *named = if *named == Some(image) { Some(forged) } else { *named };
                    }
                }
                _ => {}
            }
        }
        Some("another memory to go back to")
    }

    /// An image in which one byte of memory is another.
    fn implant(&mut self, reader: &Reader, name: Digest, dice: &mut Dice) -> Digest {
        let find = |digest: &Digest| reader.blob(digest).expect("the blob is there");
        let mut image: Image = canonical::decode(&find(&name)).expect("an image");
        let slot = image.memories[0].nodes.iter().position(Option::is_some).expect("a node");
        let mut node = find(&image.memories[0].nodes[slot].expect("it is there"));
        let pages: Vec<_> = Node::decode(&node).expect("a node").pages().iter().flatten().copied().collect();
        let at = dice.below(pages.len());
        let mut page = find(&pages[at]);
        page[dice.below(4096)] ^= 1 << dice.below(8);
        let mut put = |bytes: Vec<u8>| {
            let digest = Digest::of(&bytes);
            self.made_up.insert(digest, bytes);
            digest
        };
        node[32 + 32 * at..64 + 32 * at].copy_from_slice(&put(page).0);
        image.memories[0].nodes[slot] = Some(put(node));
        put(canonical::encode(&image).expect("an image"))
    }

    fn replace(&mut self, agent: &AgentId, from: Digest, to: Digest) {
        for entry in &mut self.entries {
            if let Body::Turn(turn) = &mut entry.body
                && turn.agent == *agent
            {
                for image in [&mut turn.image_before, &mut turn.image_after] {
                    *image = if *image == Some(from) { Some(to) } else { *image };
                }
            }
        }
    }
}

fn other_ending(record: &mut TurnRecord, dice: &mut Dice) -> Option<&'static str> {
    record.ending = match &record.ending {
        Ending::Replied(reply) if dice.below(3) > 0 && !reply.body.0.is_empty() => {
            let mut body = reply.body.0.clone();
            let at = dice.below(body.len());
            body[at] ^= 1 << dice.below(8);
            Ending::Replied(Reply { content_type: reply.content_type.clone(), body: Bytes(body) })
        }
        Ending::Replied(reply) => {
            Ending::Replied(Reply { content_type: "text/html".to_owned(), body: reply.body.clone() })
        }
        Ending::Failed(_) => Ending::Failed(Failure::Failed("for another reason".to_owned())),
        Ending::Stopped(_) => Ending::Failed(Failure::BadInput("it gave up".to_owned())),
    };
    Some("another ending")
}

fn other_effect(record: &mut TurnRecord, dice: &mut Dice) -> Option<&'static str> {
    let at = dice.below(record.tape.len().max(1));
    let effect = &mut record.tape.get_mut(at)?.effect;
    *effect = match effect.clone() {
        Effect::LogWrite { level, text } => Effect::LogWrite { level, text: text + "!" },
        Effect::StorageGet { key } => Effect::StorageGet { key: key + "x" },
        Effect::RandomBytes { len } => Effect::RandomBytes { len: len + 1 },
        _ => Effect::EnvironmentRead {},
    };
    Some("another effect")
}

fn other_verdict(record: &mut TurnRecord, dice: &mut Dice) -> Option<&'static str> {
    let at = dice.below(record.tape.len().max(1));
    let outcome = &mut record.tape.get_mut(at)?.outcome;
    *outcome = match outcome.clone() {
        Outcome::Refused(refusal) if dice.below(2) == 0 => {
            Outcome::Refused(Refusal { reason: refusal.reason.clone() + ", they say", ..refusal })
        }
        Outcome::Refused(_) => Outcome::Done(Answer::Nothing),
        _ => Outcome::Refused(Refusal {
            code: Code::NotGranted,
            layer: Layer::Declared,
            reason: "nobody may".to_owned(),
            remedy: "ask an operator".to_owned(),
        }),
    };
    Some("another verdict")
}
