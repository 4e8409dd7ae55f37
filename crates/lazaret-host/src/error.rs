//! What can go wrong, in words that help.

use std::collections::BTreeSet;

use lazaret_gate::bundle::BadBundle;
use lazaret_gate::canonical::NotCanonical;
use lazaret_gate::secret::Slot;
use lazaret_gate::{AgentId, Digest};
use lazaret_guest::engine::Unsupported;
use lazaret_guest::state::Unwakeable;
use lazaret_guest::{Inadmissible, native::heap::HeapError};
use lazaret_store::StoreError;
use lazaret_store::vault::VaultError;

use crate::limits::SETTLE_MS;

/// Agents, as the subject of a sentence.
fn listed(agents: &BTreeSet<AgentId>) -> String {
    let shown: Vec<String> = agents.iter().take(LISTED).map(|agent| format!("`{agent}`")).collect();
    let more = match agents.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let verb = if agents.len() == 1 { "has" } else { "have" };
    format!("{}{more} {verb}", shown.join(", "))
}

/// How many agents an error names.
const LISTED: usize = 5;

/// An operation of the host that failed. Nothing was done unless the text says so.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The operator's rules can't be read at all.
    #[error("the policy folder can't be used: {0}")]
    Rules(String),
    /// The approvers' desk can't be used.
    #[error("the approvals folder can't be used: {0}")]
    Approvals(String),
    /// A question can't be answered.
    #[error(transparent)]
    Unanswerable(#[from] crate::asking::Unanswerable),
    /// Everything is stopped.
    #[error("no turn is taken: {0}")]
    Killed(String),
    /// Something that an operator has stopped goes on.
    #[error(
        "the stop is in force, but {} been in the middle of an effect for over {} s that can't be cut off, so that effect may \
         still happen; the turn's record will tell, and ending the process ends it",
        listed(agents), SETTLE_MS / 1000
    )]
    StillActing {
        /// Whose.
        agents: BTreeSet<AgentId>,
    },
    /// The agent is revoked.
    #[error("agent `{agent}` takes no turn and no message: {why}; {remedy}")]
    Revoked {
        /// Which.
        agent: AgentId,
        /// Who did it, when and why.
        why: String,
        /// What an operator could do.
        remedy: String,
    },
    /// A file that says what is stopped can't be written.
    #[error("nothing was changed: `{file}` can't be written: {why}")]
    Unsaved {
        /// Which.
        file: &'static str,
        /// What the system said.
        why: std::io::Error,
    },
    /// The same, but whoever has the data root open obeys all the same.
    #[error(
        "this is in force in the keeper for as long as it runs, but `{file}` can't be written: {why}; it is written as soon as \
         that can be done, and until then a keeper that is started anew doesn't know of it{}", acting.as_ref().map_or_else(String::new, |acting| format!("; {acting}"))
    )]
    InMemory {
        /// Which.
        file: &'static str,
        /// What the system said.
        why: std::io::Error,
        /// What could not be cut off in time, if there is something.
        acting: Option<Box<HostError>>,
    },
    /// Who is revoked can't be read or changed.
    #[error(
        "{0}; mend the file, or remove it: then those stay revoked of whom the journal says so, and `lazaret trust revoke` \
         makes it anew"
    )]
    Revocations(String),
    /// There is no such effect on record.
    #[error("there is no effect `{id}`: {why}")]
    NoEffect {
        /// What was asked for.
        id: String,
        /// Why there is none.
        why: String,
    },
    /// A budget that can't be kept.
    #[error(transparent)]
    Caps(#[from] lazaret_gate::ledger::BadCaps),
    /// A granted host doesn't stand the check before the first turn.
    #[error(
        "no agent was made: the granted `{origin}` does not pass the check: {why}; grant what does, or leave it out"
    )]
    Preflight {
        /// Where requests would go.
        origin: String,
        /// What is wrong with it.
        why: String,
    },
    /// The data root.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The vault.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// There is no unlocked vault.
    #[error(transparent)]
    Locked(#[from] crate::keys::Locked),
    /// The vault was changed, and nobody could write that down.
    #[error(
        "the vault was changed, but that can't be put on record now: {0}; it is put on record when the vault is next opened"
    )]
    VaultUnrecorded(StoreError),
    /// Something said of a secret makes no sense.
    #[error("{0}")]
    BadSecret(String),
    /// A binding goes where the agent's author never meant the secret to go.
    #[error(
        "agent `{agent}` declares slot `{slot}` for {declared} alone, and `{host}` is not among these; bind it to hosts that \
         are, or make the agent anew from a manifest that names it"
    )]
    HostUndeclared {
        /// Whose slot.
        agent: AgentId,
        /// Which.
        slot: Slot,
        /// The host that isn't.
        host: String,
        /// Those that are.
        declared: String,
    },
    /// Nothing fills a slot that the agent can't do without.
    #[error("agent `{agent}` takes no turn: nothing is bound to its required slot `{slot}` ({purpose}); {help}")]
    SlotEmpty {
        /// Which.
        agent: AgentId,
        /// Which slot.
        slot: Slot,
        /// What it is for, made visible.
        purpose: String,
        /// What an operator could do.
        help: String,
    },
    /// It can't be told whether a slot is filled that the agent can't do without.
    #[error(
        "agent `{agent}` takes no turn: whether its required slot `{slot}` ({purpose}) is bound can't be told: {why}"
    )]
    SlotUnknown {
        /// Which.
        agent: AgentId,
        /// Which slot.
        slot: Slot,
        /// What it is for, made visible.
        purpose: String,
        /// Why.
        why: Box<crate::keys::Locked>,
    },
    /// The engine.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// The component was refused.
    #[error(transparent)]
    Inadmissible(#[from] Inadmissible),
    /// A budget that can't be kept.
    #[error(transparent)]
    Budget(#[from] lazaret_gate::budget::BadBudget),
    /// No such agent.
    #[error("there is no agent `{0}`; `lazaret agent list` names those there are")]
    NoAgent(String),
    /// The agent was removed.
    #[error("agent `{0}` was removed; its records remain in the journal, and its name is not used again")]
    Removed(AgentId),
    /// The agent is in doubt.
    #[error(
        "agent `{agent}` is in doubt: effect {number} of turn {turn} (`{effect}`) was begun and it is not known whether it \
         happened; look at it with `lazaret agent show {agent}` and settle it with `lazaret agent settle {agent} --failed`"
    )]
    InDoubt {
        /// Which.
        agent: AgentId,
        /// Which turn.
        turn: u64,
        /// Which effect.
        number: u32,
        /// What it is.
        effect: String,
    },
    /// The agent is quarantined.
    #[error(
        "agent `{agent}` takes no turn: it was quarantined by {by} ({reason}), and its mail waits; look at it with `lazaret \
         agent show {agent}` and let it go on with `lazaret agent wake {agent}`"
    )]
    Quarantined {
        /// Which.
        agent: AgentId,
        /// Who did it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Nothing to wake it from.
    #[error("agent `{0}` is not quarantined: it wakes by itself when there is a message for it")]
    NotQuarantined(AgentId),
    /// A turn is not over.
    #[error(
        "turn {turn} of `{agent}` was cut off and is not over; let it end first: it is taken up when the agent may go on"
    )]
    Unfinished {
        /// Whose.
        agent: AgentId,
        /// Which.
        turn: u64,
    },
    /// There is no image to go back to.
    #[error(
        "agent `{0}` is stateless: every turn starts anew, so there is nothing to roll back; a fork of it can be made"
    )]
    Stateless(AgentId),
    /// What a turn left is gone.
    #[error("what turn {turn} of `{agent}` left can't be had any more: {why}; or choose another turn")]
    Gone {
        /// Whose.
        agent: AgentId,
        /// Which.
        turn: u64,
        /// What is missing.
        why: String,
    },
    /// Too much is said.
    #[error("{len} bytes to say who did it or why; the most is {most}")]
    Wordy {
        /// Its size.
        len: usize,
        /// The cap.
        most: usize,
    },
    /// Nothing to settle.
    #[error("agent `{0}` is not in doubt: there is nothing to settle")]
    NotInDoubt(AgentId),
    /// The message is too large.
    #[error("a message of {len} bytes; the most is {most}; put larger things into pieces")]
    InputTooLarge {
        /// Its size.
        len: usize,
        /// The cap.
        most: usize,
    },
    /// The journal can't be written.
    #[error("the turn was not taken: {0}")]
    Unwritten(String),
    /// The journal can't be written, and the turn had begun: what it has done so far is on disk.
    #[error(
        "turn {turn} of `{agent}` was begun and can't be recorded to its end: {why}; what it has done so far is on disk, and \
         it is taken up from there before anything else, so don't send the message again"
    )]
    Begun {
        /// Whose.
        agent: AgentId,
        /// Which.
        turn: u64,
        /// What is the matter.
        why: String,
    },
    /// More waits for an agent than may.
    #[error(
        "the message to `{agent}` was not taken: {why}; send it again when the agent has answered some of what waits"
    )]
    MailboxFull {
        /// For whom.
        agent: AgentId,
        /// How much waits, and how much may.
        why: StoreError,
    },
    /// The keeper stops.
    #[error("no turn begins: the keeper is being stopped; {0}")]
    Draining(String),
    /// The message is kept, and its turn has to wait for something that nobody stopped.
    #[error(
        "agent `{agent}` can't take its turn now: {why}; message {number} waits in its mailbox and is tried again by itself, so don't send it twice"
    )]
    Delayed {
        /// Whose.
        agent: AgentId,
        /// The message.
        number: u64,
        /// What is the matter.
        why: String,
    },
    /// The agent takes no turns.
    #[error("agent `{agent}` is {life} and takes no turn; {help}")]
    NotRunning {
        /// Which.
        agent: AgentId,
        /// What it is.
        life: crate::life::Life,
        /// What would change it.
        help: String,
    },
    /// A schedule can't be kept.
    #[error(transparent)]
    Schedule(#[from] crate::schedule::BadSchedule),
    /// There are too many schedules.
    #[error("there are {0} schedules, which is the most; `lazaret schedule rm` makes room")]
    Schedules(usize),
    /// A budget is overdrawn.
    #[error("no turn is taken: {0}")]
    Spent(String),
    /// The turn was stopped from outside or can't go on.
    #[error("the turn was not finished: {0}")]
    Halted(String),
    /// An unfinished turn did not come out the same when it was taken up again.
    #[error("turn {turn} of `{agent}` can't be taken up where it was cut off: {why}")]
    Unresumable {
        /// Whose.
        agent: AgentId,
        /// Which.
        turn: u64,
        /// What differs.
        why: String,
    },
    /// An image can't be woken.
    #[error("the image of agent `{agent}` can't be woken: {why}")]
    Image {
        /// Whose.
        agent: AgentId,
        /// Why.
        why: Unwakeable,
    },
    /// A heap can't be had.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A record can't be written or read.
    #[error("a record is damaged: {0}")]
    Record(#[from] NotCanonical),
    /// The agent was made under another engine configuration.
    #[error(
        "agent `{agent}` was made under engine {was}, and this is engine {is}: its image can't be woken here; use the \
         version that made it, or create the agent anew"
    )]
    OtherEngine {
        /// Which.
        agent: AgentId,
        /// Its engine.
        was: Digest,
        /// Ours.
        is: Digest,
    },
    /// Somebody changed the agent's row.
    #[error(
        "what the data root says of agent `{0}` is not what its last journal entry says: it was changed by something else \
         than lazaret, and takes no turn; put the data root back from a copy (`lazaret journal verify` tells a good one)"
    )]
    Unvouched(AgentId),
    /// No such turn.
    #[error("agent `{agent}` has no turn {turn}; it has taken {taken}")]
    NoTurn {
        /// Which.
        agent: AgentId,
        /// What was asked for.
        turn: u64,
        /// How many there are.
        taken: u64,
    },
    /// A selection that names nothing.
    #[error("`{0}` selects no turn; write AGENT, AGENT:TURN or AGENT:FIRST-LAST")]
    Selection(String),
    /// A bundle is wrong.
    #[error("the bundle can't be believed: {0}")]
    Bundle(#[from] BadBundle),
    /// A bundle can't be made.
    #[error("the bundle can't be made: {0}")]
    Unexportable(BadBundle),
    /// A cap that can't be set.
    #[error("{0}")]
    BadCap(String),
    /// Nobody here can do it.
    #[error("`{0}` is not to be had here; it needs a keeper: `lazaret serve` starts one")]
    Unserved(&'static str),
    /// The keeper ends.
    #[error("the keeper is stopping and takes no more work; ask again when it is back")]
    Stopping,
    /// A crash would take more with it than was meant.
    #[error("{0} other requests are under way and would be cut off too; add `--with-others` if that is meant")]
    Others(u64),
    /// Something that a client said is longer than anybody would write.
    #[error("{what} of {len} bytes; the most is {most}")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its size.
        len: usize,
        /// The cap.
        most: usize,
    },
    /// A file of the data root.
    #[error("{what}: {why}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        why: std::io::Error,
    },
}
