//! The demo's beat about a key: it is used, and it is never seen.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use lazaret_exec::egress::{Resolver, Roots, Settings as Egress};
use lazaret_gate::record::Ending;
use lazaret_gate::refusal::Code as RefusalCode;
use lazaret_gate::{Grants, Outcome};
use lazaret_host::{Host, NewAgent, Settings, Turn};
use lazaret_store::vault::{Binding, Form, Holder, Name, Scope, Secret, Source, Vault};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{COMPONENT, Demo, missing};
use crate::failure::Failure;

const BEAT: &str = "a key that it never sees";

/// Whom the key is for. The name leads to a server of the demo's own; nothing leaves this machine.
const HOST: &str = "tracker.example.com";

const GRANTS: [&str; 4] = ["storage", "http:tracker.example.com", "http:collect.example.net", "secret:tracker"];

/// Where the name is said to lead: any public address will do, because another one is dialled in its place.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9));

/// The list of tasks: a server with a certificate, that says back which key it was shown.
struct Tracker {
    address: SocketAddr,
    roots: Roots,
    shown: Arc<Mutex<Vec<String>>>,
}

fn failed(why: impl std::fmt::Display) -> Failure {
    missing(BEAT, why)
}

impl Tracker {
    fn open() -> Result<Self, Failure> {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key));
        let config = Arc::new(config.map_err(failed)?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shown = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&shown);
        // It ends with the process: the demo is over when it is.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever breaks off is no reason to close.
                let _ = ServerConnection::new(Arc::clone(&config))
                    .map_err(std::io::Error::other)
                    .and_then(|connection| answer(StreamOwned::new(connection, stream), &seen));
            }
        });
        Ok(Self { address, roots: Roots::Pem(made.cert.pem().into_bytes()), shown })
    }

    /// How requests leave in the demo: names lead here, and this server's certificate is the only one that counts.
    fn egress(&self) -> Egress {
        let names = [HOST, "collect.example.net"].map(|name| (name.to_owned(), vec![PUBLIC]));
        let here = self.address;
        Egress {
            roots: self.roots.clone(),
            resolver: Resolver::fixed(HashMap::from(names)),
            dialler: Some(Arc::new(move |_| Ok(here))),
            ..Egress::default()
        }
    }
}

fn answer(mut stream: StreamOwned<ServerConnection, TcpStream>, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut some)? {
            0 => return Ok(()),
            read => bytes.extend_from_slice(&some[..read]),
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let key = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("nothing").to_owned();
    let body = format!("1 task: pay the rent. Your key: {key}");
    if let Ok(mut seen) = seen.lock() {
        seen.push(key);
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

impl Demo<'_> {
    /// The agent calls an API with a secret; then it tries to send it elsewhere, and to leak it.
    pub(super) fn secret(&mut self) -> Result<(), Failure> {
        self.beat("It calls an API with a key that it never sees");
        let tracker = Tracker::open()?;
        let key = self.store_key()?;
        let settings = Settings { preset: "balanced".to_owned(), egress: tracker.egress(), ..Settings::default() };
        let host = Host::open_with(&self.vault_root(), settings)?;
        let grants = GRANTS.iter().map(|grant| grant.parse()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let (agent, grants) = (self.agent.clone(), Grants::new(grants));
        host.create(
            NewAgent { agent, grants, budget: Default::default(), caps: Default::default(), slots: Default::default() },
            COMPONENT,
        )?;

        let turn = self.shown_turn(&host, &format!("tasks https://{HOST}/v1/tasks"))?;
        let said = replied(&turn)?;
        self.say("The agent wrote `authorization: Bearer lazaret-secret:tracker`. The server");
        let shown = tracker.shown.lock().map(|shown| shown.clone()).unwrap_or_default();
        let arrived = shown == [format!("Bearer {key}")];
        if !arrived || said.contains(&key) || !said.contains("[lazaret-secret:tracker-key]") {
            return Err(failed(format!("arrived: {arrived}; {said}")));
        }
        self.say("got the key itself, over TLS, and said it back. What came to the agent:");
        self.quote(&said);

        self.say("A mail tells it to try the same with another host:");
        let turn = self.shown_turn(&host, "tasks https://collect.example.net/v1/tasks")?;
        self.refused(&turn, RefusalCode::SecretNotBound)?;
        self.say("And to put the key into a link, where others read it:");
        let turn = self.shown_turn(&host, &format!("remind https://{HOST}/v1/tasks"))?;
        self.refused(&turn, RefusalCode::SecretLeak)?;
        let shown = tracker.shown.lock().map_or(0, |shown| shown.len());
        if shown != 1 {
            return Err(failed(format!("the server was asked {shown} times")));
        }
        Ok(())
    }

    fn vault_root(&self) -> std::path::PathBuf {
        self.root.with_file_name("keys")
    }

    /// What an operator does once: a vault, a key in it, and whom it is for.
    fn store_key(&self) -> Result<String, Failure> {
        self.say("$ lazaret secret bind tracker-key --agent mailbox --slot tracker");
        self.say("    --host tracker.example.com --header authorization --prefix 'Bearer '");
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(failed)?;
        let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let source = Source::KeyFile { path: self.root.with_file_name("vault.key") };
        let vault = Vault::init(&self.vault_root(), &source, || 0).map_err(failed)?;
        let name = |text: &str| text.parse::<Name>().map_err(failed);
        vault.set(&name("tracker-key")?, &Scope::Global, &Secret::new(key.clone().into_bytes())).map_err(failed)?;
        let binding = Binding {
            holder: Holder::Agent(self.agent.clone()),
            slot: name("tracker")?,
            secret: name("tracker-key")?,
            hosts: vec![HOST.parse().map_err(failed)?],
            form: Form::Header { name: "authorization".into(), prefix: "Bearer ".into() },
            methods: Vec::new(),
            paths: Vec::new(),
        };
        vault.bind(&binding).map_err(failed)?;
        Ok(key)
    }

    fn shown_turn(&self, host: &Host, text: &str) -> Result<Turn, Failure> {
        let turn = self.send(host, text)?;
        let away = |entry: &&lazaret_gate::TapeEntry| !entry.effect.summary().ends_with("secret.use tracker");
        turn.record.tape.iter().filter(away).for_each(|entry| self.show_ask(entry));
        Ok(turn)
    }

    fn refused(&self, turn: &Turn, code: RefusalCode) -> Result<(), Failure> {
        match turn.record.tape.last().map(|entry| &entry.outcome) {
            Some(Outcome::Refused(refusal)) if refusal.code == code => Ok(()),
            other => Err(failed(format!("{other:?}"))),
        }
    }
}

fn replied(turn: &Turn) -> Result<String, Failure> {
    match &turn.record.ending {
        Ending::Replied(reply) => Ok(String::from_utf8_lossy(&reply.body.0).into_owned()),
        other => Err(failed(format!("{other:?}"))),
    }
}
