//! Thousands of secrets go out with requests and come back in everything that a server can do to them. Then the whole data
//! root, what lies packed in it, a bundle of it and all that the processes said is searched for them.
//!
//! `LAZARET_CANARIES=10000 cargo test -p lazaret --test canaries` is the whole of it; without the number it is 500.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

#[path = "canaries/scan.rs"]
mod scan;
#[path = "canaries/server.rs"]
mod server;

use std::path::{Path, PathBuf};

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Ending, Message};
use lazaret_gate::{AgentId, Budget, Bytes, Grants};
use lazaret_host::{Host, NewAgent, Selection, Settings, Verdict};
use lazaret_store::vault::{Binding, Form, Holder, Name, Scope, Secret, Source, Vault};
use scan::{Found, MARK, forms, scan};
use server::Server;
use station::{Dice, done, lazaret, number, say};

/// Slots, filled anew in every round.
const SLOTS: usize = 50;

/// Operations of the last round are asked of a keeper, by commands.
const ASKED: usize = 20;

fn agent() -> AgentId {
    "clerk".parse().unwrap()
}

fn name(slot: usize) -> Name {
    format!("s{slot}").parse().unwrap()
}

fn now() -> u64 {
    1_790_000_000_000
}

struct Scene {
    dir: tempfile::TempDir,
    server: Server,
    vault: Vault,
    dice: Dice,
}

impl Scene {
    fn new() -> Self {
        let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
        let source = Source::KeyFile { path: dir.path().join("key") };
        let vault = Vault::init(&dir.path().join("data"), &source, now).unwrap();
        let mut scene = Self { dir, server, vault, dice: Dice(number("LAZARET_SEED", 7)) };
        scene.fill();
        for slot in 0..SLOTS {
            scene.vault.bind(&scene.binding(slot)).unwrap();
        }
        let component = std::fs::read(station::guests().join("rust-counter.wasm")).unwrap();
        let grants = (0..SLOTS).map(|slot| format!("secret:s{slot}")).chain([
            "storage".to_owned(),
            "log".to_owned(),
            format!("http:{}", scene.server.origin),
        ]);
        let grants = Grants::new(grants.map(|grant| grant.parse().unwrap()).collect());
        let (budget, caps) = (Budget::default(), Caps::default());
        scene
            .host()
            .create(NewAgent { agent: agent(), grants, budget, caps, slots: Default::default() }, &component)
            .unwrap();
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn host(&self) -> Host {
        let settings = Settings { preset: "open".into(), ..Settings::default() };
        Host::open_with(&self.root(), settings).unwrap()
    }

    /// Each slot gets a value that was never there.
    fn fill(&mut self) {
        let values: Vec<_> = (0..SLOTS).map(|_| Secret::new(self.canary().into_bytes())).collect();
        let names: Vec<_> = (0..SLOTS).map(name).collect();
        let all: Vec<_> = names.iter().zip(&values).map(|(name, value)| (name, &Scope::Global, value)).collect();
        self.vault.set_many(&all).unwrap();
    }

    fn canary(&mut self) -> String {
        format!("{MARK}{:013x}/{:013x}+=", self.dice.next(), self.dice.next())
    }

    fn binding(&self, slot: usize) -> Binding {
        let form = match slot % 3 {
            0 => Form::Header { name: "authorization".into(), prefix: "Bearer ".into() },
            1 => Form::Query { name: "key".into() },
            _ => Form::Basic { user: "ada".into() },
        };
        let hosts = vec![self.server.origin.parse().unwrap()];
        let (holder, methods, paths) = (Holder::Agent(agent()), Vec::new(), vec!["/v1".parse().unwrap()]);
        Binding { holder, slot: name(slot), secret: name(slot), hosts, form, methods, paths }
    }

    /// What the agent is told to do with a slot.
    fn order(&self, slot: usize) -> String {
        let url = format!("{}/v1/{slot}", self.server.origin);
        match slot % 3 {
            0 => format!("call GET {url} authorization Bearer lazaret-secret:s{slot}"),
            1 => format!("call GET {url}?key=lazaret-secret:s{slot} - -"),
            _ => format!("call GET {url} authorization Basic lazaret-secret:s{slot}"),
        }
    }
}

fn replied(host: &Host, text: &str) -> String {
    let body = Bytes(text.as_bytes().to_vec());
    let turn = host.send(&agent(), Message::outside("text/plain", body)).unwrap();
    match turn.record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn check(said: &str, slot: usize) {
    assert!(said.starts_with("status=200 "), "{said}");
    assert!(said.contains(&format!("[lazaret-secret:s{slot}]")), "{said}");
}

/// Commands that ask a keeper, which writes all that it can into its log. What both said.
fn asked(scene: &Scene, slots: std::ops::Range<usize>) -> Vec<u8> {
    let log = scene.dir.path().join("keeper.log");
    let mut command = lazaret(&scene.root());
    command.arg("serve").env("LAZARET_LOG", "debug").stdout(std::process::Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut keeper = command.spawn().expect("the keeper starts");
    station::wait_for("the keeper to answer", || {
        lazaret_link::Client::ping(&lazaret_link::socket(&scene.root())).is_ok()
    });
    let mut said = Vec::new();
    for slot in slots {
        let reply = done(lazaret(&scene.root()).args(["agent", "send", "clerk", &scene.order(slot)]));
        check(&reply, slot);
        said.extend(reply.into_bytes());
    }
    for words in [&["journal", "tail", "--json"][..], &["agent", "show", "clerk", "--json"], &["status"]] {
        said.extend(done(lazaret(&scene.root()).args(words)).into_bytes());
    }
    done(lazaret(&scene.root()).arg("stop"));
    assert!(keeper.wait().expect("it ends").success());
    said.extend(std::fs::read(log).unwrap());
    said
}

fn bundle(root: &Path, to: &Path) -> Vec<u8> {
    done(lazaret(root).args(["bundle", "export", "clerk", "-o"]).arg(to));
    std::fs::read(to).unwrap()
}

#[test]
fn no_canary_is_found_anywhere() {
    let operations = usize::try_from(number("LAZARET_CANARIES", 500)).unwrap().max(SLOTS).next_multiple_of(SLOTS);
    let mut scene = Scene::new();
    let mut rounds = operations / SLOTS;
    {
        let host = scene.host();
        while rounds > 0 {
            let last = rounds == 1;
            for slot in 0..if last { SLOTS - ASKED } else { SLOTS } {
                check(&replied(&host, &scene.order(slot)), slot);
            }
            rounds -= 1;
            if !last {
                scene.fill();
            }
        }
    }
    let said = asked(&scene, SLOTS - ASKED..SLOTS);
    assert_eq!(scene.server.values(), operations, "every value arrived, and each was another");

    // A replay without the vault: nothing of it is needed, and it is not searched either.
    let exported = bundle(&scene.root(), &scene.dir.path().join("clerk.bundle"));
    let vault = scene.dir.path().join("vault");
    std::fs::rename(scene.root().join("vault"), &vault).unwrap();
    let matched = {
        let host = scene.host();
        let verdicts = host.replay(&Selection { agent: agent(), turns: None }, |_, _, _| {}).unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match));
        verdicts.len()
    };
    std::fs::rename(&vault, scene.root().join("vault")).unwrap();

    let mut found = scan(&scene.root());
    found.add("the bundle", &exported);
    found.add("what the processes said", &said);
    let Found { hits, files, bytes, .. } = &found;
    say(&format!(
        "canaries: {operations} operations, each value arrived once; {matched} turns MATCH without the vault; {files} files, \
         blobs and outputs with {bytes} bytes searched in {} forms: {} hits",
        forms().len(),
        hits.len()
    ));
    assert!(hits.is_empty(), "{hits:?}");

    // The same search where there is something to find.
    let copy = scene.dir.path().join("copy");
    station::copy_dir(&scene.root(), &copy);
    let canary = scene.canary();
    let mut planted = 0;
    for (form, text) in scan::written(&canary) {
        std::fs::write(copy.join(format!("{form}.log")), format!("some text, {text}, more text")).unwrap();
        planted += 1;
    }
    done(lazaret(&copy).args(["agent", "send", "clerk", &format!("say {canary}")]));
    let again = scan(&copy);
    let places: std::collections::BTreeSet<_> = again.hits.iter().map(|(place, _)| place.as_str()).collect();
    for (form, _) in scan::written(&canary) {
        assert!(places.iter().any(|place| place.ends_with(&format!("{form}.log"))), "{form}: {places:?}");
    }
    let journal = places.iter().any(|place| place.contains("lazaret."));
    assert!(journal, "the agent's log line: {places:?}");
    say(&format!(
        "canaries: {planted} planted in files and 1 in the journal of a copy: all found, in {} places",
        places.len()
    ));
}
