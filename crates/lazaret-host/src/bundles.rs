//! Bundles: handing turns to a stranger, and being that stranger.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::str::FromStr;

use lazaret_gate::bundle::{self, Builder, Checked};
use lazaret_gate::entry::Entry;
use lazaret_gate::record::{Body, TurnRecord};
use lazaret_gate::{AgentId, Digest};
use lazaret_guest::{Engine, Program};
use lazaret_store::{Batch, Change, Reader};

use crate::error::HostError;
use crate::host::Host;
use crate::limits::{MAX_BUNDLE_TURNS, REPLAY_RUN};
use crate::replay::{Replayer, Source, Verdict};

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

    fn program(&self, component: &Digest) -> Option<Program> {
        Host::program(self, component).ok()
    }
}

struct BundleSource<'a>(&'a Checked);

impl Source for BundleSource<'_> {
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
        self.0.blobs.get(digest).cloned().ok_or_else(|| format!("blob {digest} is not in the bundle"))
    }
}

impl Host {
    /// The records of the selected turns, with their places in the journal.
    pub fn turns(&self, selection: &Selection) -> Result<Vec<(u64, TurnRecord)>, HostError> {
        let (first, seqs) = self.places(selection)?;
        self.records(&selection.agent, first, &seqs)
    }

    /// The first of the selected turns, and where it and those after it stand in the journal.
    fn places(&self, selection: &Selection) -> Result<(u64, Vec<u64>), HostError> {
        let row = self.store.agent(&selection.agent)?.ok_or_else(|| HostError::NoAgent(selection.agent.to_string()))?;
        let (first, last) = selection.turns.unwrap_or((1, row.turn));
        let absent = || HostError::NoTurn { agent: row.agent.clone(), turn: last, taken: row.turn };
        if last > row.turn {
            return Err(absent());
        }
        if first == last {
            return Ok((first, vec![self.store.turn_entry(&row.agent, last)?.ok_or_else(absent)?]));
        }
        let mut seqs = self.store.agent_entries(&row.agent, Some("turn"), None)?;
        let index = |turn: u64| usize::try_from(turn).unwrap_or(usize::MAX);
        seqs.truncate(index(last));
        seqs.drain(..index(first.saturating_sub(1)).min(seqs.len()));
        if seqs.len() as u64 != (last + 1).saturating_sub(first) {
            return Err(absent());
        }
        Ok((first, seqs))
    }

    /// The records at these places, which are an agent's turns one after the other.
    fn records(&self, agent: &AgentId, first: u64, seqs: &[u64]) -> Result<Vec<(u64, TurnRecord)>, HostError> {
        let mut records = Vec::with_capacity(seqs.len());
        let mut add = |turn: u64, seq: u64, bytes: &[u8]| match Entry::read(bytes)?.body {
            Body::Turn(record) if record.turn == turn && record.agent == *agent => {
                records.push((seq, *record));
                Ok(())
            }
            _ => Err(HostError::NoTurn { agent: agent.clone(), turn, taken: turn.saturating_sub(1) }),
        };
        let mut wanted = (first..).zip(seqs.iter().copied()).peekable();
        while let Some((turn, seq)) = wanted.next() {
            // Entries that stand side by side are read in one go.
            let mut end = seq + 1;
            let mut run = vec![(turn, seq)];
            while let Some(next) = wanted.next_if(|(_, next)| *next == end) {
                run.push(next);
                end += 1;
            }
            let mut entries = Vec::with_capacity(run.len());
            self.store.entries(seq..end, |_, bytes| {
                entries.push(bytes.to_vec());
                ControlFlow::Continue(())
            })?;
            run.iter().zip(&entries).try_for_each(|((turn, seq), bytes)| add(*turn, *seq, bytes))?;
        }
        Ok(records)
    }

    /// Replays the selected turns, telling `each` as it goes. On one thread: waking maps and unmaps memory, and where the
    /// turns are short, a second thread of the same process slows that down by more than it gains.
    pub fn replay(
        &self,
        selection: &Selection,
        mut each: impl FnMut(u64, &TurnRecord, &Verdict),
    ) -> Result<Vec<Verdict>, HostError> {
        let (first, seqs) = self.places(selection)?;
        let mut replayer = Replayer::new(&self.engine, self);
        let mut verdicts = Vec::with_capacity(seqs.len());
        for (first, seqs) in (first..).step_by(REPLAY_RUN).zip(seqs.chunks(REPLAY_RUN)) {
            for (seq, record) in self.records(&selection.agent, first, seqs)? {
                let verdict = replayer.verify(&record);
                each(seq, &record, &verdict);
                verdicts.push(verdict);
            }
        }
        Ok(verdicts)
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
            seqs.extend(self.places(selection)?.1);
            seqs.extend(self.store.agent_entries(&selection.agent, Some("agent-created"), None)?);
        }
        if seqs.len() > MAX_BUNDLE_TURNS {
            return Err(HostError::Selection(format!("{} entries", seqs.len())));
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
    mut each: impl FnMut(u64, &TurnRecord, &Verdict),
) -> Result<BundleReport, HostError> {
    let checked = bundle::check(bytes)?;
    let mut verdicts = Vec::new();
    {
        let source = BundleSource(&checked);
        let mut replayer = Replayer::new(engine, &source);
        // Agent by agent: a replayer keeps one state, and what a turn of the bundle left is nowhere but there.
        let mut turns: Vec<_> = checked.turns().collect();
        turns.sort_by_key(|(_, record)| &record.agent);
        for (seq, record) in turns {
            let verdict = replayer.verify(record);
            each(seq, record, &verdict);
            verdicts.push((seq, record.agent.clone(), record.turn, verdict));
        }
    }
    verdicts.sort_by_key(|(seq, ..)| *seq);
    Ok(BundleReport { checked, verdicts })
}
