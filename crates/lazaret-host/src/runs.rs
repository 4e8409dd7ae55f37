//! Replaying an agent's past on all processors: its turns are split into runs, and each begins with its own recorded image.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use lazaret_gate::AgentId;
use lazaret_gate::canonical::{self, NotCanonical};
use lazaret_gate::entry::Entry;
use lazaret_gate::image::{Image, NODE_PAGES, PAGE};
use lazaret_gate::record::{Body, TurnRecord};

use crate::bundles::Selection;
use crate::error::HostError;
use crate::host::Host;
use crate::limits::{HEARD_LATER, READ_BYTES, READ_TURNS, REPLAY_BYTES, REPLAY_RUN};
use crate::order::{Tell, in_order, processors};
use crate::replay::{Replayer, Source, Verdict};

/// Turns of one agent, one after the other, by their places in the journal.
pub(crate) struct Places {
    pub(crate) agent: AgentId,
    /// The first one's number.
    pub(crate) first: u64,
    pub(crate) seqs: Vec<u64>,
}

/// Turns that were replayed, with their places in the journal, or why they can't be read.
type Told = Result<Vec<(u64, Arc<TurnRecord>, Verdict)>, HostError>;

impl Host {
    /// Replays the selected turns, telling `each` in order as it goes.
    pub fn replay(
        &self,
        selection: &Selection,
        mut each: impl FnMut(u64, &TurnRecord, &Verdict),
    ) -> Result<Vec<Verdict>, HostError> {
        let places = self.places(selection)?;
        let split = self.split(&places);
        let runs = places.seqs.len().div_ceil(split.len);
        let worker = || {
            let mut replayer = Replayer::new(&self.engine, self);
            let (places, split) = (&places, &split);
            move |run: usize, tell: Tell<'_, Told>| {
                if let Err(why) = self.replay_run(&mut replayer, places, split.turns(run, places), tell) {
                    let _ = tell(Err(why));
                }
            }
        };
        let mut verdicts = Vec::with_capacity(places.seqs.len());
        let mut failed = None;
        in_order(split.threads, runs, worker, |told| match told {
            Ok(turns) => {
                for (seq, record, verdict) in turns {
                    each(seq, &record, &verdict);
                    verdicts.push(verdict);
                }
                ControlFlow::Continue(())
            }
            Err(why) => {
                failed = Some(why);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(verdicts), Err)
    }

    fn replay_run(
        &self,
        replayer: &mut Replayer<'_, impl Source>,
        places: &Places,
        turns: Range<usize>,
        tell: Tell<'_, Told>,
    ) -> Result<(), HostError> {
        let mut at = self.beginning(replayer, places, &turns)?;
        // Whoever hears of these records has done with them by the time that the next ones are told. So they are freed here,
        // where they were made: memory that one thread frees for another makes both wait.
        let mut heard: Vec<Arc<TurnRecord>> = Vec::new();
        while at < turns.end {
            let mut told = Vec::new();
            let records = self.records(places, at..turns.end)?;
            replayer.look_ahead(records.iter().map(|(_, record)| record));
            for (seq, record) in records {
                let record = Arc::new(record);
                let verdict = replayer.verify_shared(&record);
                if at >= turns.start {
                    told.push((seq, record, verdict));
                }
                at += 1;
            }
            let telling = told.iter().map(|(_, record, _): &(_, Arc<TurnRecord>, _)| record.clone()).collect();
            if tell(Ok(told)).is_break() {
                break;
            }
            drop(std::mem::replace(&mut heard, telling));
        }
        Ok(())
    }

    /// Where to begin, so that the first turn of a run finds the image before it: there, or further back if that image
    /// can't be had. Being split must not make a turn unverifiable.
    fn beginning(
        &self,
        replayer: &mut Replayer<'_, impl Source>,
        places: &Places,
        turns: &Range<usize>,
    ) -> Result<usize, HostError> {
        let mut at = turns.start;
        while at > 0 {
            let ready = self.records(places, at..at + 1)?.first().is_some_and(|(_, record)| replayer.ready(record));
            if ready {
                break;
            }
            at = at.saturating_sub(turns.len());
        }
        Ok(at)
    }

    /// The next records: as many of these as are read at once, and at least one.
    pub(crate) fn records(&self, places: &Places, turns: Range<usize>) -> Result<Vec<(u64, TurnRecord)>, HostError> {
        let Some(seqs @ [first, ..]) = places.seqs.get(turns.clone()) else { return Ok(Vec::new()) };
        // Entries that stand side by side are read in one go.
        let beside = seqs.iter().zip(*first..).take_while(|(seq, next)| **seq == *next).take(READ_TURNS).count();
        let (mut entries, mut bytes) = (Vec::with_capacity(beside), 0);
        self.store.entries(*first..*first + beside as u64, |_, entry| {
            entries.push(Entry::read(entry));
            bytes += entry.len();
            if bytes < READ_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let turn = places.first + turns.start as u64;
        let absent = |turn: u64| HostError::NoTurn { agent: places.agent.clone(), turn, taken: turn.saturating_sub(1) };
        if entries.is_empty() {
            return Err(absent(turn));
        }
        let record = |((turn, seq), entry): ((u64, &u64), Result<Entry, NotCanonical>)| match entry?.body {
            Body::Turn(record) if record.turn == turn && record.agent == places.agent => Ok((*seq, *record)),
            _ => Err(absent(turn)),
        };
        (turn..).zip(seqs).zip(entries).map(record).collect()
    }

    /// How to split these turns. Every run wakes its agent, so the larger an agent is, the longer is a run; and every
    /// thread has the agent in memory once.
    fn split(&self, places: &Places) -> Split {
        let count = places.seqs.len();
        let alone = Split { threads: 1, len: count.max(1) };
        if count <= REPLAY_RUN {
            return alone;
        }
        let Some(pages) = self.pages_after(places, count - 1) else { return alone };
        let fit = REPLAY_BYTES / (pages * PAGE).max(1);
        let threads = processors().min(fit.max(1));
        if threads > 1 { Split { threads, len: pages.clamp(REPLAY_RUN, HEARD_LATER * READ_TURNS) } } else { alone }
    }

    /// At least as many pages as the agent had after this turn, if that can be told.
    fn pages_after(&self, places: &Places, turn: usize) -> Option<usize> {
        let records = self.records(places, turn..turn + 1).ok()?;
        let Some(image) = records.first()?.1.image_after else { return Some(0) };
        let image: Image = canonical::decode(&self.store.blob(&image).ok()?).ok()?;
        let nodes = image.memories.iter().flat_map(|memory| &memory.nodes).flatten().count();
        Some(nodes * NODE_PAGES)
    }
}

/// How turns are split into runs.
struct Split {
    threads: usize,
    /// Turns in a run.
    len: usize,
}

impl Split {
    fn turns(&self, run: usize, places: &Places) -> Range<usize> {
        let from = run * self.len;
        from..places.seqs.len().min(from + self.len)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test reads a guest")]

    use std::collections::HashSet;
    use std::path::Path;

    use lazaret_gate::record::Message;
    use lazaret_gate::{Budget, Digest, Grants};
    use lazaret_guest::Program;

    use super::*;
    use crate::NewAgent;

    const TURNS: usize = 2 * REPLAY_RUN + 20;

    /// A data root in which some blobs can't be had.
    struct Forgetful<'a>(&'a Host, HashSet<Digest>);

    impl Source for Forgetful<'_> {
        fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
            if self.1.contains(digest) { Err("forgotten".into()) } else { self.0.blob(digest) }
        }

        fn program(&self, component: &Digest) -> Option<Program> {
            Source::program(self.0, component)
        }
    }

    fn host(at: &Path) -> (Host, Selection) {
        let host = Host::open(at).unwrap();
        let agent: AgentId = "counter".parse().unwrap();
        let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
        let component = std::fs::read(component).expect("guests/build.sh makes the guests");
        let new = NewAgent {
            agent: agent.clone(),
            grants: Grants::basic(),
            budget: Budget::default(),
            caps: lazaret_gate::ledger::Caps::default(),
            slots: Default::default(),
        };
        host.create(new, &component).unwrap();
        for turn in 0..TURNS {
            let body = if turn % 50 == 7 { "fail on purpose" } else { "add 1" };
            let message = Message::outside("text/plain", body);
            host.send(&agent, message).unwrap();
        }
        (host, Selection { agent, turns: None })
    }

    #[test]
    fn runs_are_told_in_order_and_need_no_image_but_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let (host, all) = host(&dir.path().join("root"));
        let mut told = Vec::new();
        let verdicts = host.replay(&all, |_, record, verdict| told.push((record.turn, verdict.clone()))).unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match));
        assert_eq!(told, (1..=TURNS as u64).map(|turn| (turn, Verdict::Match)).collect::<Vec<_>>());

        let places = host.places(&all).unwrap();
        let records = host.turns(&all).unwrap();
        let forgotten = records[1..].iter().filter_map(|(_, record)| record.image_before);
        let source = Forgetful(&host, forgotten.collect());
        for run in 0..3 {
            let turns = run * REPLAY_RUN..TURNS.min((run + 1) * REPLAY_RUN);
            let mut replayer = Replayer::new(&host.engine, &source);
            let mut told = Vec::new();
            let mut tell = |turns: Told| {
                told.extend(turns.unwrap().into_iter().map(|(_, record, verdict)| (record.turn as usize - 1, verdict)));
                ControlFlow::Continue(())
            };
            host.replay_run(&mut replayer, &places, turns.clone(), &mut tell).unwrap();
            assert_eq!(told, turns.map(|turn| (turn, Verdict::Match)).collect::<Vec<_>>(), "run {run}");
        }
    }
}
