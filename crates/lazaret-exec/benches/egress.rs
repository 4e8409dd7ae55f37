//! What the way out costs: a request through [`Egress`] beside one by bare hyper and rustls, to the same local server
//! with TLS, with the same connections kept open, in one run. `cargo bench -p lazaret-exec` prints the ratios.
//!
//! Bare is what the documentation of hyper shows: a task for each connection. One caller: one connection on a runtime
//! with a single thread. Many callers: a task each on a runtime with two threads, and a thread each with a connection and
//! a runtime of its own, which is the best that callers which block could have. Turns are such callers.
//!
//! Brokered is what an agent's request is: searched for a thousand secrets, one of them filled in, checked against grants, sent,
//! and what comes back searched again. Egress is the way out alone.
//!
//! With `-- bare`, `-- egress` or `-- brokered` one caller sends requests of that kind, with `many` besides as many as there
//! are, and nothing is timed: for counting system calls and for profiles.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, listens, and has nobody to report errors to"
)]

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use lazaret_exec::broker::{Errand, Filling, Form, Secrets, Unfilled};
use lazaret_exec::egress::{Ask, Egress, Resolver, Roots, Settings};
use lazaret_exec::{Broker, Web};
use lazaret_gate::address::Destinations;
use lazaret_gate::effect::{Header, Request as Asked};
use lazaret_gate::leak::Guard;
use lazaret_gate::secret::Slot;
use lazaret_gate::{AgentId, Bytes, Grants, Target};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use zeroize::Zeroizing;

const NAME: &str = "api.example";

/// Bytes of a response.
const BODY: usize = 1024;

/// Rounds of each kind, taken in turn, so that what else the machine does falls on all kinds alike. The median counts; the
/// fastest is what a quiet machine would show.
const ROUNDS: usize = 21;

/// Callers at once.
const MANY: usize = 64;

/// Requests of one caller in a round, and of many together: about a third of a second either way. Whoever of many is done
/// first leaves the rest to fewer, so that a round in which each has little to do isn't one of many at once.
const REQUESTS: [usize; 2] = [3_200, 32_000];

/// Requests when they are only counted.
const ALONE: usize = 64_000;

/// At most this much slower than bare.
const TARGET: f64 = 1.25;

fn main() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
    let address = serve(&certificate, &key);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let connector = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
    let resolver = Resolver::fixed([(NAME.to_owned(), vec![Ipv4Addr::LOCALHOST.into()])].into());
    let settings = Settings { roots: Roots::Pem(certificate.pem().into_bytes()), resolver, ..Settings::default() };
    let egress = Egress::new(settings);
    let two = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = Local { connector, address, egress, safe: Arc::new(Safe::new()) };

    let words: Vec<String> = std::env::args().collect();
    let asked = |word: &str| words.iter().any(|asked| asked == word);
    let (callers, runtime) = if asked("many") { (MANY, &two) } else { (1, &single) };
    if asked("bare") {
        local.by_tasks(runtime, callers, ALONE / callers);
        return;
    }
    if asked("egress") {
        local.through(callers, ALONE / callers);
        return;
    }
    if asked("brokered") {
        local.brokered(callers, ALONE / callers);
        return;
    }
    let one: Vec<Kind<'_>> = vec![
        ("bare, one connection on one thread", Box::new(|each| local.by_tasks(&single, 1, each))),
        ("egress", Box::new(|each| local.through(1, each))),
        ("brokered", Box::new(|each| local.brokered(1, each))),
    ];
    compare(1, &one);
    let many: Vec<Kind<'_>> = vec![
        ("bare, 64 tasks on two threads", Box::new(|each| local.by_tasks(&two, MANY, each))),
        ("bare, 64 threads", Box::new(|each| local.by_threads(MANY, each))),
        ("egress", Box::new(|each| local.through(MANY, each))),
        ("brokered", Box::new(|each| local.brokered(MANY, each))),
    ];
    compare(MANY, &many);
}

/// A way to send requests: what it is called, and how long it takes if each caller sends so many.
type Kind<'a> = (&'static str, Box<dyn Fn(usize) -> Duration + 'a>);

/// Takes all kinds in turn and prints what ours cost beside the bare ones.
fn compare(callers: usize, kinds: &[Kind<'_>]) {
    let each = REQUESTS[usize::from(callers > 1)] / callers;
    let mut times = vec![Vec::new(); kinds.len()];
    for _ in 0..ROUNDS {
        for (times, (_, kind)) in times.iter_mut().zip(kinds) {
            times.push(kind(each).as_secs_f64() * 1e6 / (each * callers) as f64);
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
    println!("{callers} at once, 1 KiB over TLS 1.3, µs a request (median, fastest of {ROUNDS} rounds)");
    let all: Vec<(&str, Vec<f64>)> = kinds.iter().map(|(name, _)| *name).zip(times).collect();
    for (name, times) in &all {
        println!("  {name:<36} {:>7.1} {:>7.1}", times[ROUNDS / 2], times[0]);
    }
    let (bare, ours): (Vec<_>, Vec<_>) = all.iter().partition(|(name, _)| name.starts_with("bare"));
    for (name, ours) in ours {
        for (anchor, bare) in &bare {
            let ratio = |at: usize| ours[at] / bare[at];
            println!(
                "  {name} beside {anchor}: {:.2}x, {:.2}x in time (at most {TARGET}), {:.2}x in throughput",
                ratio(ROUNDS / 2),
                ratio(0),
                1.0 / ratio(ROUNDS / 2)
            );
        }
    }
}

/// A vault of a thousand secrets, of which the first goes into a header.
struct Safe(Arc<Guard>);

impl Safe {
    const VALUE: &str = "the-value-of-secret-0000-0123456789abcdef";

    fn new() -> Self {
        let secrets = (0..1_000).map(|n| (format!("secret-{n}"), Self::VALUE.replace("0000", &format!("{n:04}"))));
        Self(Arc::new(Guard::new(secrets).unwrap()))
    }
}

impl Secrets for Safe {
    fn admits(&self, _: &AgentId, _: &Slot, _: Option<&Errand>) -> Result<(), Unfilled> {
        Ok(())
    }

    fn fill(&self, _: &AgentId, _: &Slot, _: &Errand) -> Result<Filling, Unfilled> {
        let form = Form::Header { name: "authorization".into(), prefix: "Bearer ".into() };
        Ok(Filling { form, value: Zeroizing::new(Self::VALUE.as_bytes().to_vec()) })
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

fn serve(certificate: &rcgen::Certificate, key: &KeyPair) -> SocketAddr {
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let answer = hyper::service::service_fn(|_: Request<Incoming>| async {
                    Ok::<_, Infallible>(Response::new("x".repeat(BODY)))
                });
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    address
}

/// Connections, each used once: only requests are timed.
async fn senders(tls: &TlsConnector, address: SocketAddr, callers: usize) -> Vec<SendRequest<String>> {
    let mut senders = Vec::new();
    for _ in 0..callers {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = tls.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap();
        let made = hyper::client::conn::http1::handshake::<_, String>(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.unwrap();
        tokio::spawn(connection);
        one(&mut sender, address).await;
        senders.push(sender);
    }
    senders
}

/// A server on this machine, and ways to it.
struct Local {
    connector: TlsConnector,
    address: SocketAddr,
    egress: Egress,
    safe: Arc<Safe>,
}

impl Local {
    fn by_tasks(&self, runtime: &Runtime, callers: usize, each: usize) -> Duration {
        let address = self.address;
        runtime.block_on(async {
            let senders = senders(&self.connector, address, callers).await;
            let start = Instant::now();
            let tasks: Vec<_> = senders
                .into_iter()
                .map(|mut sender| {
                    tokio::spawn(async move {
                        for _ in 0..each {
                            one(&mut sender, address).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            start.elapsed()
        })
    }

    fn by_threads(&self, callers: usize, each: usize) -> Duration {
        timed(callers, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut sender = runtime.block_on(senders(&self.connector, self.address, 1)).pop().unwrap();
            move || (0..each).for_each(|_| runtime.block_on(one(&mut sender, self.address)))
        })
    }

    fn through(&self, callers: usize, each: usize) -> Duration {
        let url = Target::parse(&format!("https://{NAME}:{}/", self.address.port())).unwrap();
        let rules = Destinations::naming([std::net::IpAddr::from(Ipv4Addr::LOCALHOST).into()]);
        let fetch = || {
            let ask = Ask { method: "GET".into(), url: url.clone(), headers: Vec::new(), body: Vec::new(), most: None };
            let reply = self.egress.fetch(ask, &rules, &mut || false).unwrap().unwrap();
            assert_eq!(reply.body.len(), BODY);
        };
        timed(callers, || {
            fetch();
            || (0..each).for_each(|_| fetch())
        })
    }
}

impl Local {
    fn brokered(&self, callers: usize, each: usize) -> Duration {
        let origin = format!("{NAME}:{}", self.address.port());
        let grants = [format!("http:{origin}"), "net:127.0.0.1".to_owned()];
        let web =
            Web::new(self.egress.clone(), Grants::new(grants.iter().map(|grant| grant.parse().unwrap()).collect()));
        let header = Header { name: "authorization".into(), value: "Bearer lazaret-secret:token".into() };
        let url = format!("https://{origin}/");
        let asked = Asked { method: "GET".into(), url, headers: vec![header], body: Bytes::default() };
        timed(callers, || {
            let mut broker = Broker::new("clerk".parse().unwrap(), self.safe.clone());
            let (web, asked) = (&web, &asked);
            let mut fetch = move || {
                broker.admit("token", &asked.method, &asked.url).unwrap();
                let send = |outgoing| web.fetch(outgoing, None, &mut || false).unwrap();
                let response = broker.fetch(asked.clone(), send).unwrap();
                assert_eq!(response.body.0.len(), BODY);
            };
            fetch();
            move || (0..each).for_each(|_| fetch())
        })
    }
}

/// How long callers take, each in a thread, from when all of them are ready. One alone is in this thread, as the bare one is:
/// a new thread may be put on another processor than the server, and whoever crosses over for each request pays for that.
fn timed<W: FnMut()>(callers: usize, prepare: impl Fn() -> W + Sync) -> Duration {
    if callers == 1 {
        let mut work = prepare();
        let start = Instant::now();
        work();
        return start.elapsed();
    }
    let ready = std::sync::Barrier::new(callers);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|_| {
                scope.spawn(|| {
                    let mut work = prepare();
                    ready.wait();
                    let start = Instant::now();
                    work();
                    (start, Instant::now())
                })
            })
            .collect();
        // By their own clocks: whoever looks on from another thread may be let run long after they have begun.
        let times: Vec<(Instant, Instant)> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let (start, end) = (times.iter().map(|times| times.0).min(), times.iter().map(|times| times.1).max());
        end.zip(start).map(|(end, start)| end - start).unwrap()
    })
}

async fn one(sender: &mut SendRequest<String>, address: SocketAddr) {
    sender.ready().await.unwrap();
    let request = Request::get("/").header("host", format!("{NAME}:{}", address.port())).body(String::new()).unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        bytes.extend_from_slice(frame.unwrap().data_ref().unwrap());
    }
    assert_eq!(bytes.len(), BODY);
}
