//! What the tests share: a clock that stands still, and things to store.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests touch the disk, and stop where they fail")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lazaret_gate::ledger::{Account, Caps, Holder};
use lazaret_gate::record::{AgentCreated, AgentRemoved, EffectClosed, EffectOpened, InDoubt, Message, Reply, World};
use lazaret_gate::{AgentId, Blob, Body, Budget, Digest, Effect, Ending, Grants, Labels, Outcome, TurnRecord};
use lazaret_store::{Batch, Change, NewAgent, Store};

pub(crate) fn now() -> u64 {
    1_790_000_000_000
}

pub(crate) fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

pub(crate) fn open(path: &Path) -> Store {
    Store::open(path, now).unwrap()
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

pub(crate) fn message(text: &str) -> Message {
    Message::outside("text/plain", text)
}

pub(crate) fn creation(name: &str) -> Batch {
    let (component, engine) = (Digest::of(b"component"), Digest::of(b"engine"));
    let (grants, budget, world) = (Grants::default(), Budget::default(), World::Durable);
    let image = Some(Digest::of(name.as_bytes()));
    let new = NewAgent {
        agent: id(name),
        component,
        world,
        engine,
        grants: grants.clone(),
        budget: budget.clone(),
        caps: Caps::default(),
        image,
        labels: Labels::new(),
        entry: 0,
        slots: Default::default(),
    };
    let (caps, slots) = (Caps::default(), Default::default());
    let created = AgentCreated { agent: id(name), component, world, engine, grants, budget, caps, slots, image };
    Batch { entries: vec![Body::AgentCreated(created)], changes: vec![Change::CreateAgent(Box::new(new))] }
}

pub(crate) fn account(name: &str) -> Account {
    Account::new(Holder::Agent(id(name)))
}

pub(crate) fn removal(name: &str) -> Batch {
    Batch {
        entries: vec![Body::AgentRemoved(AgentRemoved { agent: id(name) })],
        changes: vec![Change::RemoveAgent { agent: id(name) }],
    }
}

pub(crate) fn turn_body(name: &str, turn: u64, input: &str) -> Body {
    Body::Turn(Box::new(TurnRecord {
        agent: id(name),
        turn,
        previous: Digest::of(b"previous"),
        component: Digest::of(b"component"),
        engine: Digest::of(b"engine"),
        grants: Grants::default(),
        budget: Budget::default(),
        image_before: Some(Digest::of(b"before")),
        input: message(input),
        tape: Vec::new(),
        judged: Digest::of(b"judged"),
        ending: Ending::Replied(Reply { content_type: "text/plain".into(), body: "done".into() }),
        fuel: 1234,
        image_after: Some(Digest::of(input.as_bytes())),
    }))
}

pub(crate) fn turn(name: &str, turn: u64, input: &str) -> Batch {
    let image = Some(Digest::of(input.as_bytes()));
    let turned = Change::Turned {
        agent: id(name),
        turn,
        image,
        account: Box::new(account(name)),
        labels: Labels::new(),
        entry: 0,
        kept: true,
    };
    Batch { entries: vec![turn_body(name, turn, input)], changes: vec![turned] }
}

pub(crate) fn opened(name: &str, turn: u64, number: u32) -> Body {
    Body::EffectOpened(Box::new(EffectOpened {
        agent: id(name),
        turn,
        message: 1,
        input: (number == 0).then(|| message("in")),
        number,
        tape: Vec::new(),
        judged: Digest::of(b"rulings"),
        effect: Effect::ToolsCall { name: "mail.send".into(), arguments: "{\"turn\":9}".into() },
        ruling: None,
    }))
}

pub(crate) fn closed(name: &str, turn: u64, number: u32) -> EffectClosed {
    EffectClosed { agent: id(name), turn, number, outcome: Outcome::Failed("\",\"turn\":77}},\"prev\":\"".into()) }
}

pub(crate) fn in_doubt(name: &str, turn: u64, number: u32) -> Body {
    Body::InDoubt(InDoubt { agent: id(name), turn, number })
}

pub(crate) fn blob(bytes: &[u8]) -> Change {
    Change::Blob(Blob::of(bytes))
}

pub(crate) fn set(name: &str, key: &str, value: &[u8], version: u64) -> Change {
    Change::StorageSet { agent: id(name), key: key.into(), value: value.to_vec(), version }
}

pub(crate) fn changes(changes: Vec<Change>) -> Batch {
    Batch { entries: Vec::new(), changes }
}
