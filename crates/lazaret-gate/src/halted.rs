//! An effect that was let pass and must not go on: a permit that died.

use crate::ledger::Killed;
use crate::refusal::{Code, Layer, Refusal};
use crate::trust::RevokedAgent;

/// Why it must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halted {
    /// By a kill switch.
    Killed(Killed),
    /// Its agent was revoked.
    Revoked(RevokedAgent),
}

impl Halted {
    /// What the agent is told and the record keeps. `begun`: whether it was under way; nobody can call back what has left
    /// the host.
    pub fn refusal(&self, begun: bool) -> Refusal {
        match self {
            Self::Revoked(revoked) => revoked.in_flight(begun),
            Self::Killed(killed) => {
                let reason = match begun {
                    true => killed.in_flight(),
                    false => {
                        format!("`{}` was permitted and not begun: {}", killed.kind, killed.thrown.say(killed.switch))
                    }
                };
                Refusal { code: Code::Killed, layer: Layer::Executor, reason, remedy: killed.remedy() }
            }
        }
    }
}
