//! What is made wrong on purpose, so that it is seen whether anybody notices.

use lazaret_host::supervisor::pace::Pace;

/// How often a flaw shows: once in so many times.
pub(crate) const NOW_AND_THEN: u64 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Now and then the supervisor isn't told of a message that was acknowledged.
    Forgets,
    /// Now and then a message is acknowledged that was never written.
    Loses,
    /// Now and then a turn doesn't take its message out of the mailbox.
    Repeats,
    /// The supervisor doesn't pause after a turn that was stopped.
    Hasty,
    /// It lets an agent be stopped once more than it may.
    Lenient,
    /// It lets more agents be awake than there is room for.
    Crowds,
}

impl Flaw {
    /// The pace of a supervisor that has it.
    pub(crate) fn keeps(self, pace: Pace) -> Pace {
        match self {
            Self::Hasty => Pace { pause_ms: 1, pause_most_ms: 1, ..pace },
            Self::Lenient => Pace { breaker: pace.breaker + 1, ..pace },
            Self::Crowds => Pace { awake: pace.awake + 1, ..pace },
            Self::Forgets | Self::Loses | Self::Repeats => pace,
        }
    }
}
