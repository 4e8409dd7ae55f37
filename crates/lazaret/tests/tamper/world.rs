//! What is tampered with: a data root in which a good deal has happened, and bundles of it.

use std::path::{Path, PathBuf};

use lazaret_gate::record::Message;
use lazaret_gate::{AgentId, Budget, Grants};
use lazaret_host::{Host, NewAgent, Selection};
use lazaret_store::{Batch, Change};
use rusqlite::types::Value;

use crate::rows::{HEAD, Row, Table};
use crate::station;

/// A data root, and what it said about its end at earlier times.
pub(crate) struct World {
    _dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
    /// A copy of it that nobody opens, so that it can be copied at any time: SQLite's own files come and go beside a
    /// database that is open.
    pub(crate) still: PathBuf,
    /// Rows of `head`, each with a signature that was good in its time.
    pub(crate) heads: Vec<Row>,
    /// Turns of two agents and a stateless one, of forks of them, and after rollbacks.
    pub(crate) bundle: Vec<u8>,
    /// One agent's first turns, its rollbacks, and a fork: small, because the other checker is slow.
    pub(crate) small: Vec<u8>,
    /// A bundle of another journal with agents of the same names.
    pub(crate) other: Vec<u8>,
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().expect("a name")
}

fn message(text: &str) -> Message {
    Message::outside("text/plain; charset=utf-8", text)
}

fn create(host: &Host, name: &str, component: &str, grants: &[&str]) {
    let bytes = std::fs::read(station::guests().join(component)).expect("the guest is there");
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    let grants = Grants::new(Grants::basic().iter().cloned().chain(grants).collect());
    let budget = Budget { fuel: 3_000_000, ..Budget::default() };
    host.create(
        NewAgent {
            agent: id(name),
            grants,
            budget,
            caps: lazaret_gate::ledger::Caps::default(),
            slots: Default::default(),
        },
        &bytes,
    )
    .expect("it is admitted");
}

/// What the first agent is told. Most of it is kept; one turn fails, one is stopped, one is refused something.
const ALPHA: [&str; 10] = [
    "add 40",
    "fetch https://example.com/",
    "roll",
    "add 2",
    "fail on purpose",
    "recall",
    "spin",
    "tell beta hello",
    "say something",
    "stored",
];
const BETA: [&str; 6] = ["add -7", "ask what now", "add 9000000000", "rolls", "roll", "recall"];

fn live(root: &Path) -> Vec<Row> {
    let host = Host::open(root).expect("a fresh data root");
    let head = || {
        // What was acknowledged is in the tables before this answers.
        host.store().journal_len().expect("a journal");
        Table::read(&root.join("lazaret.db"), &HEAD).rows.remove(0)
    };
    let mut heads = vec![head()];
    create(&host, "alpha", "rust-counter.wasm", &["agent:beta"]);
    create(&host, "beta", "c-counter.wasm", &["model:rehearsal/*"]);
    create(&host, "gamma", "wasi-tool.wasm", &[]);
    create(&host, "gone", "rust-counter.wasm", &[]);
    host.remove(&id("gone")).expect("it can be removed");
    let send = |agent: &str, text: &str| host.send(&id(agent), message(text)).expect("a turn").seq;
    for (number, text) in ALPHA.iter().enumerate() {
        send("alpha", text);
        if let Some(text) = BETA.get(number) {
            send("beta", text);
        }
        heads.push(head());
        if number % 3 == 1 {
            let changes = vec![Change::Checkpoint];
            host.store().commit(Batch { entries: Vec::new(), changes }).expect("a checkpoint");
        }
    }
    send("gamma", "{\"numbers\":[1,2,3]}");
    send("gamma", "");
    // Forks, rollbacks, and agents that were set apart: one is still.
    let fork = |from: &str, turn: u64, new: &str| host.fork(&id(from), Some(turn), &id(new)).expect("a fork");
    fork("alpha", 2, "twin");
    send("twin", "add 1");
    host.quarantine(&id("twin"), "an operator", "to be sure").expect("it can be set apart");
    host.wake(&id("twin"), "an operator").expect("it can go on");
    host.rollback(&id("twin"), 0, "an operator").expect("it can be put back");
    send("twin", "recall");
    fork("alpha", 0, "shut");
    host.quarantine(&id("shut"), "an operator", "it is not needed").expect("it can be set apart");
    fork("gamma", 1, "tool-two");
    heads.push(head());
    host.rollback(&id("beta"), 2, "an operator").expect("it can be put back");
    send("beta", "recall");
    host.rollback(&id("alpha"), 0, "an operator").expect("it can be put back");
    host.rollback(&id("alpha"), 1, "an operator").expect("it can be put back");
    send("alpha", "stored");
    heads
}

fn export(root: &Path, turns: &[&str]) -> Vec<u8> {
    let host = Host::open(root).expect("the data root");
    let turns: Vec<Selection> = turns.iter().map(|turns| turns.parse().expect("a selection")).collect();
    host.export(&turns).expect("a bundle")
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let [root, other, still] = ["data", "other", "still"].map(|name| dir.path().join(name));
        let heads = live(&root);
        live(&other);
        let small = export(&root, &["alpha:1-2", "twin"]);
        let all = ["alpha", "beta", "gamma", "shut", "tool-two", "twin"];
        let bundle = export(&root, &all);
        let other = export(&other, &all);
        let log = root.join("lazaret.db-wal");
        assert!(std::fs::metadata(&log).map_or(0, |log| log.len()) == 0, "everything is in the database's own file");
        station::copy_dir(&root, &still);
        Self { _dir: dir, root, still, heads, bundle, small, other }
    }

    pub(crate) fn table(&self, shape: &'static crate::rows::Shape) -> Table {
        Table::read(&self.root.join("lazaret.db"), shape)
    }
}

/// A whole number of a row.
pub(crate) fn whole(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => panic!("not a number: {other:?}"),
    }
}

/// Bytes of a row.
pub(crate) fn blob(value: &Value) -> &[u8] {
    match value {
        Value::Blob(bytes) => bytes,
        other => panic!("not bytes: {other:?}"),
    }
}
