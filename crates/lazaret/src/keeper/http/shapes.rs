//! The shapes of answers whose types belong to other crates, for the document alone. Nothing is made of them: what is sent
//! are the types themselves, and the run over all routes holds each answer against its shape.

#![expect(dead_code, reason = "these are read by the document's derive macros and never made")]

mod records;
mod trust;

use std::collections::BTreeMap;

use utoipa::ToSchema;

pub(crate) use records::*;
pub(crate) use trust::*;

/// An agent's name: lower-case letters, digits and `-`, starting with a letter.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[a-z][a-z0-9-]{0,63}$", example = "clerk")]
pub(crate) struct AgentName(String);

/// A BLAKE3 digest.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
pub(crate) struct Digest(String);

/// Bytes in base64.
#[derive(ToSchema)]
#[schema(value_type = String, format = Byte)]
pub(crate) struct Bytes(String);

/// Why a request was not done.
#[derive(ToSchema)]
pub(crate) struct Fault {
    /// Which of the known kinds it is; does not change from release to release.
    code: String,
    /// What it is about, in words.
    message: String,
    /// What would change it.
    hint: Option<String>,
    /// The code that the command exits with in such a case.
    exit: u8,
}

/// How a component lives.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum World {
    /// Its memory is kept from turn to turn.
    Durable,
    /// Every turn starts anew.
    Stateless,
}

/// What each turn may cost.
#[derive(ToSchema)]
pub(crate) struct Budget {
    /// Deterministic work.
    fuel: u64,
    /// Bytes of memory.
    memory: u64,
    /// Milliseconds by the clock on the wall.
    wall_ms: u64,
    /// Asks, refused ones included.
    effects: u32,
    /// Bytes across all asks and answers.
    bytes: u64,
}

/// What may be spent in one period. What isn't named isn't capped.
#[derive(ToSchema)]
pub(crate) struct Limits {
    fuel: Option<u64>,
    memory: Option<u64>,
    wall_ms: Option<u64>,
    effects: Option<u64>,
    bytes_out: Option<u64>,
    output_bytes: Option<u64>,
    /// Millionths of the currency's unit.
    money: Option<u64>,
}

/// What an agent may spend beyond one turn.
#[derive(ToSchema)]
pub(crate) struct Caps {
    /// `pause` asks a person at a cap, `refuse` refuses.
    at_cap: String,
    currency: Option<String>,
    per_action: Option<u64>,
    rails: Vec<String>,
    turn: Limits,
    run: Limits,
    day: Limits,
    total: Limits,
}

/// An agent as it stands.
#[derive(ToSchema)]
pub(crate) struct Agent {
    agent: AgentName,
    world: World,
    /// What it is doing.
    state: String,
    /// Why it can't have the turn that it wants; null if it can, or wants none.
    trouble: Option<String>,
    /// Turns taken.
    turn: u64,
    /// Messages that wait for it.
    mailbox: u64,
    component: Digest,
    engine: Digest,
    /// What it may ask for, like `storage`, `tool:NAME` or `http:HOST`.
    grants: Vec<String>,
    budget: Budget,
    caps: Caps,
    /// The slots for secrets that its author declares; left out if there is none.
    #[schema(required = false)]
    slots: Vec<Slot>,
    image: Option<Digest>,
    /// A turn that has effects on disk and isn't over.
    unfinished: Option<u64>,
    /// What it has seen: `untrusted`, `private`.
    labels: Vec<String>,
}

/// A slot for a secret, as an agent's author declares it. Whether it is bound isn't told here.
#[derive(ToSchema)]
pub(crate) struct Slot {
    /// Lower-case letters, digits, `-`, `_` and `.`, starting with a letter.
    #[schema(max_length = 64, pattern = "^[a-z][a-z0-9._-]*$")]
    slot: String,
    /// What it is for, in one line.
    #[schema(max_length = 200)]
    purpose: String,
    /// The only hosts that its secret is meant for; none if the author names none.
    #[schema(required = false, max_items = 8)]
    hosts: Vec<String>,
    /// Whether no turn begins without it.
    #[schema(required = false)]
    required: bool,
}

/// How a keeper is.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Health {
    /// It takes work.
    Ok,
    /// It finishes what is under way and takes no more.
    Stopping,
}

/// That a kill switch was thrown, or an agent revoked.
#[derive(ToSchema)]
pub(crate) struct Thrown {
    by: String,
    /// Milliseconds since 1970, UTC.
    at: u64,
    reason: String,
}

/// The kill switches; null is one that isn't thrown.
#[derive(ToSchema)]
pub(crate) struct Switches {
    /// No effect that can cost money.
    spend: Option<Thrown>,
    /// No effect.
    all: Option<Thrown>,
}

/// What is going on.
#[derive(ToSchema)]
pub(crate) struct Status {
    program: String,
    pid: u32,
    /// Milliseconds since 1970, UTC.
    since: u64,
    health: Health,
    agents: u64,
    in_doubt: u64,
    mail: u64,
    under_way: u64,
    journal: u64,
    switches: Switches,
    /// Agents that are revoked in this keeper though the file can't be made to say so.
    held: Vec<AgentName>,
    questions: u64,
    /// What is wrong with the files in the policy folder.
    problems: Vec<String>,
    /// Why the last commit could not be written; null if it could.
    unwritten: Option<String>,
    /// How many agents want a turn and can't have it.
    troubled: u64,
    /// The first of them.
    #[schema(max_items = 16)]
    troubles: Vec<Trouble>,
}

/// Why an agent that wants a turn can't have it, though nobody has stopped it.
#[derive(ToSchema)]
pub(crate) struct Trouble {
    agent: AgentName,
    why: String,
    /// In how many milliseconds it is tried again.
    again_ms: u64,
}

/// A signed checkpoint of the journal.
#[derive(ToSchema)]
pub(crate) struct Checkpoint {
    /// Entries that it covers.
    size: u64,
    root: Bytes,
    /// The signed text (C2SP signed note).
    note: String,
}

/// What running a turn again said.
#[derive(ToSchema)]
pub(crate) struct Replayed {
    /// The turn's place in the journal.
    entry: u64,
    agent: AgentName,
    turn: u64,
    /// `verdict` is `match`, `mismatch` (with `place`, `expected` and `actual`) or `unverifiable` (with `missing`).
    #[schema(value_type = Object)]
    result: BTreeMap<String, String>,
    /// Why that is not held against the agent yet; left out if it is, or need not be.
    #[schema(required = false)]
    unrecorded: Option<String>,
}

/// One event of a stream. Not every one has an id.
#[derive(ToSchema)]
pub(crate) struct Event {
    /// Its type.
    event: Option<String>,
    /// Where to go on after it.
    id: Option<String>,
    /// A JSON object.
    data: Option<String>,
    /// When to come back, in milliseconds.
    retry: Option<u64>,
}

/// An agent that has just been settled, and its turn, which went on.
#[derive(ToSchema)]
pub(crate) struct Recovered {
    finished: Vec<Taken>,
    in_doubt: Vec<AgentName>,
    /// Names, each with why it could not go on.
    failed: Vec<Vec<String>>,
}
