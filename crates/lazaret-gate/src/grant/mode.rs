//! How strictly an agent's requests are held to what it was granted.

use std::fmt;

/// What is checked of a request that leaves the host. Anything but strict is a grant, so that every record has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EgressMode {
    /// Each request goes to a granted origin, at a public address or one that was granted. What holds unless a grant
    /// says otherwise.
    #[default]
    Strict,
    /// Granted origins are looked up and checked when the agent is made; its requests aren't.
    Preflight,
    /// Nothing is checked: rules, risk and budgets alone decide.
    None,
}

impl EgressMode {
    /// The name, as grants and the command line spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Preflight => "preflight",
            Self::None => "none",
        }
    }

    /// What somebody who looks at the agent or its records must be told; nothing if each request is checked.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Strict => None,
            Self::Preflight => {
                Some("egress is not enforced: hosts were checked when the agent was made, requests are not")
            }
            Self::None => Some("egress is not enforced: requests go to any host and any address that rules permit"),
        }
    }
}

/// Text that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a mode: write strict, preflight or none")]
pub struct BadMode(String);

impl std::str::FromStr for EgressMode {
    type Err = BadMode;

    fn from_str(text: &str) -> Result<Self, BadMode> {
        let modes = [Self::Strict, Self::Preflight, Self::None];
        let shown = || text.chars().take(80).flat_map(char::escape_debug).collect();
        modes.into_iter().find(|mode| mode.name() == text).ok_or_else(|| BadMode(shown()))
    }
}

impl fmt::Display for EgressMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
