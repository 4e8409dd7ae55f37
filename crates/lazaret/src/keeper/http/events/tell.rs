//! Entries of the journal as events.
//!
//! An effect that leaves the host is told when it is opened and when it is closed; all others when their turn is over, or
//! with the next one that leaves. What was told of a turn before it is over is known by its entries, so that it is told
//! once, wherever a stream begins.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use lazaret_gate::approval::{Question, Verdict};
use lazaret_gate::entry::Entry;
use lazaret_gate::record::{Body, EffectClosed, EffectOpened, Judged, TapeEntry, TurnRecord};
use lazaret_gate::ruling::Asked;
use lazaret_gate::{AgentId, Effect, Outcome, Ruling, Rulings, canonical};
use lazaret_host::HostError;
use lazaret_store::Reader;
use serde_json::{Map, Value, json};

use super::wish::{Place, Wanted};
use crate::keeper::http::limits::{STREAM_BYTES, STREAM_ENTRIES};
use crate::keeper::http::problem::Problem;

/// Unfinished turns that are kept in mind. Of others it is read again what was told.
const MAX_PARTS: usize = 64;

/// One event.
pub(super) struct Event {
    /// Where to go on after it.
    pub(super) place: Place,
    kind: &'static str,
    data: Value,
}

impl Event {
    pub(super) fn write(&self, text: &mut String) {
        let _ = write!(text, "event: {}\nid: {}\ndata: {}\n\n", self.kind, self.place, self.data);
    }

    /// One that is not on record.
    pub(super) fn live(kind: &str, data: &Value) -> String {
        format!("event: {kind}\ndata: {data}\n\n")
    }
}

/// What was told of a turn that isn't over.
#[derive(Default)]
struct Part {
    rulings: Rulings,
    /// Effects that are told whole.
    told: usize,
    /// The one after them is told as proposed.
    open: bool,
    /// Rulings whose questions and warnings are told.
    heard: usize,
}

/// Makes events of entries.
pub(super) struct Teller {
    wanted: Wanted,
    parts: HashMap<(AgentId, u64), Part>,
}

/// The events of one entry, as they are put together.
struct Telling<'a> {
    entry: &'a Entry,
    agent: Option<&'a AgentId>,
    turn: Option<u64>,
    bodies: bool,
    events: Vec<(&'static str, Value)>,
}

/// How a question ended.
pub(crate) fn verdict(asked: &Asked) -> &'static str {
    match asked.answer.as_ref().map(|answer| answer.decision.verdict) {
        Some(Verdict::Approve) => "approved",
        Some(Verdict::Deny) => "denied",
        None => "expired",
    }
}

/// What an effect is for, without what it says.
fn target(effect: &Effect) -> Option<String> {
    match effect {
        Effect::ModelGenerate(prompt) => Some(prompt.model.clone()),
        Effect::ToolsCall { name, .. } => Some(name.clone()),
        Effect::AgentsSend { to, .. } => Some(to.clone()),
        Effect::SecretUse { slot, .. } => Some(slot.clone()),
        Effect::HttpFetch(request) => {
            let end = request.url.find("://").map(|at| at + 3)?;
            let rest = &request.url[end..];
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            // Before an `@` there can be a password.
            let host = host.rsplit('@').next().unwrap_or_default();
            Some(format!("{}{host}", &request.url[..end]))
        }
        _ => None,
    }
}

impl Telling<'_> {
    fn say(&mut self, kind: &'static str, more: Value) {
        let mut data = Map::new();
        data.insert("seq".into(), self.entry.seq.into());
        data.insert("time".into(), self.entry.time.into());
        if let Some(agent) = self.agent {
            data.insert("agent".into(), agent.as_str().into());
        }
        if let Some(turn) = self.turn {
            data.insert("turn".into(), turn.into());
        }
        if let Value::Object(more) = more {
            data.extend(more);
        }
        self.events.push((kind, Value::Object(data)));
    }

    fn proposed(&mut self, number: usize, effect: &Effect, ruling: Option<&Ruling>) {
        let mut told = json!({ "number": number, "kind": effect.kind(), "target": target(effect) });
        if let Some(ruling) = ruling {
            told["risk"] = ruling.risk.tier.name().into();
        }
        if self.bodies {
            told["effect"] = json!(effect);
        }
        self.say("effect-proposed", told);
    }

    /// What people were asked because of it, and what it does to budgets.
    fn judged(&mut self, number: usize, ruling: &Ruling) {
        for asked in &ruling.asked {
            let (id, question) = (&asked.question.id, &asked.question);
            let told = json!({ "number": number, "question": id, "rule": question.rule, "reason": question.reason });
            self.say("effect-asked", told);
            let answer = asked.answer.as_ref();
            let told = json!({
                "number": number, "question": id, "verdict": verdict(asked),
                "by": answer.map(|answer| answer.decision.by), "scope": answer.map(|answer| &answer.decision.scope),
            });
            self.say("approval-answered", told);
        }
        for text in &ruling.warnings {
            self.say("budget-warning", json!({ "number": number, "text": text }));
        }
    }

    fn permitted(&mut self, number: usize, effect: &Effect, ruling: Option<&Ruling>) {
        let rules = ruling.map(|ruling| &ruling.rules);
        self.say("effect-permitted", json!({ "number": number, "kind": effect.kind(), "rules": rules }));
    }

    /// How it ended.
    fn ended(&mut self, number: usize, kind: Option<&str>, outcome: &Outcome) {
        let mut told = json!({ "number": number, "kind": kind });
        let event = match outcome {
            Outcome::Refused(refusal) => {
                told["code"] = refusal.code.name().into();
                told["layer"] = refusal.layer.name().into();
                if self.bodies {
                    told["reason"] = refusal.reason.as_str().into();
                    told["remedy"] = refusal.remedy.as_str().into();
                }
                "effect-refused"
            }
            Outcome::Done(answer) => {
                told["ok"] = true.into();
                if self.bodies {
                    told["answer"] = json!(answer);
                }
                "effect-executed"
            }
            Outcome::Failed(why) => {
                told["ok"] = false.into();
                if self.bodies {
                    told["why"] = why.as_str().into();
                }
                "effect-executed"
            }
        };
        self.say(event, told);
    }
}

impl Part {
    /// Tells of an ask up to where the gate let it pass, or didn't.
    fn begin(&mut self, telling: &mut Telling<'_>, effect: &Effect, ruling: Option<u32>, passed: bool) {
        let number = self.told;
        let found = ruling.and_then(|place| self.rulings.get(place)).cloned();
        telling.proposed(number, effect, found.as_ref());
        // Asks that were judged alike share a ruling: what it says beside them is told once.
        if let Some((place, found)) = ruling.zip(found.as_ref())
            && place as usize >= self.heard
        {
            self.heard = place as usize + 1;
            telling.judged(number, found);
        }
        if passed {
            telling.permitted(number, effect, found.as_ref());
        }
    }

    fn whole(&mut self, telling: &mut Telling<'_>, ask: &TapeEntry) {
        let passed = !matches!(ask.outcome, Outcome::Refused(_));
        self.begin(telling, &ask.effect, ask.ruling, passed);
        telling.ended(self.told, Some(ask.effect.kind()), &ask.outcome);
        self.told += 1;
    }

    fn opened(&mut self, telling: &mut Telling<'_>, opened: &EffectOpened) {
        let behind = (opened.number as usize).saturating_sub(opened.tape.len());
        for (place, ask) in opened.tape.iter().enumerate() {
            if behind + place >= self.told {
                self.whole(telling, ask);
            }
        }
        self.begin(telling, &opened.effect, opened.ruling, true);
        self.open = true;
    }

    fn closed(&mut self, telling: &mut Telling<'_>, closed: &EffectClosed) {
        telling.ended(closed.number as usize, None, &closed.outcome);
        self.told = closed.number as usize + 1;
        self.open = false;
    }

    fn over(&mut self, telling: &mut Telling<'_>, record: &TurnRecord) {
        if std::mem::take(&mut self.open)
            && let Some(ask) = record.tape.get(self.told)
        {
            telling.ended(self.told, Some(ask.effect.kind()), &ask.outcome);
            self.told += 1;
        }
        for ask in record.tape.iter().skip(self.told) {
            self.whole(telling, ask);
        }
        let refused = record.tape.iter().filter(|ask| matches!(ask.outcome, Outcome::Refused(_))).count();
        let (ending, cause) = super::super::routes::ending(&record.ending);
        let mut told = json!({
            "ending": ending, "cause": cause, "fuel": record.fuel, "effects": record.tape.len(), "refused": refused,
        });
        if telling.bodies {
            told["input"] = json!(record.input);
            told["output"] = json!(record.ending);
        }
        telling.say("turn", told);
    }
}

fn blob<T: serde::Serialize + serde::de::DeserializeOwned>(
    reader: &Reader,
    digest: &lazaret_gate::Digest,
) -> Result<T, Problem> {
    Ok(canonical::decode(&reader.blob(digest)?).map_err(HostError::from)?)
}

impl Teller {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, parts: HashMap::new() }
    }

    /// Whether somebody wants to hear it.
    pub(super) fn wants(&self, kind: &str, data: &Value) -> bool {
        let named = self.wanted.types.as_ref().is_none_or(|types| types.contains(kind));
        let about = data.get("agent").and_then(Value::as_str);
        // What is about no agent, like a kill, concerns all.
        let whose = self.wanted.agent.as_ref().is_none_or(|agent| about.is_none_or(|about| about == agent.as_str()));
        named && whose
    }

    /// A question that waits.
    pub(super) fn question(&self, question: &Question) -> Value {
        let mut told = json!({
            "question": question.id, "agent": question.agent, "kind": question.effect.kind(),
            "target": target(&question.effect), "rule": question.rule, "reason": question.reason,
            "risk": question.risk.tier.name(), "expires": question.expires.wall_ms,
        });
        if self.wanted.bodies {
            told["effect"] = json!(question.effect);
        }
        told
    }

    /// Reads on from a place: the events, and where to go on.
    pub(super) fn read(&mut self, reader: &Reader, from: Place) -> Result<(Vec<Event>, Place), Problem> {
        let (mut entries, mut size) = (Vec::new(), 0);
        reader.entries(from.seq..from.seq.saturating_add(STREAM_ENTRIES), |_, bytes| {
            entries.push(bytes.to_vec());
            size += bytes.len();
            if size < 4 * STREAM_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let (mut events, mut next, mut written) = (Vec::new(), from, 0);
        for bytes in entries {
            let entry = Entry::read(&bytes).map_err(HostError::from)?;
            let told = self.tell(reader, &entry)?;
            let (last, skip) = (told.len(), if entry.seq == from.seq { from.next } else { 0 });
            for (number, (kind, data)) in told.into_iter().enumerate().skip(skip) {
                if self.wants(kind, &data) {
                    let whole = number + 1 == last;
                    let place = if whole {
                        Place::after_all(entry.seq + 1)
                    } else {
                        Place { seq: entry.seq, next: number + 1 }
                    };
                    written += if self.wanted.bodies { bytes.len() } else { 256 };
                    events.push(Event { place, kind, data });
                }
            }
            next = Place::after_all(entry.seq + 1);
            if written >= STREAM_BYTES {
                break;
            }
        }
        Ok((events, next))
    }

    /// All events of an entry, wanted or not: their numbers are the same for everybody.
    fn tell(&mut self, reader: &Reader, entry: &Entry) -> Result<Vec<(&'static str, Value)>, Problem> {
        let (agent, bodies) = (entry.body.agent(), self.wanted.bodies);
        let mut telling = Telling { entry, agent, turn: None, bodies, events: Vec::new() };
        match &entry.body {
            Body::EffectOpened(opened) => {
                telling.turn = Some(opened.turn);
                // With the input comes the first: nothing was told before it.
                if opened.input.is_some() {
                    self.parts.insert((opened.agent.clone(), opened.turn), Part::default());
                }
                let part = self.part(reader, &opened.agent, opened.turn, entry.seq)?;
                part.rulings.extend(blob(reader, &opened.judged)?);
                part.opened(&mut telling, opened);
            }
            Body::EffectClosed(closed) => {
                telling.turn = Some(closed.turn);
                self.part(reader, &closed.agent, closed.turn, entry.seq)?.closed(&mut telling, closed);
            }
            Body::Settled(closed) => {
                telling.turn = Some(closed.turn);
                telling.say("settled", json!({ "number": closed.number }));
                self.part(reader, &closed.agent, closed.turn, entry.seq)?.closed(&mut telling, closed);
            }
            Body::Turn(record) => {
                telling.turn = Some(record.turn);
                // Where nothing has left the host, nothing was told before.
                if record.tape.iter().any(was_opened) {
                    self.part(reader, &record.agent, record.turn, entry.seq)?;
                }
                let mut part = self.parts.remove(&(record.agent.clone(), record.turn)).unwrap_or_default();
                if part.told < record.tape.len() {
                    part.rulings = blob::<Judged>(reader, &record.judged)?.rulings;
                }
                part.over(&mut telling, record);
            }
            Body::SwitchChanged(event) => telling.say("switch-changed", json!(event)),
            Body::TrustChanged(event) => telling.say("trust-changed", json!(event)),
            Body::InDoubt(body) => {
                telling.turn = Some(body.turn);
                telling.say("in-doubt", json!({ "number": body.number }));
            }
            // What is said of an agent, the rules or a budget is named as the journal names it.
            other => {
                let more = if bodies { json!({ "entry": other }) } else { Value::Null };
                telling.say(other.kind(), more);
            }
        }
        Ok(telling.events)
    }

    /// What was told of a turn before an entry; read from the journal if this stream didn't tell it.
    fn part(&mut self, reader: &Reader, agent: &AgentId, turn: u64, before: u64) -> Result<&mut Part, Problem> {
        let key = (agent.clone(), turn);
        if self.parts.len() >= MAX_PARTS && !self.parts.contains_key(&key) {
            self.parts.clear();
        }
        if !self.parts.contains_key(&key) {
            let part = recalled(reader, agent, turn, before)?;
            self.parts.insert(key.clone(), part);
        }
        Ok(self.parts.entry(key).or_default())
    }
}

/// Whether an ask was on its way out of the host.
fn was_opened(ask: &TapeEntry) -> bool {
    let passed = |outcome: &Outcome| match outcome {
        Outcome::Refused(refusal) => refusal.layer.follows_permit(),
        _ => true,
    };
    ask.effect.leaves_host() && passed(&ask.outcome)
}

fn recalled(reader: &Reader, agent: &AgentId, turn: u64, before: u64) -> Result<Part, Problem> {
    let mut part = Part::default();
    for seq in reader.agent_entries(agent, None, Some(turn))?.into_iter().take_while(|seq| *seq < before) {
        let entry = reader.entry(seq)?;
        // What it says was said before: nobody hears it.
        let mut telling = Telling { entry: &entry, agent: None, turn: None, bodies: false, events: Vec::new() };
        match &entry.body {
            Body::EffectOpened(opened) => {
                part.rulings.extend(blob(reader, &opened.judged)?);
                part.opened(&mut telling, opened);
            }
            Body::EffectClosed(closed) | Body::Settled(closed) => part.closed(&mut telling, closed),
            _ => {}
        }
    }
    Ok(part)
}
