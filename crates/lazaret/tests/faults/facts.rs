//! What a data root says, read without running anything.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use lazaret_gate::entry::Entry;
use lazaret_gate::record::{Body, Ending, TurnRecord};
use lazaret_gate::{Answer, Digest, Effect, Outcome, canonical};
use lazaret_store::{AgentState, Store};

/// Everything that is on record.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) turns: Vec<(Digest, TurnRecord)>,
    pub(crate) agents: Vec<String>,
    pub(crate) in_doubt: Vec<Doubt>,
    /// Rollbacks: whose, and to which turn.
    pub(crate) backs: Vec<(String, u64)>,
    /// The numbers that each agent must remember after each of its turns, and last of all now.
    minds: HashMap<String, (Vec<Vec<i64>>, Vec<i64>)>,
    /// Messages that wait.
    pub(crate) waiting: u64,
}

/// An agent that waits for a person, and what it did not close.
pub(crate) struct Doubt {
    pub(crate) agent: String,
    pub(crate) open: Vec<Effect>,
}

impl Facts {
    /// Reads it all; every row and every entry is checked on the way.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let text = |why: lazaret_store::StoreError| why.to_string();
        let reader = Store::open_read_only(root).map_err(text)?;
        reader.verify_journal(|_| ()).map_err(text)?;
        reader.verify_state().map_err(text)?;
        let mut facts = Self::default();
        let mut open: HashMap<String, Vec<(u32, Effect)>> = HashMap::new();
        let visit = |_, bytes: &[u8]| {
            let entry: Entry = canonical::decode(bytes).expect("checked before");
            let agent = entry.body.agent().map(ToString::to_string).unwrap_or_default();
            match entry.body {
                Body::EffectOpened(opened) => open.entry(agent).or_default().push((opened.number, opened.effect)),
                Body::EffectClosed(closed) | Body::Settled(closed) => {
                    open.entry(agent).or_default().retain(|(number, _)| *number != closed.number);
                }
                Body::AgentCreated(_) => drop(facts.minds.insert(agent, (vec![Vec::new()], Vec::new()))),
                Body::AgentForked(fork) => {
                    let mind = facts.minds[fork.from.as_str()].0[fork.turn as usize].clone();
                    facts.minds.insert(agent, (vec![mind.clone()], mind));
                }
                Body::AgentRolledBack(back) => {
                    let (past, now) = facts.minds.get_mut(&agent).expect("it was made");
                    now.clone_from(&past[back.to as usize]);
                    facts.backs.push((agent, back.to));
                }
                Body::Turn(record) => {
                    let (past, now) = facts.minds.get_mut(&agent).expect("it was made");
                    now.extend(number_of(&record));
                    past.push(now.clone());
                    facts.turns.push((Digest::of(bytes), *record));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        reader.entries(0..u64::MAX, visit).map_err(text)?;
        for row in reader.agents().map_err(text)? {
            facts.waiting += reader.mailbox_len(&row.agent).map_err(text)?;
            let agent = row.agent.to_string();
            if row.state == AgentState::InDoubt {
                let open = open.remove(&agent).unwrap_or_default().into_iter().map(|(_, effect)| effect).collect();
                facts.in_doubt.push(Doubt { agent: agent.clone(), open });
            }
            facts.agents.push(agent);
        }
        Ok(facts)
    }

    /// Turns of an agent that answered this very text.
    pub(crate) fn answers<'a>(&'a self, agent: &'a str, text: &'a str) -> impl Iterator<Item = &'a TurnRecord> {
        let asked =
            move |record: &&TurnRecord| record.agent.as_str() == agent && record.input.body.0 == text.as_bytes();
        self.turns.iter().map(|(_, record)| record).filter(asked)
    }

    /// Whether an acknowledged turn is there: `AGENT TURN HASH`.
    pub(crate) fn has(&self, acknowledged: &str) -> bool {
        let line = |(hash, record): &(Digest, TurnRecord)| format!("{} {} {hash}", record.agent, record.turn);
        self.turns.iter().any(|turn| line(turn) == acknowledged)
    }

    /// The effects on record that did something outside, and whether they are known to have.
    pub(crate) fn effects(&self) -> impl Iterator<Item = (&Effect, bool)> {
        let tape = self.turns.iter().flat_map(|(_, record)| &record.tape);
        tape.filter(|entry| entry.effect.leaves_host())
            .map(|entry| (&entry.effect, matches!(entry.outcome, Outcome::Done(_))))
    }

    /// Messages that turns sent which were kept: to whom, and what.
    pub(crate) fn told(&self) -> Vec<(String, String)> {
        let kept = self.turns.iter().filter(|(_, record)| matches!(record.ending, Ending::Replied(_)));
        let tape = kept.flat_map(|(_, record)| &record.tape);
        let sent = tape.filter_map(|entry| match (&entry.effect, &entry.outcome) {
            (Effect::AgentsSend { to, body, .. }, Outcome::Done(Answer::Sent(_))) => {
                Some((to.clone(), String::from_utf8_lossy(&body.0).into_owned()))
            }
            _ => None,
        });
        sent.collect()
    }

    /// The numbers that an agent must remember, in order.
    pub(crate) fn numbers(&self, agent: &str) -> Vec<i64> {
        self.minds.get(agent).map(|(_, now)| now.clone()).unwrap_or_default()
    }
}

/// The number that a turn added, if it was kept.
fn number_of(record: &TurnRecord) -> Option<i64> {
    let kept = matches!(record.ending, Ending::Replied(_)).then_some(record)?;
    std::str::from_utf8(&kept.input.body.0).ok()?.strip_prefix("add ")?.parse().ok()
}
