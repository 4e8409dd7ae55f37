//! The recorded past, ask by ask, as the rules saw it.

use std::ops::{ControlFlow, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use lazaret_gate::entry::Entry;
use lazaret_gate::policy::{Comparing, Comparison, Policies, Recorded, Request, Who};
use lazaret_gate::record::{Body, Judged, TapeEntry, TurnRecord};
use lazaret_gate::{AgentId, Ruling, Rulings, canonical};
use lazaret_store::Reader;

use crate::asking::Unanswerable;
use crate::error::HostError;
use crate::host::lock;

/// Names one ask: its turn's place in the journal, and its place in the turn. Written `17.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectId {
    /// The turn's place in the journal.
    pub entry: u64,
    /// The ask's place in the turn, from 0.
    pub number: u32,
}

impl std::fmt::Display for EffectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.entry, self.number)
    }
}

impl std::str::FromStr for EffectId {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let parts = text.split_once('.').and_then(|(entry, number)| entry.parse().ok().zip(number.parse().ok()));
        let (entry, number) = parts.ok_or_else(|| HostError::NoEffect {
            id: text.chars().take(60).collect(),
            why: "write ENTRY.NUMBER, as `lazaret journal show` has them".into(),
        })?;
        Ok(Self { entry, number })
    }
}

/// One ask of the past.
pub struct PastAsk {
    /// Its name.
    pub id: EffectId,
    /// Whose it was.
    pub agent: AgentId,
    /// In which turn.
    pub turn: u64,
    /// What was asked and how it ended.
    pub entry: TapeEntry,
    /// How it was judged; none if it was refused before any rule was read.
    pub ruling: Option<Ruling>,
}

impl PastAsk {
    fn of(seq: u64, record: &TurnRecord, rulings: &Rulings, number: usize) -> Option<Self> {
        let entry = record.tape.get(number)?.clone();
        let ruling = entry.ruling.and_then(|place| rulings.get(place)).cloned();
        let id = EffectId { entry: seq, number: u32::try_from(number).ok()? };
        Some(Self { id, agent: record.agent.clone(), turn: record.turn, entry, ruling })
    }

    /// What the rules were asked; none if they weren't.
    pub fn request(&self) -> Option<Request> {
        let ruling = self.ruling.as_ref()?;
        Request::of(&self.entry.effect, &Who::agent(&self.agent, None), &ruling.under.facts, &ruling.risk).ok()
    }

    /// As two sets of rules are compared over it.
    pub fn recorded(&self) -> Recorded {
        Recorded { id: self.id.to_string(), request: self.request().map(Box::new) }
    }
}

/// One ask by its name.
pub fn past_ask(reader: &Reader, id: EffectId) -> Result<PastAsk, HostError> {
    let none = |why: &str| HostError::NoEffect { id: id.to_string(), why: why.to_owned() };
    if id.entry >= reader.journal_len()? {
        return Err(none("the journal isn't that long"));
    }
    let Body::Turn(record) = reader.entry(id.entry)?.body else { return Err(none("that entry is not a turn")) };
    let found = PastAsk::of(id.entry, &record, &judged(reader, &record)?, id.number as usize);
    found.ok_or_else(|| none(&format!("that turn has {} effects, counted from 0", record.tape.len())))
}

/// Goes through every ask of every turn since a time (milliseconds since 1970), oldest first.
pub fn past(reader: &Reader, since: u64, mut each: impl FnMut(PastAsk)) -> Result<(), HostError> {
    let mut broken = None;
    reader.entries(0..reader.journal_len()?, |seq, bytes| {
        let mut look = || -> Result<(), HostError> {
            if let Entry { body: Body::Turn(record), time, .. } = Entry::read(bytes)?
                && time >= since
            {
                let rulings = judged(reader, &record)?;
                let asks = (0..record.tape.len()).filter_map(|number| PastAsk::of(seq, &record, &rulings, number));
                asks.for_each(&mut each);
            }
            Ok(())
        };
        match look() {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                broken = Some(why);
                ControlFlow::Break(())
            }
        }
    })?;
    broken.map_or(Ok(()), Err)
}

/// How a question of the past ended, by its id or the beginning of it; none if it isn't on record.
pub fn answered(reader: &Reader, id: &str) -> Result<Option<Unanswerable>, HostError> {
    let mut ended = None;
    let mut look = |rulings: &Rulings| {
        for asked in rulings.iter().flat_map(|ruling| &ruling.asked) {
            if asked.question.id.starts_with(id) {
                let expired = || Unanswerable::Expired(asked.question.id.clone());
                let answer = asked.answer.as_ref();
                ended = Some(answer.map_or_else(expired, |answer| Unanswerable::answered(&asked.question, answer)));
            }
        }
    };
    for seq in 0..reader.journal_len()? {
        match reader.entry(seq)?.body {
            Body::Turn(record) => look(&judged(reader, &record)?),
            // Of a turn that is not over yet.
            Body::EffectOpened(opened) => look(&canonical::decode(&reader.blob(&opened.judged)?)?),
            _ => {}
        }
    }
    Ok(ended)
}

fn judged(reader: &Reader, record: &TurnRecord) -> Result<Rulings, HostError> {
    let judged: Judged = canonical::decode(&reader.blob(&record.judged)?)?;
    Ok(judged.rulings)
}

/// Entries that are read at once, and looked at by one processor.
const SHARE: u64 = 256;

/// Decides every ask of every turn since a time (milliseconds since 1970) again, by two sets of rules.
pub fn backtest(reader: &Reader, since: u64, old: &Policies, new: &Policies) -> Result<Comparison, HostError> {
    let len = reader.journal_len()?;
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut comparing = Comparing::new(old, new);
        loop {
            let from = next.fetch_add(SHARE, Ordering::Relaxed);
            if from >= len {
                return;
            }
            let looked = look(reader, from..len.min(from + SHARE), since, &mut comparing);
            if looked.is_err() {
                next.store(len, Ordering::Relaxed);
            }
            lock(&found).push((from, looked.map(|()| comparing.take())));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    std::thread::scope(|scope| {
        for _ in 1..processors.min(len.div_ceil(SHARE)) {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(from, _)| *from);
    let mut all = Comparison::default();
    for (_, part) in found {
        all.extend(part?);
    }
    Ok(all)
}

/// Asks about the turns in a range of the journal.
fn look(reader: &Reader, range: Range<u64>, since: u64, comparing: &mut Comparing<'_>) -> Result<(), HostError> {
    let mut turns = Vec::new();
    reader.entries(range, |seq, bytes| {
        // Only turns are taken apart, and only those of the time in question.
        if bytes.starts_with(b"{\"body\":{\"turn\":") && written(bytes).is_none_or(|time| time >= since) {
            turns.push((seq, bytes.to_vec()));
        }
        ControlFlow::Continue(())
    })?;
    let mut records = Vec::with_capacity(turns.len());
    for (seq, bytes) in turns {
        if let Entry { body: Body::Turn(record), .. } = Entry::read(&bytes)? {
            records.push((seq, record));
        }
    }
    let judged: Vec<_> = records.iter().map(|(_, record)| record.judged).collect();
    for ((entry, record), judged) in records.into_iter().zip(reader.blobs(&judged)?) {
        let judged: Judged = canonical::decode(&judged)?;
        let who = Who::agent(&record.agent, None);
        for (number, ask) in (0_u32..).zip(&record.tape) {
            let ruling = ask.ruling.and_then(|place| judged.rulings.get(place));
            let request =
                ruling.and_then(|ruling| Request::of(&ask.effect, &who, &ruling.under.facts, &ruling.risk).ok());
            comparing.ask(&EffectId { entry, number }, request.as_ref());
        }
    }
    Ok(())
}

/// When an entry was written, from the end of its frame.
fn written(bytes: &[u8]) -> Option<u64> {
    let frame = str::from_utf8(bytes.get(bytes.len().saturating_sub(40)..)?).ok()?;
    frame.rsplit_once("\"time\":")?.1.strip_suffix('}')?.parse().ok()
}
