//! Bundles: handing turns to a stranger, and being that stranger.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Mutex;

use lazaret_gate::bundle::{self, Builder, Checked};
use lazaret_gate::entry::Entry;
use lazaret_gate::lineage::BIRTHS;
use lazaret_gate::record::TurnRecord;
use lazaret_gate::{AgentId, Digest};
use lazaret_guest::{Engine, Program};
use lazaret_store::{Batch, Change, Reader};

use crate::error::HostError;
use crate::host::{Host, lock};
use crate::limits::{MAX_BUNDLE_TURNS, READ_TURNS};
use crate::order::{Tell, in_order, processors};
use crate::replay::{Replayer, Source, Verdict};
use crate::runs::Places;

/// Turns to be exported or replayed: `AGENT`, `AGENT:TURN` or `AGENT:FIRST-LAST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Whose.
    pub agent: AgentId,
    /// Which, from and to; all if none.
    pub turns: Option<(u64, u64)>,
}

impl FromStr for Selection {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let bad = || HostError::Selection(text.chars().take(200).collect());
        let (agent, turns) = text.split_once(':').map_or((text, None), |(agent, turns)| (agent, Some(turns)));
        let agent = agent.parse().map_err(|_| bad())?;
        let turns = match turns.map(|turns| turns.split_once('-').unwrap_or((turns, turns))) {
            None => None,
            Some((first, last)) => {
                let (first, last) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
                if first == 0 || first > last {
                    return Err(bad());
                }
                Some((first, last))
            }
        };
        Ok(Self { agent, turns })
    }
}

/// What a stranger found.
pub struct BundleReport {
    /// Everything but re-execution.
    pub checked: Checked,
    /// Each turn's place in the journal, its agent and number, and what re-execution said.
    pub verdicts: Vec<(u64, AgentId, u64, Verdict)>,
}

/// A data root as the source of a replay.
impl Source for Host {
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
        self.store.blob(digest).map_err(|why| why.to_string())
    }

    fn blobs(&self, digests: &[Digest]) -> Option<Vec<Vec<u8>>> {
        self.store.blobs(digests).ok()
    }

    fn program(&self, component: &Digest) -> Option<Program> {
        Host::program(self, component).ok()
    }
}

struct BundleSource<'a> {
    checked: &'a Checked,
    engine: &'a Engine,
    /// So that a component that several agents have is compiled once.
    programs: Mutex<HashMap<Digest, Program>>,
}

impl Source for BundleSource<'_> {
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
        self.checked.blobs.get(digest).cloned().ok_or_else(|| format!("blob {digest} is not in the bundle"))
    }

    fn program(&self, component: &Digest) -> Option<Program> {
        let mut programs = lock(&self.programs);
        if let Some(program) = programs.get(component) {
            return Some(program.clone());
        }
        let program = self.engine.admit(self.checked.blobs.get(component)?).ok()?.program;
        programs.insert(*component, program.clone());
        Some(program)
    }
}

impl Host {
    /// The records of the selected turns, with their places in the journal.
    pub fn turns(&self, selection: &Selection) -> Result<Vec<(u64, TurnRecord)>, HostError> {
        let places = self.places(selection)?;
        let mut records = Vec::with_capacity(places.seqs.len());
        while records.len() < places.seqs.len() {
            records.extend(self.records(&places, records.len()..places.seqs.len())?);
        }
        Ok(records)
    }

    /// Where the selected turns stand in the journal.
    pub(crate) fn places(&self, selection: &Selection) -> Result<Places, HostError> {
        let row = self.store.agent(&selection.agent)?.ok_or_else(|| HostError::NoAgent(selection.agent.to_string()))?;
        let (first, last) = selection.turns.unwrap_or((1, row.turn));
        let absent = || HostError::NoTurn { agent: row.agent.clone(), turn: last, taken: row.turn };
        if last > row.turn {
            return Err(absent());
        }
        if first == last {
            let seqs = vec![self.store.turn_entry(&row.agent, last)?.ok_or_else(absent)?];
            return Ok(Places { agent: row.agent.clone(), first, seqs });
        }
        let mut seqs = self.store.agent_entries(&row.agent, Some("turn"), None)?;
        let index = |turn: u64| usize::try_from(turn).unwrap_or(usize::MAX);
        seqs.truncate(index(last));
        seqs.drain(..index(first.saturating_sub(1)).min(seqs.len()));
        if seqs.len() as u64 != (last + 1).saturating_sub(first) {
            return Err(absent());
        }
        Ok(Places { agent: row.agent.clone(), first, seqs })
    }

    /// Writes a bundle of the selected turns. Signs and keeps a checkpoint, so that the next bundle can show that the
    /// journal it comes from extends this one's.
    pub fn export(&self, selections: &[Selection]) -> Result<Vec<u8>, HostError> {
        let seqs = self.bundle_entries(selections)?;
        let (checkpoint, note) = self.store.head()?;
        let prover = self.store.prover()?;
        let size = usize::try_from(checkpoint.size).unwrap_or(usize::MAX);
        let unprovable = || HostError::Halted("the journal's checkpoint covers more entries than there are".into());
        let mut builder = Builder::new(&self.store.verifier().to_text())?;
        builder.checkpoint(&note, &[])?;
        let mut older = self.store.checkpoints()?;
        older.retain(|(old, _)| old.size < checkpoint.size);
        older.sort_by_key(|(old, _)| std::cmp::Reverse(old.size));
        older.dedup_by_key(|(old, _)| old.size);
        for (old, note) in older {
            let proof =
                prover.consistency(usize::try_from(old.size).unwrap_or(usize::MAX), size).ok_or_else(unprovable)?;
            builder.checkpoint(&note, &proof)?;
        }
        for seq in seqs {
            let proof = prover.inclusion(usize::try_from(seq).unwrap_or(usize::MAX), size).ok_or_else(unprovable)?;
            builder.entry(read_entry(&self.store, seq)?, &proof)?;
        }
        let bytes = builder.finish(|digest| self.store.blob(digest).map_err(|why| why.to_string()));
        let bytes = bytes.map_err(HostError::Unexportable)?;
        self.store.commit(Batch { entries: Vec::new(), changes: vec![Change::Checkpoint] })?;
        Ok(bytes)
    }

    /// The journal entries that speak of the selected turns, in order.
    fn bundle_entries(&self, selections: &[Selection]) -> Result<BTreeSet<u64>, HostError> {
        let mut seqs = BTreeSet::from([0]);
        for selection in selections {
            seqs.extend(self.places(selection)?.seqs);
            seqs.extend(self.links(selection)?);
        }
        if seqs.len() > MAX_BUNDLE_TURNS {
            return Err(HostError::Selection(format!("{} entries", seqs.len())));
        }
        Ok(seqs)
    }

    /// Where an agent began, and each time that it was put back before or between the selected turns: without these they don't
    /// follow one another.
    fn links(&self, selection: &Selection) -> Result<Vec<u64>, HostError> {
        let (first, last) = selection.turns.unwrap_or((1, u64::MAX));
        let (mut seqs, mut taken) = (Vec::new(), 0);
        for (seq, kind, _) in self.store.trail(&selection.agent)? {
            match kind.as_str() {
                "turn" => taken += 1,
                "agent-rolled-back" if taken + 1 >= first && taken < last => seqs.push(seq),
                kind if BIRTHS.contains(&kind) => seqs.push(seq),
                _ => {}
            }
        }
        Ok(seqs)
    }
}

fn read_entry(store: &Reader, seq: u64) -> Result<Entry, HostError> {
    Ok(Entry::read(&store.entry_bytes(seq)?)?)
}

/// Checks a bundle whole: first everything that needs no engine, then every turn by running it again.
pub fn verify(
    engine: &Engine,
    bytes: &[u8],
    each: impl FnMut(u64, &TurnRecord, &Verdict),
) -> Result<BundleReport, HostError> {
    let checked = bundle::check(bytes)?;
    let mut verdicts = replay(engine, &checked, each);
    verdicts.sort_by_key(|(seq, ..)| *seq);
    Ok(BundleReport { checked, verdicts })
}

/// Agent by agent: a replayer keeps one agent, and what a turn of the bundle left is nowhere but there.
fn replay<'a>(
    engine: &Engine,
    checked: &'a Checked,
    mut each: impl FnMut(u64, &TurnRecord, &Verdict),
) -> Vec<(u64, AgentId, u64, Verdict)> {
    let source = BundleSource { checked, engine, programs: Mutex::default() };
    let mut turns: Vec<_> = checked.turns().collect();
    turns.sort_by_key(|(_, record)| &record.agent);
    let agents: Vec<_> = turns.chunk_by(|(_, one), (_, other)| one.agent == other.agent).collect();
    let worker = || {
        |agent: usize, tell: Tell<'_, Vec<(u64, &'a TurnRecord, Verdict)>>| {
            let mut replayer = Replayer::new(engine, &source);
            for turns in agents.get(agent).copied().unwrap_or_default().chunks(READ_TURNS) {
                let verify = |(seq, record): &(u64, &'a TurnRecord)| (*seq, *record, replayer.verify(record));
                if tell(turns.iter().map(verify).collect()).is_break() {
                    return;
                }
            }
        }
    };
    let mut verdicts = Vec::with_capacity(turns.len());
    in_order(processors(), agents.len(), worker, |told| {
        for (seq, record, verdict) in told {
            each(seq, record, &verdict);
            verdicts.push((seq, record.agent.clone(), record.turn, verdict));
        }
        ControlFlow::Continue(())
    });
    verdicts
}
