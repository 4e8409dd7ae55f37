//! Taking a turn: wake, run, and commit everything or nothing.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::canonical;
use lazaret_gate::image::Image;
use lazaret_gate::ledger::{Account, Amounts, Ask, Caps, Point};
use lazaret_gate::limits::{MAX_INPUT, MAX_KEY};
use lazaret_gate::outcome::Entry;
use lazaret_gate::record::{Body, Ending, InDoubt, Judged, Message, TurnRecord};
use lazaret_gate::{AgentId, Blob, Digest, Halt, Rulings, labels};
use lazaret_guest::{Leftover, Ran, State, Terms, turn};
use lazaret_store::{AgentRow, AgentState, Batch, Change, Placed};

use crate::error::HostError;
use crate::host::{Host, Slot, lock};
use crate::limits::{DELIVERIES, TIDIED_MEANWHILE};
use crate::live::{Live, Plan, Resume, Traces};
use crate::quarantine::streak_after;

/// A turn that is on record.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its place in the journal.
    pub seq: u64,
    /// The record's hash.
    pub hash: Digest,
    /// The record.
    pub record: TurnRecord,
    /// Pages that it changed.
    pub pages: usize,
    /// How its asks were judged.
    pub rulings: Rulings,
    /// Budgets that the turn itself, when it was over, had brought near a cap.
    pub warnings: Vec<String>,
}

impl Host {
    /// Takes one turn of an agent with this message and returns when it is on disk.
    pub fn send(&self, agent: &AgentId, message: Message) -> Result<Turn, HostError> {
        check_message(&message)?;
        let slot = self.slot(agent);
        let mut slot = lock(&slot);
        self.running()?;
        let row = self.known(agent)?;
        self.trusted(&row)?;
        let row = self.ready(row)?;
        self.take_turn(&mut slot, row, 0, message, Resume::default())
    }

    /// Lets agents answer what is in their mailboxes until all are empty or [`DELIVERIES`] turns were taken.
    pub fn deliver(&self) -> Result<Vec<Turn>, HostError> {
        let mut turns = Vec::new();
        loop {
            let mut idle = true;
            for row in self.store.agents()? {
                // While everything is stopped, mail waits.
                if row.state != AgentState::Asleep || turns.len() >= DELIVERIES || self.running().is_err() {
                    continue;
                }
                // And so does that of whoever is revoked, or lacks a secret without which it takes no turn.
                if self.trusted(&row).is_err() || self.equipped(&row).is_err() {
                    continue;
                }
                let slot = self.slot(&row.agent);
                let mut slot = lock(&slot);
                if self.store.mailbox_len(&row.agent)? == 0 {
                    continue;
                }
                idle = false;
                let row = self.ready(self.known(&row.agent)?)?;
                // Not before: a turn that was cut off and is over now may have answered the oldest message.
                let Some((id, message)) = self.store.mailbox_next(&row.agent)? else { continue };
                turns.push(self.take_turn(&mut slot, row, id, message, Resume::default())?);
            }
            if idle {
                return Ok(turns);
            }
        }
    }

    /// An agent, if it can take a turn now.
    pub(crate) fn ready(&self, row: Arc<AgentRow>) -> Result<Arc<AgentRow>, HostError> {
        self.check_engine(&row.agent, &row.engine)?;
        match (row.state, row.unfinished) {
            (AgentState::Quarantined, _) => Err(self.quarantined(&row.agent)?),
            (AgentState::InDoubt, Some(turn)) => Err(self.in_doubt(&row.agent, turn)?),
            (_, Some(turn)) => {
                // The turn was cut off and nobody has taken it up since the data root was opened.
                self.resume(&row.agent, turn).map_err(|why| match why {
                    // What is said of that turn is not to be taken for what is said of the message that comes now.
                    HostError::Begun { why, .. } => {
                        HostError::Unwritten(format!("the one before it is not over: {why}"))
                    }
                    why => why,
                })?;
                self.known(&row.agent)
            }
            _ => Ok(row),
        }
    }

    pub(crate) fn in_doubt(&self, agent: &AgentId, turn: u64) -> Result<HostError, HostError> {
        let cut = self.cut_off(agent, turn)?;
        let (number, effect) = cut.open.map_or((0, "?".to_owned()), |(number, effect)| (number, effect.summary()));
        Ok(HostError::InDoubt { agent: agent.clone(), turn, number, effect })
    }

    fn woken(&self, slot: &mut Slot, row: &AgentRow) -> Result<State, HostError> {
        let Some(digest) = row.image else { return Ok(State::default()) };
        if let Some((warm, state)) = self.take_warm(slot)
            && warm == digest
        {
            return Ok(state);
        }
        let image: Image = canonical::decode(&self.store.blob(&digest)?)?;
        if image.agent != row.agent || image.component != row.component || image.engine != row.engine {
            let why = "it is bound to another agent, component or engine".to_owned();
            return Err(HostError::Image {
                agent: row.agent.clone(),
                why: lazaret_guest::state::Unwakeable::Damaged(why),
            });
        }
        let fetch = |digest: &Digest| self.store.blob(digest).map_err(|why| why.to_string());
        State::wake(&image, fetch).map_err(|why| HostError::Image { agent: row.agent.clone(), why })
    }

    pub(crate) fn take_turn(
        &self,
        slot: &mut Slot,
        row: Arc<AgentRow>,
        message: u64,
        input: Message,
        resume: Resume,
    ) -> Result<Turn, HostError> {
        if !slot.vouched {
            self.vouched(&row)?;
            slot.vouched = true;
        }
        let seat = self.station.seats.sit();
        if seat.stood() && !resume.begun {
            // That took its time, and it may have been stopped meanwhile.
            self.running()?;
            self.trusted(&row)?;
        }
        if !resume.begun {
            funded(&row)?;
            self.equipped(&row)?;
        }
        let program = self.program(&row.component)?;
        let state = self.woken(slot, &row)?;
        let plan = Plan {
            agent: row.agent.clone(),
            turn: row.turn + 1,
            message,
            input: input.clone(),
            grants: row.grants.clone(),
            budget: row.budget.clone(),
            caps: row.caps.clone(),
            account: row.account.clone(),
            labels: labels::at_start(&row.labels, &input),
            esteem: self.esteem(&row)?,
            resume,
            seat,
        };
        let actor = self.station.acts.enter(&row.agent);
        let outside = self.outside(&row.agent, &row.grants);
        let world = Box::new(Live::new(plan, &self.station, outside, actor.acts.clone()));
        let terms = Terms { input: &input, budget: &row.budget };
        let (ran, leftover) = turn::run_and_leave(&program, &state, &terms, world);
        // What a turn leaves behind is an act like its effects.
        let _act = actor.acts.begin();
        let ran = self.unless_revoked(&row.agent, ran);
        self.drilled(&row.agent);
        self.finish(slot, Arc::unwrap_or_clone(row), message, input, state, (ran, leftover))
    }

    /// Commits a turn that came to an end; says why for one that didn't.
    fn finish(
        &self,
        slot: &mut Slot,
        row: AgentRow,
        message: u64,
        input: Message,
        mut state: State,
        (ran, leftover): (Ran, Leftover),
    ) -> Result<Turn, HostError> {
        let world: Box<dyn Any> = ran.world;
        let traces =
            world.downcast::<Live>().map_err(|_| HostError::Halted("its world was lost".into()))?.into_traces();
        let ending = self.ending(&row, ran.ending, &traces)?;
        let _room_for_sent = traces.promised;
        let mut changes = Vec::new();
        let image_after = match &ran.change {
            Some(change) => Some(seal_image(&row, &mut state, change, &mut changes)?),
            None => row.image,
        };
        let (kept, agent, lasted) = (matches!(ending, Ending::Replied(_)), row.agent.clone(), traces.lasted);
        let streak = (row.streak, streak_after(row.streak, &ending));
        let (fuel, memory, output_bytes) = (ran.fuel, ran.memory, ending.output_bytes());
        let taken = Amounts { fuel, memory, output_bytes, ..traces.taken };
        let (account, warnings) = closed(traces.account, &row.caps, &traces.at, &taken);
        let (spending, before) = (row.account, row.labels.clone());
        let judged =
            Judged { caps: row.caps, spending, day: traces.at.day, rulings: traces.rulings, labels: Some(before) };
        let blob = Blob::of_value(&judged)?;
        let (judged, rulings) = (blob.digest(), judged.rulings);
        changes.push(Change::Blob(blob));
        let record = TurnRecord {
            agent: row.agent,
            turn: row.turn + 1,
            previous: row.last_entry,
            component: row.component,
            engine: row.engine,
            grants: row.grants,
            budget: row.budget,
            image_before: row.image,
            input,
            tape: traces.tape,
            judged,
            ending,
            fuel,
            image_after,
        };
        if kept {
            changes.extend(transaction(&agent, traces.writes, self.deliverable(traces.sent)?));
        }
        let (begun, whose) = (traces.begun, agent.clone());
        changes.extend(over(&agent, message, begun, streak));
        changes.push(self.behaved(&agent, row.conduct, &record)?);
        let labels = labels::after(Some(&row.labels), &record);
        let (turn, image) = (record.turn, image_after);
        changes.push(Change::Turned { agent, turn, image, account: Box::new(account), labels, entry: 0, kept });
        let entry = [Body::Turn(Box::new(record))];
        let pages = ran.change.as_ref().map_or(0, lazaret_guest::Change::pages);
        let placed = self.commit_turn(&entry, changes, &mut state, leftover, ran.change);
        let placed = placed.map_err(|why| broken_off(begun, &whose, turn, why))?;
        let [Body::Turn(record)] = entry else { return Err(HostError::Halted("its record was lost".into())) };
        let placed = placed.first().ok_or_else(|| HostError::Halted("the journal gave it no place".into()))?;
        if let Some(image) = image_after {
            self.keep_warm(slot, image, state);
        }
        let turn = Turn { seq: placed.seq, hash: placed.hash, record: *record, pages, rulings, warnings };
        Ok(self.observed(turn, &lasted))
    }

    /// Commits a turn, and tidies up after it: its instance is taken down and its change written into the heaps. While the
    /// disk works there is time for that.
    ///
    /// The change is true only if the commit succeeds. If it fails, the state is dropped and the old image woken anew, so it
    /// does no harm that the heaps have it already.
    fn commit_turn(
        &self,
        entry: &[Body],
        changes: Vec<Change>,
        state: &mut State,
        leftover: Leftover,
        change: Option<lazaret_guest::Change>,
    ) -> Result<Vec<Placed>, HostError> {
        let brief = change.as_ref().is_none_or(|change| change.pages() <= TIDIED_MEANWHILE);
        let mut rest = Some((leftover, change));
        let mut tidy = || match rest.take() {
            Some((leftover, change)) => leftover.settle(state, change),
            None => Ok(()),
        };
        let mut tidied = Ok(());
        let placed =
            self.store.commit_entries_while(entry, changes, || tidied = if brief { tidy() } else { Ok(()) })?;
        tidied.and_then(|()| tidy())?;
        Ok(placed)
    }

    /// Whoever was removed or revoked meanwhile gets no mail.
    fn deliverable(&self, mut sent: Vec<(AgentId, Message)>) -> Result<Vec<(AgentId, Message)>, HostError> {
        let mut gone = Vec::new();
        for (to, _) in &sent {
            let row = self.store.agent(to)?.filter(|row| row.state != AgentState::Removed);
            if row.is_none_or(|row| self.trusted(&row).is_err()) {
                gone.push(to.clone());
            }
        }
        sent.retain(|(to, _)| !gone.contains(to));
        Ok(sent)
    }

    /// How a turn ended, if it did. A switch that stopped it comes before it in the journal.
    fn ending(&self, row: &AgentRow, ending: Result<Ending, Halt>, traces: &Traces) -> Result<Ending, HostError> {
        let ending = ending.map_err(|halt| self.halted(row, halt, traces))?;
        let noted = self.station.note();
        noted.map_err(|why| broken_off(traces.begun, &row.agent, row.turn + 1, why.into()))?;
        Ok(ending)
    }

    /// A turn that could not be brought to an end.
    fn halted(&self, row: &AgentRow, halt: Halt, traces: &Traces) -> HostError {
        match halt {
            // What may be done again is not in doubt: the turn is taken up, and that effect with it, at the next message.
            Halt::InDoubt(why) if traces.tape.last().is_some_and(|last| last.effect.is_idempotent()) => {
                HostError::Begun { agent: row.agent.clone(), turn: row.turn + 1, why }
            }
            Halt::InDoubt(why) => {
                let turn = row.turn + 1;
                let number = u32::try_from(traces.tape.len().saturating_sub(1)).unwrap_or(u32::MAX);
                let _ = self.mark_in_doubt(&row.agent, turn, number);
                HostError::Halted(format!("agent `{}` is in doubt: {why}", row.agent))
            }
            Halt::Unwritten(why) if traces.begun => {
                HostError::Begun { agent: row.agent.clone(), turn: row.turn + 1, why }
            }
            Halt::Unwritten(why) => HostError::Unwritten(why),
            Halt::Stopped(why) => HostError::Halted(why),
            Halt::Diverged(differs) => {
                HostError::Unresumable { agent: row.agent.clone(), turn: row.turn + 1, why: differs.to_string() }
            }
            Halt::TapeEnds(number) => HostError::Halted(format!("the tape ends at effect {number}")),
        }
    }

    /// The agent takes no turn until a person has settled what happened.
    pub(crate) fn mark_in_doubt(&self, agent: &AgentId, turn: u64, number: u32) -> Result<(), HostError> {
        let entry = Body::InDoubt(InDoubt { agent: agent.clone(), turn, number });
        let changes = vec![Change::SetState { agent: agent.clone(), state: AgentState::InDoubt }];
        self.store.commit(Batch { entries: vec![entry], changes })?;
        Ok(())
    }
}

/// A turn whose end could not be written: if it has effects on disk, that is more than nothing.
fn broken_off(begun: bool, agent: &AgentId, turn: u64, why: HostError) -> HostError {
    match why {
        HostError::Store(why) if begun => HostError::Begun { agent: agent.clone(), turn, why: why.to_string() },
        why => why,
    }
}

/// Brings the state's page names up to date, names the image that the turn leaves, and lists what has to be stored.
fn seal_image(
    row: &AgentRow,
    state: &mut State,
    change: &lazaret_guest::Change,
    changes: &mut Vec<Change>,
) -> Result<Digest, HostError> {
    let sealed = state.advance(change);
    let image = Image {
        agent: row.agent.clone(),
        component: row.component,
        engine: row.engine,
        turn: row.turn + 1,
        memories: sealed.memories,
        globals: sealed.globals,
    };
    let image = Blob::of_value(&image)?;
    let digest = image.digest();
    changes.extend(sealed.blobs.into_iter().chain([image]).map(Change::Blob));
    Ok(digest)
}

/// What goes with the end of every turn: its message is answered, nothing of it is half done, and if it was not like the
/// one before it, that is counted.
fn over(agent: &AgentId, message: u64, begun: bool, (was, streak): (u32, u32)) -> impl Iterator<Item = Change> {
    let answered = (message != 0).then(|| Change::Dequeue { agent: agent.clone(), message });
    let whole = begun.then(|| Change::Unfinished { agent: agent.clone(), turn: None });
    let counted = (streak != was).then(|| Change::SetStreak { agent: agent.clone(), streak });
    answered.into_iter().chain(whole).chain(counted)
}

/// What a turn that replied leaves behind besides its memory.
fn transaction(
    agent: &AgentId,
    writes: BTreeMap<String, Option<Entry>>,
    sent: Vec<(AgentId, Message)>,
) -> impl Iterator<Item = Change> {
    let writes = writes.into_iter().map(|(key, entry)| match entry {
        Some(entry) => Change::StorageSet { agent: agent.clone(), key, value: entry.value.0, version: entry.version },
        None => Change::StorageDelete { agent: agent.clone(), key },
    });
    writes.chain(sent.into_iter().map(|(to, message)| Change::Deliver { to, message }))
}

/// The account as the turn leaves it, with what is known of it only now, and what that has brought near a cap. The turn's
/// own lines are not needed any more.
fn closed(mut account: Account, caps: &Caps, at: &Point, taken: &Amounts) -> (Account, Vec<String>) {
    // INVARIANT: what is charged was booked in the same call, so it is open.
    let crossed = account.charge(caps, at, taken).map_or_else(|_| Vec::new(), |settled| settled.crossings);
    account.end_turn(&at.turn);
    account.end_run(&at.run);
    (account, crossed.iter().map(ToString::to_string).collect())
}

/// Whether an agent can take a turn at all: not while something is overdrawn that is known only after a turn.
fn funded(row: &AgentRow) -> Result<(), HostError> {
    if row.caps == Caps::default() {
        return Ok(());
    }
    let name = format!("{}-{}", row.agent, row.turn + 1);
    let at = Point { day: crate::present::today(), run: name.clone(), turn: name };
    let tried = row.account.clone().reserve(&row.caps, &Ask::default(), &at);
    tried.map(|_| ()).map_err(|short| HostError::Spent(short.to_string()))
}

pub(crate) fn check_message(message: &Message) -> Result<(), HostError> {
    let len = message.body.0.len();
    if len > MAX_INPUT {
        return Err(HostError::InputTooLarge { len, most: MAX_INPUT });
    }
    if message.content_type.len() > MAX_KEY {
        return Err(HostError::InputTooLarge { len: message.content_type.len(), most: MAX_KEY });
    }
    Ok(())
}
