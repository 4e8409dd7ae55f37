//! "No", in a form that helps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which stage of the gate said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The ask itself is malformed or larger than anything the host carries.
    Form,
    /// The agent was not granted this.
    Declared,
    /// An operator has stopped everything, or all spending.
    Switch,
    /// The agent is revoked.
    Trust,
    /// The operator's rules don't permit it.
    Policy,
    /// A person was to be asked, and did not say yes.
    Approval,
    /// It was granted, but a budget does not reach.
    Budget,
    /// It was let pass and was under way when it was stopped.
    Executor,
    /// It was let pass, and would have carried a secret where that doesn't belong.
    Secrets,
}

impl Layer {
    /// Whether it is the word of whoever carries out what the gate has let pass.
    pub fn follows_permit(self) -> bool {
        matches!(self, Self::Executor | Self::Secrets)
    }

    /// The name, as records and messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Declared => "declared",
            Self::Switch => "switch",
            Self::Trust => "trust",
            Self::Policy => "policy",
            Self::Approval => "approval",
            Self::Budget => "budget",
            Self::Executor => "executor",
            Self::Secrets => "secrets",
        }
    }
}

/// Why, stable for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A value in the ask is too large or not well-formed.
    BadAsk,
    /// No grant covers it.
    NotGranted,
    /// No grant covers the host that a request is for, or the address that it would go to.
    EgressDenied,
    /// No rule permits it.
    NoPermit,
    /// A rule forbids it.
    Forbidden,
    /// The rules could not be evaluated, so they permit nothing.
    PolicyError,
    /// A person said no.
    ApprovalDenied,
    /// Nobody answered in time: silence is denial.
    ApprovalExpired,
    /// The answer is not one that counts: a wrong key or signature, other arguments, another policy, used before.
    ApprovalInvalid,
    /// A kill switch is thrown.
    Killed,
    /// The agent is revoked.
    Revoked,
    /// The message is for an agent that is revoked.
    MailboxClosed,
    /// Money was asked for, and there is no budget of it.
    NoBudget,
    /// A cap does not reach.
    BudgetExceeded,
    /// One effect would cost more than any one may.
    PerActionLimit,
    /// Money may not travel so.
    RailNotAllowed,
    /// Nobody knows what the model costs.
    Unpriced,
    /// The ask names money in a way that can't be relied on.
    BadSpend,
    /// More is open at once than an account keeps.
    TooManyOpen,
    /// The turn may ask no more.
    EffectsSpent,
    /// The turn may move no more bytes.
    BytesSpent,
    /// No secret fills the slot, or not for this request.
    SecretNotBound,
    /// The request would have carried a credential where it doesn't belong.
    SecretLeak,
    /// The vault has to be unlocked by a person first.
    VaultLocked,
    /// It was done, and what came back is larger than the rules let come back.
    ResponseTooLarge,
}

impl Code {
    /// The code, as records and messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadAsk => "bad-ask",
            Self::NotGranted => "not-granted",
            Self::EgressDenied => "egress-denied",
            Self::NoPermit => "no-permit",
            Self::Forbidden => "forbidden",
            Self::PolicyError => "policy-error",
            Self::ApprovalDenied => "approval-denied",
            Self::ApprovalExpired => "approval-expired",
            Self::ApprovalInvalid => "approval-invalid",
            Self::Killed => "killed",
            Self::Revoked => "revoked",
            Self::MailboxClosed => "mailbox-closed",
            Self::NoBudget => "no-budget",
            Self::BudgetExceeded => "budget-exceeded",
            Self::PerActionLimit => "per-action-limit",
            Self::RailNotAllowed => "rail-not-allowed",
            Self::Unpriced => "unpriced",
            Self::BadSpend => "bad-spend",
            Self::TooManyOpen => "too-many-open",
            Self::EffectsSpent => "effects-spent",
            Self::BytesSpent => "bytes-spent",
            Self::SecretNotBound => "secret-not-bound",
            Self::SecretLeak => "secret-leak",
            Self::VaultLocked => "vault-locked",
            Self::ResponseTooLarge => "response-too-large",
        }
    }
}

/// The gate's "no". The same text reaches the agent, the journal, the command line and the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Why, for programs.
    pub code: Code,
    /// Which stage decided.
    pub layer: Layer,
    /// What was asked, the nearest thing that is allowed, and the clause of it that failed.
    pub reason: String,
    /// What change by the operator would let it pass. Never a way round.
    pub remedy: String,
}

impl Refusal {
    /// Whether the turn ends with this refusal. A spent turn does, a kill and a revocation: an agent that goes on asking
    /// would fill the tape with noes.
    pub fn ends_turn(&self) -> bool {
        matches!(self.code, Code::EffectsSpent | Code::BytesSpent | Code::Killed | Code::Revoked)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused ({}, {}): {}; {}", self.code.name(), self.layer.name(), self.reason, self.remedy)
    }
}
