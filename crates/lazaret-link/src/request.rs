//! What can be asked of a keeper. One enum per family; a family that comes is one more variant of [`Request`].

use lazaret_gate::ledger::{Caps, Switch};
use lazaret_gate::schedule::ScheduleAdded;
use lazaret_gate::trust::Score;
use lazaret_gate::{AgentId, Budget, Bytes, Grants, Slots};
use serde::{Deserialize, Serialize};

use crate::vault::{SecretRequest, VaultRequest};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Is anybody there? Needs no token.
    Ping,
    /// Is the keeper well? Needs no token and tells nothing else.
    Health,
    /// What is going on.
    Status,
    /// What is wrong with the operator's files.
    Problems,
    /// Put on record what was changed in the data root's files: kill switches, rules.
    Record,
    /// Take no more work, finish what is under way, and end.
    Stop {
        /// How long to wait for what is under way, in milliseconds.
        within_ms: u64,
    },
    /// Agents.
    Agent(AgentRequest),
    /// One turn of a component that is kept no longer than that.
    Run(Box<RunRequest>),
    /// What agents may spend.
    Budget(BudgetRequest),
    /// Kill switches.
    Kill(KillRequest),
    /// Whom to believe.
    Trust(TrustRequest),
    /// When to wake agents.
    Schedule(ScheduleRequest),
    /// The journal.
    Journal(JournalRequest),
    /// Turns on record.
    Turns(TurnsRequest),
    /// The vault.
    Vault(VaultRequest),
    /// What is in it.
    Secret(SecretRequest),
}

/// Where a request waits while many are being answered, so that none waits behind those that take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// Nowhere: it is answered at once, to anybody.
    Open,
    /// What stops something, and how things stand.
    Urgent,
    /// What looks at something, or changes it and waits for nobody.
    Short,
    /// What an operator does with an agent, which has to wait until its turn is over, or until its component is compiled.
    Orders,
    /// Turns, and what reads many of them or runs them again.
    Turns,
}

impl Request {
    /// Whether it is answered to anybody who can connect.
    pub fn is_open(&self) -> bool {
        self.line() == Line::Open
    }

    /// In which line it waits.
    pub fn line(&self) -> Line {
        match self {
            Self::Ping | Self::Health => Line::Open,
            Self::Record | Self::Stop { .. } | Self::Kill(_) | Self::Trust(_) | Self::Status => Line::Urgent,
            Self::Vault(VaultRequest::Lock) => Line::Urgent,
            Self::Agent(request) if request.is_turn() => Line::Turns,
            Self::Run(_) | Self::Turns(_) => Line::Turns,
            Self::Agent(request) if request.is_order() => Line::Orders,
            Self::Budget(_) => Line::Orders,
            Self::Problems | Self::Agent(_) | Self::Schedule(_) => Line::Short,
            Self::Journal(_) | Self::Vault(_) | Self::Secret(_) => Line::Short,
        }
    }

    /// Whether a keeper that stops still answers it.
    pub fn is_urgent(&self) -> bool {
        self.line() == Line::Urgent
    }

    /// Whether it is asked all the time, and changes nothing or is on record anyway: no log needs to tell of each.
    pub fn is_routine(&self) -> bool {
        match self {
            Self::Status | Self::Problems => true,
            Self::Turns(request) => matches!(request, TurnsRequest::Read { .. }),
            Self::Agent(request) => request.is_routine(),
            request => request.is_open(),
        }
    }

    /// Whether a passphrase or a value may be in it, so that what it was read from has to be wiped.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Vault(_) | Self::Secret(_))
    }

    /// What it is, for logs: says nothing of what is in it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Health => "health",
            Self::Status => "status",
            Self::Problems => "problems",
            Self::Record => "record",
            Self::Stop { .. } => "stop",
            Self::Agent(request) => request.name(),
            Self::Run(_) => "run",
            Self::Budget(BudgetRequest::Set { .. }) => "budget.set",
            Self::Kill(request) if request.lift => "kill.lift",
            Self::Kill(_) => "kill",
            Self::Trust(TrustRequest::Revoke { .. }) => "trust.revoke",
            Self::Trust(TrustRequest::Restore { .. }) => "trust.restore",
            Self::Trust(TrustRequest::Set { .. }) => "trust.set",
            Self::Schedule(ScheduleRequest::Add(_)) => "schedule.add",
            Self::Schedule(ScheduleRequest::Remove { .. }) => "schedule.remove",
            Self::Journal(JournalRequest::Checkpoint) => "journal.checkpoint",
            Self::Turns(request) => request.name(),
            Self::Vault(request) => request.name(),
            Self::Secret(request) => request.name(),
        }
    }
}

/// About agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgentRequest {
    /// Make one.
    Create(Box<NewAgent>),
    /// All there are.
    List {
        /// Removed ones too.
        #[serde(default)]
        all: bool,
    },
    /// One.
    Show {
        /// Which.
        agent: AgentId,
    },
    /// Take a turn with this message and answer when it is on record.
    Send {
        /// Whose turn.
        agent: AgentId,
        /// What the body is.
        content_type: String,
        /// The message.
        body: Bytes,
    },
    /// Put a message into its mailbox; answered when it is on disk.
    Post {
        /// Whose.
        agent: AgentId,
        /// What the body is.
        content_type: String,
        /// The message.
        body: Bytes,
    },
    /// Let agents answer what is in their mailboxes.
    Deliver,
    /// An effect in doubt counts as failed.
    Settle {
        /// Whose.
        agent: AgentId,
        /// Why somebody thinks so.
        note: String,
    },
    /// Remove one; its records stay.
    Remove {
        /// Which.
        agent: AgentId,
    },
    /// Make one from another, as that one was after one of its turns, or is now.
    Fork {
        /// Whose past.
        from: AgentId,
        /// The new one's name, never used before.
        agent: AgentId,
        /// After which turn; 0 is before the first.
        #[serde(default)]
        turn: Option<u64>,
    },
    /// Put one back to where one of its turns left it.
    Rollback {
        /// Which.
        agent: AgentId,
        /// After which turn; 0 is before the first.
        turn: u64,
        /// Who does it.
        by: String,
    },
    /// Let it take no turn until it is woken.
    Quarantine {
        /// Which.
        agent: AgentId,
        /// Who does it.
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Let a quarantined one go on.
    Wake {
        /// Which.
        agent: AgentId,
        /// Who does it.
        by: String,
    },
    /// Let go of what it has in memory.
    Sleep {
        /// Which.
        agent: AgentId,
    },
    /// Die as if the power had gone, in the middle of a turn of this agent.
    SimulateCrash {
        /// Which.
        agent: AgentId,
        /// What the body is.
        content_type: String,
        /// The message of that turn.
        body: Bytes,
        /// Even if that takes turns of others with it.
        #[serde(default)]
        with_others: bool,
    },
}

impl AgentRequest {
    /// Whether it takes as long as a guest thinks, or a person.
    fn is_turn(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Deliver | Self::SimulateCrash { .. })
    }

    /// Whether it has to wait for an agent's turn to be over, or for a compiler.
    fn is_order(&self) -> bool {
        !self.is_turn() && !matches!(self, Self::List { .. } | Self::Show { .. } | Self::Post { .. })
    }

    fn is_routine(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Deliver | Self::Post { .. } | Self::List { .. } | Self::Show { .. })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "agent.create",
            Self::List { .. } => "agent.list",
            Self::Show { .. } => "agent.show",
            Self::Send { .. } => "agent.send",
            Self::Post { .. } => "agent.post",
            Self::Deliver => "agent.deliver",
            Self::Settle { .. } => "agent.settle",
            Self::Remove { .. } => "agent.remove",
            Self::Fork { .. } => "agent.fork",
            Self::Rollback { .. } => "agent.rollback",
            Self::Quarantine { .. } => "agent.quarantine",
            Self::Wake { .. } => "agent.wake",
            Self::Sleep { .. } => "agent.sleep",
            Self::SimulateCrash { .. } => "agent.simulate-crash",
        }
    }
}

/// An agent to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// Its name, never used before.
    pub agent: AgentId,
    /// A WebAssembly component.
    pub component: Bytes,
    /// What it may ask for.
    #[serde(default = "Grants::basic")]
    pub grants: Grants,
    /// What each turn may cost.
    #[serde(default)]
    pub budget: Budget,
    /// What it may spend beyond one turn.
    #[serde(default)]
    pub caps: Caps,
    /// The slots that its author declares. Each is granted with it.
    #[serde(default, skip_serializing_if = "Slots::is_empty")]
    pub slots: Slots,
}

/// One turn of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// A WebAssembly component.
    pub component: Bytes,
    /// What the message's body is.
    pub content_type: String,
    /// The message.
    pub body: Bytes,
    /// What it may ask for.
    #[serde(default = "Grants::basic")]
    pub grants: Grants,
    /// What the turn may cost.
    #[serde(default)]
    pub budget: Budget,
    /// What it may spend.
    #[serde(default)]
    pub caps: Caps,
    /// Variables that it sees if it was granted `environment`.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
}

/// About budgets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BudgetRequest {
    /// Change an agent's caps.
    Set {
        /// Whose.
        agent: AgentId,
        /// `CAP=VALUE` each, as the command takes them.
        caps: Vec<String>,
    },
}

/// Throw a kill switch, or lift it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillRequest {
    /// Which.
    pub switch: Switch,
    /// Let it go on again.
    #[serde(default)]
    pub lift: bool,
    /// Who does it.
    pub by: String,
    /// Why; may be empty.
    #[serde(default)]
    pub reason: String,
}

/// About trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrustRequest {
    /// Believe an agent nothing more, now.
    Revoke {
        /// Which.
        agent: AgentId,
        /// Who does it.
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Let a revoked one go on.
    Restore {
        /// Which.
        agent: AgentId,
        /// Who does it.
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Set the base that its score is counted from.
    Set {
        /// Which.
        agent: AgentId,
        /// The base.
        score: Score,
        /// Who does it.
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
}

/// About schedules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ScheduleRequest {
    /// Make one.
    Add(Box<ScheduleAdded>),
    /// Remove one.
    Remove {
        /// Whom it wakes.
        agent: AgentId,
        /// Which.
        schedule: String,
        /// Who does it.
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
}

/// About the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum JournalRequest {
    /// Sign and keep a checkpoint.
    Checkpoint,
}

/// About turns on record. Each selection is `AGENT`, `AGENT:TURN` or `AGENT:FIRST-LAST`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TurnsRequest {
    /// Their records.
    Read {
        /// Which.
        turns: String,
    },
    /// Run them again and compare.
    Replay {
        /// Which.
        turns: String,
    },
    /// A bundle of them.
    Export {
        /// Which.
        turns: Vec<String>,
    },
}

impl TurnsRequest {
    fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "turns.read",
            Self::Replay { .. } => "turns.replay",
            Self::Export { .. } => "turns.export",
        }
    }
}
