//! A secret on its way: a real vault, a real server on the loopback, an agent that only ever sees a handle.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the loopback, and one that can't go on has failed"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lazaret_gate::effect::{Header, Request as HttpRequest};
use lazaret_gate::ledger::Caps;
use lazaret_gate::policy::{Facts, Request, Who};
use lazaret_gate::record::{Body, EffectOpened, Ending, Message, TapeEntry};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::risk::Around;
use lazaret_gate::{
    AgentId, Answer, Blob, Budget, Bytes, Circumstance, Effect, Grants, Outcome, Refusal, Ruling, Rulings,
};
use lazaret_host::{Host, NewAgent, Selection, Settings, Turn, Verdict};
use lazaret_store::vault::{Binding, Cost, Form, Holder, Name, Scope, Secret, Source, Unlock, Vault};
use lazaret_store::{Batch, Change};
use tempfile::TempDir;

const VALUE: &str = "tr0ub4dor-and-3-more-words";

/// Answers every request with what it was asked, headers and all; `/away` with a redirect. Keeps the heads.
struct Server {
    origin: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = Vec::new();
                let mut some = [0; 4096];
                while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut some) {
                        Ok(read) if read > 0 => bytes.extend_from_slice(&some[..read]),
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&bytes).into_owned();
                let (status, more) = match head.contains(" /away ") {
                    true => ("302 Found", "location: https://elsewhere.example/\r\n"),
                    false => ("200 OK", ""),
                };
                let auth = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("none");
                let answer = format!(
                    "HTTP/1.1 {status}\r\n{more}x-echo: {auth}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{head}",
                    head.len()
                );
                kept.lock().unwrap().push(head);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { origin, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn now() -> u64 {
    1_790_000_000_000
}

fn agent() -> AgentId {
    "clerk".parse().unwrap()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A data root with an agent and a vault whose secret `token` fills the agent's slot `git`.
struct Scene {
    dir: TempDir,
    server: Server,
}

impl Scene {
    fn new() -> Self {
        Self::with(|dir| Source::KeyFile { path: dir.join("key") })
    }

    fn with(source: impl FnOnce(&Path) -> Source) -> Self {
        let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
        let scene = Self { dir, server };
        let vault = Vault::init(&scene.root(), &source(scene.dir.path()), now).unwrap();
        vault.set(&name("token"), &Scope::Global, &Secret::new(VALUE.into())).unwrap();
        vault.bind(&scene.binding()).unwrap();
        let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/build/rust-counter.wasm");
        let component = std::fs::read(component).expect("guests/build.sh makes the guests");
        let grants =
            format!("storage log http:{} http:elsewhere.example secret:git secret:unbound", scene.server.origin);
        let grants = grants.split(' ').map(|grant| grant.parse().unwrap()).collect();
        let (grants, budget, caps) = (Grants::new(grants), Budget::default(), Caps::default());
        scene
            .host()
            .create(NewAgent { agent: agent(), grants, budget, caps, slots: Default::default() }, &component)
            .unwrap();
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn binding(&self) -> Binding {
        Binding {
            holder: Holder::Agent(agent()),
            slot: name("git"),
            secret: name("token"),
            hosts: vec![self.server.origin.parse().unwrap(), "api.example.org".parse().unwrap()],
            form: Form::Header { name: "authorization".into(), prefix: "Bearer ".into() },
            methods: vec!["GET".parse().unwrap()],
            paths: vec!["/v1".parse().unwrap(), "/away".parse().unwrap()],
        }
    }

    fn vault(&self) -> Vault {
        Vault::unlock(&self.root(), &Unlock::KeyFile { path: self.dir.path().join("key") }, now).unwrap()
    }

    fn host(&self) -> Host {
        let settings = Settings { preset: "open".into(), ..Settings::default() };
        Host::open_with(&self.root(), settings).unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.origin)
    }
}

fn message(text: &str) -> Message {
    Message::outside("text/plain", text.as_bytes().to_vec())
}

fn send(host: &Host, text: &str) -> Turn {
    host.send(&agent(), message(text)).unwrap()
}

fn reply(turn: &Turn) -> String {
    match &turn.record.ending {
        Ending::Replied(reply) => String::from_utf8(reply.body.0.clone()).unwrap(),
        other => format!("{other:?}"),
    }
}

fn kinds(turn: &Turn) -> Vec<&'static str> {
    turn.record.tape.iter().map(|entry| entry.effect.kind()).collect()
}

fn refusal(turn: &Turn) -> Refusal {
    match &turn.record.tape.last().unwrap().outcome {
        Outcome::Refused(refusal) => refusal.clone(),
        other => panic!("{other:?}"),
    }
}

fn with_git(url: &str) -> String {
    format!("call GET {url} authorization Bearer lazaret-secret:git")
}

/// Whether a text is in any file below a directory.
fn lies_below(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| match entry.path() {
        path if path.is_dir() => lies_below(&path, text),
        path => std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes()),
    })
}

#[test]
fn the_value_arrives_and_the_agent_sees_a_handle() {
    let scene = Scene::new();
    let host = scene.host();
    let url = scene.url("/v1/user?page=2");
    let turn = send(&host, &with_git(&url));
    assert_eq!(kinds(&turn), ["secret.use", "http.fetch"]);
    let [head] = &scene.server.heads()[..] else { panic!("one request") };
    assert!(
        head.starts_with("GET /v1/user?page=2 ") && head.contains(&format!("\r\nauthorization: Bearer {VALUE}\r\n"))
    );
    let said = reply(&turn);
    assert!(said.starts_with("status=200 ") && said.contains("authorization: Bearer [lazaret-secret:token]"), "{said}");
    let using = Effect::SecretUse { slot: "git".into(), method: "GET".into(), url };
    assert_eq!(turn.record.tape[0].effect, using);
    assert_eq!(turn.record.tape[0].outcome, Outcome::Done(Answer::Handle("lazaret-secret:git".into())));
    let Outcome::Done(Answer::Response(response)) = &turn.record.tape[1].outcome else { panic!("a response") };
    let echo = response.headers.iter().find(|header| header.name == "x-echo").unwrap();
    assert_eq!(echo.value, "Bearer [lazaret-secret:token]");

    let turn = send(&host, "handle git");
    assert_eq!((reply(&turn), kinds(&turn)), ("lazaret-secret:git".into(), vec!["secret.use"]));
    let [used] = &host.secret_uses().unwrap()[..] else { panic!("one slot") };
    assert_eq!((used.agent.clone(), used.slot.as_str(), used.uses, used.refused), (agent(), "git", 1, 0));

    // Nothing on disk knows the value, and a replay doesn't need it.
    let bundle = host.export(&[Selection { agent: agent(), turns: None }]).unwrap();
    assert!(!bundle.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()));
    drop(host);
    std::fs::remove_dir_all(scene.root().join("vault")).unwrap();
    assert!(!lies_below(&scene.root(), VALUE));
    let host = scene.host();
    let verdicts = host.replay(&Selection { agent: agent(), turns: None }, |_, _, _| {}).unwrap();
    assert_eq!(verdicts, [Verdict::Match, Verdict::Match]);
    assert_eq!(scene.server.heads().len(), 1, "a replay sends nothing");
}

#[test]
fn every_part_of_a_binding_holds() {
    let scene = Scene::new();
    let host = scene.host();
    let post = format!("call POST {} authorization lazaret-secret:git", scene.url("/v1/user"));
    for (asked, code, says) in [
        (with_git("https://elsewhere.example/v1"), Code::SecretNotBound, "it is not bound to that host"),
        (with_git(&scene.url("/v2/user")), Code::SecretNotBound, "it is not bound to that path"),
        (with_git(&scene.url("/v1%2fuser")), Code::SecretNotBound, "encoded dot, slash"),
        (post, Code::SecretNotBound, "it is not bound to that method"),
        (with_git("http://api.example.org/v1"), Code::SecretNotBound, "it is not bound to that host"),
        (
            format!("call GET {} x-t lazaret-secret:unbound", scene.url("/v1")),
            Code::SecretNotBound,
            "no secret is bound",
        ),
        (format!("call GET {} x-t lazaret-secret:other", scene.url("/v1")), Code::NotGranted, "needs `secret:other`"),
        (
            format!("call GET {} x-t lazaret-secret:git", scene.url("/v1")),
            Code::SecretLeak,
            "in the header `authorization`",
        ),
        (format!("call GET {} - -", scene.url("/v1/lazaret-secret:git")), Code::SecretLeak, "the URL has the handle"),
        (format!("post {} lazaret-secret:git", scene.url("/v1")), Code::SecretLeak, "the body has the handle"),
        (format!("post {} {VALUE}", scene.url("/v1")), Code::SecretLeak, "the body has the value of secret `token`"),
        ("handle unbound".to_owned(), Code::SecretNotBound, "no secret is bound"),
        ("handle other".to_owned(), Code::NotGranted, "needs `secret:other`"),
    ] {
        let turn = send(&host, &asked);
        let no = refusal(&turn);
        assert_eq!(no.code, code, "{asked}: {no}");
        assert!(no.reason.contains(says), "{asked}: {no}");
        assert!(code == Code::NotGranted || no.layer == Layer::Secrets, "{no}");
        assert!(reply(&turn).starts_with("refused: "), "{asked}: {}", reply(&turn));
        let fetched = kinds(&turn).contains(&"http.fetch");
        assert_eq!(fetched, code == Code::SecretLeak, "{asked}: {:?}", kinds(&turn));
    }
    assert!(scene.server.heads().is_empty(), "nothing was sent");
    let verdicts = host.replay(&Selection { agent: agent(), turns: None }, |_, _, _| {}).unwrap();
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Match), "{verdicts:?}");
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    let scene = Scene::new();
    let host = scene.host();
    let turn = send(&host, &with_git(&scene.url("/away")));
    assert!(reply(&turn).starts_with("status=302 "), "{}", reply(&turn));
    assert_eq!(scene.server.heads().len(), 1);
    // Whoever follows it asks anew, and the credential stays here.
    assert_eq!(refusal(&send(&host, &with_git("https://elsewhere.example/"))).code, Code::SecretNotBound);
}

#[test]
fn what_is_taken_back_is_gone_at_once() {
    let scene = Scene::new();
    let host = scene.host();
    let asked = with_git(&scene.url("/v1"));
    assert!(reply(&send(&host, &asked)).starts_with("status=200"));
    let vault = scene.vault();
    // A new value is used, and looked for, at the next request; the old one is nobody's any more.
    vault.rotate(&name("token"), &Secret::new(b"another-value-entirely".to_vec())).unwrap();
    let said = reply(&send(&host, &asked));
    assert!(said.contains("Bearer [lazaret-secret:token]"), "{said}");
    assert!(scene.server.heads()[1].contains("Bearer another-value-entirely"));
    vault.unbind(&Holder::Agent(agent()), &name("git")).unwrap();
    assert_eq!(refusal(&send(&host, &asked)).code, Code::SecretNotBound);
    vault.bind(&scene.binding()).unwrap();
    assert!(reply(&send(&host, &asked)).starts_with("status=200"));
    host.keys().lock();
    let no = refusal(&send(&host, &asked));
    assert_eq!((no.code, no.layer), (Code::VaultLocked, Layer::Secrets), "{no}");
    assert_eq!(scene.server.heads().len(), 3);
    let [used] = &host.secret_uses().unwrap()[..] else { panic!("one slot") };
    assert_eq!((used.uses, used.refused), (3, 2));
}

#[test]
fn a_locked_vault_fills_nothing_and_shapes_still_hold() {
    let words = "four words and more";
    let passphrase = || Secret::new(words.into());
    let source = Source::Passphrase { passphrase: passphrase(), cost: Cost::new(19 << 10, 2, 1).unwrap() };
    let scene = Scene::with(|_| source);
    let host = scene.host();
    let asked = with_git(&scene.url("/v1"));
    let no = refusal(&send(&host, &asked));
    assert_eq!(no.code, Code::VaultLocked, "{no}");
    assert!(no.remedy.contains("lazaret vault unlock"), "{no}");
    assert!(reply(&send(&host, &format!("call GET {} - -", scene.url("/v1")))).starts_with("status=200"));
    let token = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    let no = refusal(&send(&host, &format!("call GET {} authorization {token}", scene.url("/v1"))));
    assert_eq!(no.code, Code::SecretLeak, "{no}");
    host.keys().unlock(Some(passphrase())).unwrap();
    assert!(reply(&send(&host, &asked)).starts_with("status=200"));
}

/// A crash between the use and the end of the request: the request may be made again, and is, with the secret in it.
#[test]
fn a_turn_cut_off_in_the_middle_goes_on_with_its_secret() {
    let scene = Scene::new();
    let url = scene.url("/v1/user");
    let host = scene.host();
    let header = Header { name: "authorization".into(), value: "Bearer lazaret-secret:git".into() };
    let request = HttpRequest { method: "GET".into(), url: url.clone(), headers: vec![header], body: Bytes::default() };
    let using = Effect::SecretUse { slot: "git".into(), method: "GET".into(), url: url.clone() };
    let (mut rulings, effect) = (Rulings::default(), Effect::HttpFetch(request));
    let first = Some(rulings.place(ruling_of(&host, &using)));
    let ruling = Some(rulings.place(ruling_of(&host, &effect)));
    let outcome = Outcome::Done(Answer::Handle("lazaret-secret:git".into()));
    let tape = vec![TapeEntry { effect: using, outcome, ruling: first }];
    let rulings = Blob::of_value(&rulings).unwrap();
    let judged = rulings.digest();
    let input = Some(message(&with_git(&url)));
    let opened = EffectOpened { agent: agent(), turn: 1, message: 0, input, number: 1, tape, judged, effect, ruling };
    let changes = vec![Change::Blob(rulings), Change::Unfinished { agent: agent(), turn: Some(1) }];
    host.store().commit(Batch { entries: vec![Body::EffectOpened(Box::new(opened))], changes }).unwrap();
    let recovered = host.recover().unwrap();
    let [turn] = recovered.finished.as_slice() else { panic!("{recovered:?}") };
    assert!(reply(turn).contains("Bearer [lazaret-secret:token]"), "{}", reply(turn));
    assert!(scene.server.heads()[0].contains(&format!("Bearer {VALUE}")));
    let verdicts = host.replay(&Selection { agent: agent(), turns: None }, |_, _, _| {}).unwrap();
    assert_eq!(verdicts, [Verdict::Match]);
}

/// How the gate judges an effect of the first turn now.
fn ruling_of(host: &Host, effect: &Effect) -> Ruling {
    let (book, switches, _) = host.rules();
    let facts = Facts { run: format!("{}-1", agent()), tier: "A".into(), ..Facts::default() };
    let risk = book.risks().weigh(effect, &Around::of(effect, &host.known(&agent()).unwrap().grants, None));
    let request = Request::of(effect, &Who::agent(&agent(), None), &facts, &risk).unwrap();
    let under = Circumstance { rulebook: book.digest(), facts, switches, revoked: None };
    Ruling { under, risk, rules: book.decide(&request).rules, warnings: Vec::new(), asked: Vec::new() }
}
