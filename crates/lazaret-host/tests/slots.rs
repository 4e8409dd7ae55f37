//! Declared slots on a real host with a real vault: what is bound, what is used, and whose turns wait for it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the clock, and one that can't go on has failed"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_gate::ledger::Caps;
use lazaret_gate::record::{Ending, Message};
use lazaret_gate::refusal::{Code, Refusal};
use lazaret_gate::{AgentId, Budget, Bytes, Grants, Outcome, Slots};
use lazaret_host::{Host, HostError, Keeper, Life, NewAgent, Pace, Settings, Supervisor, Turn, slots_of};
use lazaret_link::{AgentRequest, Bound, BoundForm, Reply, Request, SecretRequest, VaultRequest};
use lazaret_store::vault::{Cost, Holder, Scope, Secret, Source, Unlock, Vault};
use tempfile::TempDir;

const MANIFEST: &str = r#"
[[secrets]]
slot = "git"
purpose = "reads issues"
hosts = ["api.example.org"]
required = REQUIRED
"#;

fn now() -> u64 {
    1_790_000_000_000
}

fn agent() -> AgentId {
    "clerk".parse().unwrap()
}

fn message(text: &str) -> Message {
    Message {
        sender: None,
        content_type: "text/plain".into(),
        body: Bytes(text.as_bytes().to_vec()),
        labels: Default::default(),
    }
}

/// A data root with a vault that has one secret.
struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self::with(|dir| Source::KeyFile { path: dir.join("key") })
    }

    fn with(source: impl FnOnce(&Path) -> Source) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::init(&dir.path().join("root"), &source(dir.path()), now).unwrap();
        vault.set(&"token".parse().unwrap(), &Scope::Global, &Secret::new(b"tr0ub4dor-and-3-more".to_vec())).unwrap();
        Self { dir }
    }

    fn host(&self) -> Arc<Host> {
        let settings = Settings { preset: "open".into(), ..Settings::default() };
        Arc::new(Host::open_with(&self.dir.path().join("root"), settings).unwrap())
    }

    fn vault(&self) -> Vault {
        let key = Unlock::KeyFile { path: self.dir.path().join("key") };
        Vault::unlock(&self.dir.path().join("root"), &key, now).unwrap()
    }
}

fn create(host: &Host, required: bool) {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
    let component = std::fs::read(component).expect("guests/build.sh makes the guests");
    let grants = ["storage", "http:evil.example", "http:api.example.org", "secret:loose"];
    let grants = Grants::new(grants.map(|grant| grant.parse().unwrap()).to_vec());
    let slots = Slots::read(&MANIFEST.replace("REQUIRED", &required.to_string())).unwrap();
    let (budget, caps) = (Budget::default(), Caps::default());
    host.create(NewAgent { agent: agent(), grants, budget, caps, slots }, &component).unwrap();
}

fn bound(slot: &str, hosts: &[&str]) -> Request {
    let binding = Bound {
        holder: "agent:clerk".into(),
        slot: slot.into(),
        secret: "token".into(),
        hosts: hosts.iter().map(ToString::to_string).collect(),
        form: BoundForm::Header { name: "authorization".into(), prefix: "Bearer ".into() },
        methods: Vec::new(),
        paths: Vec::new(),
    };
    Request::Secret(SecretRequest::Bind { binding: Box::new(binding), by: "ana".into() })
}

fn unbound() -> Request {
    let (holder, slot, by) = ("agent:clerk".into(), "git".into(), "ana".into());
    Request::Secret(SecretRequest::Unbind { holder, slot, by })
}

fn reply(turn: &Turn) -> String {
    match &turn.record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0.clone()).unwrap(),
        other => format!("{other:?}"),
    }
}

fn refusal(turn: &Turn) -> Refusal {
    match &turn.record.tape.last().unwrap().outcome {
        Outcome::Refused(refusal) => refusal.clone(),
        other => panic!("{other:?}"),
    }
}

fn with_git(url: &str) -> Message {
    message(&format!("call GET {url} authorization Bearer lazaret-secret:git"))
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_declared_slot_is_granted_and_on_record() {
    let scene = Scene::new();
    let host = scene.host();
    create(&host, true);
    let row = host.known(&agent()).unwrap();
    assert!(row.grants.iter().any(|grant| grant.to_string() == "secret:git"), "{:?}", row.grants);
    assert_eq!(row.slots.get("git").unwrap().host_texts(), ["api.example.org"]);
    let (fork, _) = host.fork(&agent(), None, &"copy".parse().unwrap()).unwrap();
    assert_eq!(fork.slots, row.slots);
    drop(host);
    let host = scene.host();
    assert_eq!(host.known(&agent()).unwrap(), row);
}

/// The binding came first, by whatever way: where it is used is where it is held to what the author says.
#[test]
fn a_use_is_held_to_what_is_declared() {
    let scene = Scene::new();
    let keeper = Keeper::new(scene.host());
    keeper.answer(bound("git", &["evil.example", "api.example.org"])).unwrap();
    create(keeper.host(), false);
    let host = keeper.host();
    let no = refusal(&host.send(&agent(), with_git("https://evil.example/")).unwrap());
    assert_eq!(no.code, Code::SecretNotBound, "{no}");
    assert!(no.reason.contains("declares slot `git` for api.example.org alone"), "{no}");
    assert!(!no.remedy.contains("secret bind"), "what can't help isn't offered: {no}");
    assert_eq!(reply(&host.send(&agent(), message("handle git")).unwrap()), "lazaret-secret:git");
    // For the declared host the use is let pass. There is nobody there, and nothing was sent to find that out.
    let turn = host.send(&agent(), with_git("https://api.example.org:8443/")).unwrap();
    assert_eq!(refusal(&turn).code, Code::SecretNotBound, "another port is another place");

    // None of its hosts is declared: it is as if nothing were bound.
    keeper.answer(unbound()).unwrap();
    let vault = scene.vault();
    let mut binding = lazaret_store::vault::Binding {
        holder: Holder::Agent(agent()),
        slot: "git".parse().unwrap(),
        secret: "token".parse().unwrap(),
        hosts: vec!["evil.example".parse().unwrap()],
        form: lazaret_store::vault::Form::Header { name: "authorization".into(), prefix: String::new() },
        methods: Vec::new(),
        paths: Vec::new(),
    };
    vault.bind(&binding).unwrap();
    assert_eq!(refusal(&host.send(&agent(), message("handle git")).unwrap()).code, Code::SecretNotBound);
    assert_eq!(host.declared_slots(&host.known(&agent()).unwrap())[0].bound, Some(false));
    // A slot that isn't declared is the operator's alone.
    binding.slot = "loose".parse().unwrap();
    vault.bind(&binding).unwrap();
    assert_eq!(reply(&host.send(&agent(), message("handle loose")).unwrap()), "lazaret-secret:loose");
}

#[test]
fn a_binding_is_held_to_what_is_declared() {
    let scene = Scene::new();
    let keeper = Keeper::new(scene.host());
    create(keeper.host(), false);
    let no = keeper.answer(bound("git", &["api.example.org", "evil.example"])).unwrap_err();
    assert!(matches!(&no, HostError::HostUndeclared { host, .. } if host == "evil.example"), "{no}");
    assert!(no.to_string().contains("for api.example.org alone"), "{no}");
    assert_eq!(no.code(), "host-undeclared");
    keeper.answer(bound("git", &["api.example.org"])).unwrap();
    keeper.answer(bound("loose", &["evil.example"])).unwrap();
    // A name that is free again binds nobody.
    keeper.host().remove(&agent()).unwrap();
    keeper.answer(unbound()).unwrap();
    keeper.answer(bound("git", &["evil.example"])).unwrap();
}

#[test]
fn no_turn_begins_without_what_is_required() {
    let scene = Scene::new();
    let keeper = Keeper::new(scene.host());
    let host = keeper.host();
    create(host, true);
    let no = host.send(&agent(), message("add 1")).unwrap_err();
    // That looked into the vault for the first time, which is on record; what follows isn't.
    let before = host.store().journal_len().unwrap();
    host.send(&agent(), message("add 1")).unwrap_err();
    assert!(matches!(no, HostError::SlotEmpty { .. }), "{no}");
    for part in ["`git` (reads issues)", "`lazaret secret bind SECRET --agent clerk --slot git --host api.example.org`"]
    {
        assert!(no.to_string().contains(part), "{no}");
    }
    // Mail waits, and keeps nobody from theirs.
    host.post(&agent(), message("add 1")).unwrap();
    assert!(host.deliver().unwrap().is_empty());
    assert_eq!(host.store().mailbox_len(&agent()).unwrap(), 1);
    assert_eq!((host.store().journal_len().unwrap(), host.known(&agent()).unwrap().turn), (before, 0));
    let Reply::Audit(audit) = keeper.answer(Request::Secret(SecretRequest::Audit)).unwrap() else { panic!("an audit") };
    assert_eq!((audit.unbound.len(), audit.unbound[0].purpose.as_str()), (1, "reads issues"));

    keeper.answer(bound("git", &["api.example.org"])).unwrap();
    assert_eq!(host.deliver().unwrap().len(), 1);
    host.keys().lock();
    let no = host.send(&agent(), message("add 1")).unwrap_err();
    assert!(matches!(no, HostError::SlotUnknown { .. }) && no.to_string().contains("the vault is locked"), "{no}");
    assert_eq!(no.code(), "vault-locked");
    let [view] = &host.declared_slots(&host.known(&agent()).unwrap())[..] else { panic!("one slot") };
    assert_eq!((view.bound, view.unknown.as_deref()), (None, Some("the vault is locked")));
}

/// Whoever only reads a data root tells the same.
#[test]
fn a_reader_sees_what_is_bound() {
    let scene = Scene::new();
    let root = scene.dir.path().join("root");
    let keeper = Keeper::new(scene.host());
    create(keeper.host(), true);
    let row = keeper.host().known(&agent()).unwrap();
    let seen = || {
        let reader = lazaret_store::Store::open_read_only(&root).unwrap();
        slots_of(&root, &reader, &row, None)[0].bound
    };
    assert_eq!(seen(), Some(false));
    keeper.answer(bound("git", &["api.example.org"])).unwrap();
    assert_eq!(seen(), Some(true));
    std::fs::remove_dir_all(root.join("vault")).unwrap();
    assert_eq!(seen(), None, "one that is gone is not one that binds nothing");
}

/// Under a supervisor: who asks is told, what was left waits, nobody is quarantined for it, and a binding lets it go on.
#[test]
fn mail_waits_for_what_is_required() {
    let source = Source::Passphrase {
        passphrase: Secret::new(b"four words and more".to_vec()),
        cost: Cost::new(19 << 10, 2, 1).unwrap(),
    };
    let scene = Scene::with(|_| source);
    let host = scene.host();
    create(&host, true);
    // Pauses that a test needn't wait for, and a breaker that would trip soon.
    let pace = Pace { pause_ms: 20, pause_most_ms: 60_000, breaker: 3, ..Pace::default() };
    let supervisor = Supervisor::start(host.clone(), pace).unwrap();
    let keeper = Keeper::new(host.clone()).with_supervisor(supervisor.clone());
    let send = || {
        let (content_type, body) = ("text/plain".to_owned(), b"add 1".to_vec().into());
        keeper.answer(Request::Agent(AgentRequest::Send { agent: agent(), content_type, body }))
    };
    for _ in 0..3 {
        assert_eq!(send().unwrap_err().code(), "vault-locked", "at once, however often it is asked");
    }
    supervisor.post(&agent(), message("add 5")).unwrap();
    eventually("the trouble", || supervisor.status().troubles.contains_key(&agent()));
    assert_eq!(send().unwrap_err().code(), "vault-locked", "also behind mail that waits");
    // Pauses that get longer than the breaker would have let them, and nobody trips it.
    eventually("a long pause", || supervisor.status().troubles.get(&agent()).is_some_and(|(_, again)| *again > 500));
    assert_ne!(supervisor.life(&agent()), Some(Life::Quarantined));
    let passphrase = Some(lazaret_link::Hidden::new(b"four words and more"));
    keeper.answer(Request::Vault(VaultRequest::Unlock { passphrase })).unwrap();
    assert_eq!(send().unwrap_err().code(), "slot-empty");
    keeper.answer(bound("git", &["api.example.org"])).unwrap();
    eventually("its mail", || host.store().mailbox_len(&agent()).unwrap() == 0);
    let Reply::Taken(taken) = send().unwrap() else { panic!("a turn") };
    assert_eq!(taken.record.turn, 2);
    assert_eq!(host.known(&agent()).unwrap().streak, 0);
}
