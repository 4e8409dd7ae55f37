//! The guests that are measured, and hosts to run them.

use std::path::{Path, PathBuf};

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Ending, Message};
use lazaret_gate::{AgentId, Budget, Grants};
use lazaret_host::{Host, NewAgent, Turn};
use tempfile::TempDir;

/// The small agent: `guests/rust-counter`.
pub(crate) fn counter() -> Vec<u8> {
    let path = repository().join("guests/build/rust-counter.wasm");
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; `sh guests/build.sh rust` makes it", path.display()))
}

/// An agent with a heap of so many 64 KiB pages; see `heap.wat`.
pub(crate) fn heap(pages: u32) -> Vec<u8> {
    let text = include_str!("heap.wat").replace("PAGES", &pages.to_string());
    wat::parse_str(text).expect("the guest's text")
}

/// An agent that asks for `storage.get`; see `asker.wat`.
pub(crate) fn asker() -> Vec<u8> {
    wat::parse_str(include_str!("asker.wat")).expect("the guest's text")
}

/// An agent that is never done; see `busy.wat`.
pub(crate) fn busy() -> Vec<u8> {
    wat::parse_str(include_str!("busy.wat")).expect("the guest's text")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A data root on the disk that the build is on; a directory in memory would flush nothing.
pub(crate) fn data_root() -> TempDir {
    let target = repository().join("target");
    tempfile::Builder::new().prefix("lazaret-bench-").tempdir_in(target).expect("a directory")
}

pub(crate) fn message(body: &[u8]) -> Message {
    Message::outside("text/plain", body.to_vec())
}

pub(crate) fn agent(name: &str) -> AgentId {
    name.parse().expect("an agent's name")
}

pub(crate) fn create(host: &Host, name: &str, component: &[u8]) -> AgentId {
    let budget = Budget { effects: 100_000, bytes: 64 << 20, ..Budget::default() };
    let new = NewAgent {
        agent: agent(name),
        grants: Grants::basic(),
        budget,
        caps: Caps::default(),
        slots: Default::default(),
    };
    host.create(new, component).expect("an agent");
    agent(name)
}

/// Makes as many agents of one component, called `agent-0` and so on. They share their flushes.
pub(crate) fn create_many(host: &Host, many: usize, component: &[u8]) -> Vec<AgentId> {
    const AT_ONCE: usize = 16;
    let budget = Budget { fuel: 1 << 50, wall_ms: 3_600_000, effects: 100_000, bytes: 64 << 20, ..Budget::default() };
    let tool = "tool:mail.draft".parse().expect("a grant");
    let grants = Grants::new(Grants::basic().iter().cloned().chain([tool]).collect());
    let make = |number: usize| {
        let (budget, grants) = (budget.clone(), grants.clone());
        let new = NewAgent {
            agent: agent(&format!("agent-{number}")),
            grants,
            budget,
            caps: Caps::default(),
            slots: Default::default(),
        };
        host.create(new, component).expect("an agent").agent
    };
    // The component is compiled once, with the first.
    let mut agents: Vec<AgentId> = (0..many.min(1)).map(make).collect();
    std::thread::scope(|scope| {
        let part = |first: usize| scope.spawn(move || (first..many).step_by(AT_ONCE).map(make).collect::<Vec<_>>());
        let parts: Vec<_> = (1..=AT_ONCE).map(part).collect();
        parts.into_iter().for_each(|part| agents.extend(part.join().expect("agents")));
    });
    agents
}

/// Takes one turn that must answer.
pub(crate) fn send(host: &Host, agent: &AgentId, body: &[u8]) -> Turn {
    let turn = host.send(agent, message(body)).expect("a turn");
    assert!(matches!(turn.record.ending, Ending::Replied(_)), "the guest failed: {:?}", turn.record.ending);
    turn
}
