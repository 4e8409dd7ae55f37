//! The states that an agent can be in, and what leads from one to another. `docs/agents.md` draws it; a test compares.

use std::fmt;

use lazaret_store::{AgentRow, AgentState};

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// It was made and has never been woken.
    New,
    /// It is bytes on disk until somebody writes to it.
    Asleep,
    /// It takes a turn.
    Awake,
    /// It takes a turn, and a person is asked.
    Waiting,
    /// It isn't known whether an effect of it happened; a person has to say.
    InDoubt,
    /// It takes no turn until an operator wakes it.
    Quarantined,
    /// Its trust was revoked: no turn, no effect, no mail.
    Revoked,
    /// It was removed. Its name stays taken.
    Dead,
}

/// What happens to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Happening {
    /// A turn begins.
    Begin,
    /// The turn puts a question to a person.
    Ask,
    /// The question was answered, or its time is over.
    Answer,
    /// The turn is over: it is on record, or nothing of it is and its message waits.
    End,
    /// It isn't known whether an effect happened.
    Doubt,
    /// A person said how that effect ended.
    Settle,
    /// An operator, or the breaker after too many stopped turns in a row, takes it out of service.
    Quarantine,
    /// An operator lets it go on.
    Wake,
    /// Its trust is revoked.
    Revoke,
    /// Its trust is restored. What else was the matter with it is looked at anew.
    Restore,
    /// It is removed.
    Remove,
}

/// Something that can't happen to an agent in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct NotNow {
    /// The state.
    pub life: Life,
    /// What can't happen in it.
    pub happening: Happening,
}

impl NotNow {
    fn text(&self) -> String {
        let Self { life, happening } = self;
        format!("an agent that is {life} can't {}", happening.name())
    }
}

impl Life {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::New,
        Self::Asleep,
        Self::Awake,
        Self::Waiting,
        Self::InDoubt,
        Self::Quarantined,
        Self::Revoked,
        Self::Dead,
    ];

    /// What an agent is, as far as the disk tells: whether it takes a turn is known only to who runs it.
    pub fn of(row: &AgentRow, revoked: bool) -> Self {
        match row.state {
            AgentState::Removed => Self::Dead,
            _ if revoked => Self::Revoked,
            AgentState::Quarantined => Self::Quarantined,
            AgentState::InDoubt => Self::InDoubt,
            AgentState::Asleep if row.turn == 0 => Self::New,
            AgentState::Asleep => Self::Asleep,
        }
    }

    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Asleep => "asleep",
            Self::Awake => "awake",
            Self::Waiting => "waiting for approval",
            Self::InDoubt => "in doubt",
            Self::Quarantined => "quarantined",
            Self::Revoked => "revoked",
            Self::Dead => "dead",
        }
    }

    /// Whether a turn may begin.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::New | Self::Asleep)
    }

    /// Whether it takes a turn.
    pub fn is_awake(self) -> bool {
        matches!(self, Self::Awake | Self::Waiting)
    }

    /// Whether mail can be left for it.
    pub fn takes_mail(self) -> bool {
        !matches!(self, Self::Revoked | Self::Dead)
    }

    /// The state after something happened.
    pub fn next(self, happening: Happening) -> Result<Self, NotNow> {
        use Happening as H;
        let next = match (self, happening) {
            (Self::Dead, _) => None,
            (_, H::Remove) => Some(Self::Dead),
            (Self::Revoked, H::Restore) => Some(Self::Asleep),
            // Who is revoked is revoked, whatever else happens to it. What was under way ends.
            (Self::Revoked, H::End) => Some(Self::Revoked),
            (Self::Revoked, _) => None,
            (_, H::Revoke) => Some(Self::Revoked),
            (Self::New | Self::Asleep, H::Begin) => Some(Self::Awake),
            (Self::New | Self::Asleep | Self::Awake, H::Doubt) => Some(Self::InDoubt),
            (Self::Awake, H::Ask) => Some(Self::Waiting),
            (Self::Waiting, H::Answer) => Some(Self::Awake),
            (Self::Awake | Self::Waiting, H::End) => Some(Self::Asleep),
            (Self::InDoubt, H::Settle) => Some(Self::Asleep),
            // A turn that was under way when it was quarantined ends, and that changes nothing.
            (Self::Quarantined, H::End) => Some(Self::Quarantined),
            (Self::Quarantined, H::Wake) => Some(Self::Asleep),
            (Self::Quarantined, _) => None,
            (_, H::Quarantine) => Some(Self::Quarantined),
            _ => None,
        };
        next.ok_or(NotNow { life: self, happening })
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Happening {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Begin,
        Self::Ask,
        Self::Answer,
        Self::End,
        Self::Doubt,
        Self::Settle,
        Self::Quarantine,
        Self::Wake,
        Self::Revoke,
        Self::Restore,
        Self::Remove,
    ];

    /// As the diagram has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Ask => "ask",
            Self::Answer => "answer",
            Self::End => "end",
            Self::Doubt => "doubt",
            Self::Settle => "settle",
            Self::Quarantine => "quarantine",
            Self::Wake => "wake",
            Self::Revoke => "revoke",
            Self::Restore => "restore",
            Self::Remove => "remove",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../../docs/agents.md");

    /// The state's name in the diagram: one word.
    fn word(life: Life) -> String {
        format!("{life:?}")
    }

    #[test]
    fn the_diagram_is_the_machine() {
        let diagram = PAGE.split("```mermaid").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let mut drawn = BTreeSet::new();
        for line in diagram.lines().map(str::trim).filter(|line| line.contains("-->") && !line.contains("[*]")) {
            let (from, rest) = line.split_once(" --> ").unwrap();
            let (to, names) = rest.split_once(": ").unwrap();
            for name in names.split(", ") {
                assert!(drawn.insert(format!("{from} {name} {to}")), "{line} stands there twice");
            }
        }
        let mut machine = BTreeSet::new();
        for life in Life::ALL {
            for happening in Happening::ALL {
                if let Ok(next) = life.next(happening) {
                    machine.insert(format!("{} {} {}", word(life), happening.name(), word(next)));
                }
            }
        }
        let missing: Vec<_> = machine.difference(&drawn).collect();
        let invented: Vec<_> = drawn.difference(&machine).collect();
        assert!(missing.is_empty() && invented.is_empty(), "not drawn: {missing:#?}\nonly drawn: {invented:#?}");
    }

    #[test]
    fn every_state_is_reached_and_nothing_follows_death() {
        let mut reached = BTreeSet::from([Life::New]);
        loop {
            let next = reached.iter().flat_map(|life| Happening::ALL.iter().filter_map(|it| life.next(*it).ok()));
            let more: BTreeSet<Life> = next.chain(reached.iter().copied()).collect();
            if more == reached {
                break;
            }
            reached = more;
        }
        assert_eq!(reached.len(), Life::ALL.len());
        assert!(Happening::ALL.iter().all(|it| Life::Dead.next(*it).is_err()));
        let why = Life::Quarantined.next(Happening::Begin).unwrap_err().to_string();
        assert_eq!(why, "an agent that is quarantined can't begin");
    }

    #[test]
    fn a_turn_begins_only_in_an_agent_that_is_idle() {
        for life in Life::ALL {
            assert_eq!(life.next(Happening::Begin).is_ok(), life.is_idle(), "{life}");
        }
    }
}
