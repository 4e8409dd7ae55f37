//! The way out: one request, one response, to an address that the rules allow and nowhere else.
//!
//! Whoever calls has a permit for the host. From then on there is one chain: the name in the [`Target`] is the name
//! that is looked up, every address that comes back is checked, one of them is dialled, and the same name goes into the
//! handshake, the check of the certificate and `Host`. Nothing is followed, nothing is remembered but open connections,
//! and no setting comes from the environment.
//!
//! A request owns its connection while it lasts, also with HTTP/2: when it is cut off, its socket closes with it, and
//! no other request is on it. All of it runs in the thread that calls, so that no thread waits for another: names are
//! looked up and addresses dialled on a runtime of that moment, and then the thread reads the socket itself.

mod ask;
mod channel;
mod clock;
mod decode;
mod dial;
mod error;
mod h1;
mod h2;
mod limits;
mod link;
mod pool;
mod resolve;
mod socket;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lazaret_gate::Target;
use lazaret_gate::address::Destinations;
use lazaret_gate::grant::Scheme;
use tokio_rustls::TlsConnector;

pub use ask::{Ask, BadAsk, Reply, Version};
pub use error::{CertificateFault, EgressError};
pub use limits::Limits;
pub use resolve::Resolver;
pub use tls::Roots;

use crate::limits::{CROWD, LOOK_AGAIN};
use ask::Outgoing;
use clock::{Clock, Phase};
use link::{Attempt, Link};
use pool::{Line, Pool};
use resolve::Lookups;
use socket::Socket;

/// Told of every address right before it is dialled; what it gives back is dialled in its place. For tests, which look
/// on and stand in for the internet.
pub type Dialler = Arc<dyn Fn(SocketAddr) -> io::Result<SocketAddr> + Send + Sync>;

/// How requests leave.
#[derive(Clone, Default)]
pub struct Settings {
    /// Who may vouch for a server.
    pub roots: Roots,
    /// Who is asked for addresses.
    pub resolver: Resolver,
    /// How long things may take and how large they may be.
    pub limits: Limits,
    /// Stands between a checked address and the socket.
    pub dialler: Option<Dialler>,
}

/// Sends requests. Copies share connections.
#[derive(Clone)]
pub struct Egress {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    lookups: Lookups,
    tls: OnceLock<Result<TlsConnector, EgressError>>,
    settings: Settings,
    /// Requests that have no answer yet.
    under_way: AtomicUsize,
}

/// A request, counted as long as it has no answer.
struct UnderWay<'a> {
    all: &'a AtomicUsize,
    /// How many there were with it.
    count: usize,
}

impl<'a> UnderWay<'a> {
    fn among(all: &'a AtomicUsize) -> Self {
        Self { all, count: all.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Egress {
    /// Nothing is read, opened or started yet: all of that waits for the first request.
    pub fn new(settings: Settings) -> Self {
        let lookups = Lookups::new(settings.resolver.clone());
        let inner =
            Inner { pool: Pool::default(), lookups, tls: OnceLock::new(), settings, under_way: AtomicUsize::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// Sends it and waits for the whole response. `cut` is asked every few milliseconds; when it says yes, the socket
    /// is closed and there is nothing. Not to be called from a task of an asynchronous runtime.
    pub fn fetch(
        &self,
        ask: Ask,
        rules: &Destinations,
        cut: &mut dyn FnMut() -> bool,
    ) -> Option<Result<Reply, EgressError>> {
        let inner = &self.inner;
        let outgoing = match Outgoing::new(ask, &inner.settings.limits) {
            Ok(outgoing) => outgoing,
            Err(why) => return Some(Err(why.into())),
        };
        let under_way = UnderWay::among(&inner.under_way);
        let clock = Clock::new(&inner.settings.limits);
        let clock = if under_way.count >= CROWD { clock.among_many() } else { clock };
        while let Some((line, waited)) = inner.pool.take(&outgoing.target, rules, clock.started()) {
            match inner.again(line, waited, &outgoing, &clock, cut)? {
                Attempt::Stale => {}
                Attempt::Done(done) => return Some(done),
            }
        }
        inner.anew(&outgoing, rules, &clock, cut)
    }

    /// Every address of a host, if a request may go to each of them. Nothing is dialled.
    pub fn look_up(&self, target: &Target, rules: &Destinations) -> Result<Vec<SocketAddr>, EgressError> {
        let clock = Clock::new(&self.inner.settings.limits);
        let found = on_runtime(&clock, target, &mut || false, self.inner.addresses(target, rules, &clock));
        found.unwrap_or_else(|| Err(EgressError::Start("nobody waits for it".into())))
    }
}

/// Does what waits for more than one socket, in the thread that calls. Nothing if it was cut off, an error if it took too
/// long.
fn on_runtime<T>(
    clock: &Clock<'_>,
    target: &Target,
    cut: &mut dyn FnMut() -> bool,
    work: impl Future<Output = Result<T, EgressError>>,
) -> Option<Result<T, EgressError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(why) => return Some(Err(EgressError::Start(why.to_string()))),
    };
    let done = runtime.block_on(async {
        tokio::select! {
            biased;
            done = work => Some(done),
            ended = clock.watch(cut) => ended.told(target),
        }
    });
    // There is nothing to wait for when it goes, wherever that is.
    runtime.shutdown_background();
    done
}

impl Inner {
    /// One try over a connection that waited.
    fn again(
        &self,
        mut line: Line,
        waited: Duration,
        outgoing: &Outgoing,
        clock: &Clock<'_>,
        cut: &mut dyn FnMut() -> bool,
    ) -> Option<Attempt> {
        // Nobody looked at its socket while it waited: this has it done, so that one which was closed is known as that.
        if waited >= LOOK_AGAIN {
            line.socket.glance();
        }
        clock.enter(Phase::Head);
        let attempt = line.link.exchange(&line.socket, outgoing, &self.settings.limits, (clock, cut), true)?;
        self.keep(&outgoing.target, line, &attempt);
        Some(attempt)
    }

    /// Over a connection of its own.
    fn anew(
        &self,
        outgoing: &Outgoing,
        rules: &Destinations,
        clock: &Clock<'_>,
        cut: &mut dyn FnMut() -> bool,
    ) -> Option<Result<Reply, EgressError>> {
        let target = &outgoing.target;
        let (socket, address) = match on_runtime(clock, target, cut, self.dial(target, rules, clock))? {
            Ok(dialled) => dialled,
            Err(why) => return Some(Err(why)),
        };
        let limits = &self.settings.limits;
        let agreed = socket.run(clock, target, cut, async {
            clock.enter(Phase::Tls);
            let tls = match target.scheme() {
                Scheme::Http => None,
                Scheme::Https => Some(self.tls()?),
            };
            Link::over(socket.clone(), address, target, tls, limits).await
        })?;
        let mut link = match agreed {
            Ok(link) => link,
            Err(why) => return Some(Err(why)),
        };
        clock.enter(Phase::Head);
        let attempt = link.exchange(&socket, outgoing, limits, (clock, cut), false)?;
        self.keep(target, Line { link, socket }, &attempt);
        Some(match attempt {
            Attempt::Stale => Err(EgressError::broken(target, "it was closed before the request was sent")),
            Attempt::Done(done) => done,
        })
    }

    /// Puts a connection into the pool if it can be used again.
    fn keep(&self, target: &Target, mut line: Line, attempt: &Attempt) {
        if matches!(attempt, Attempt::Done(Ok(_))) && line.link.reusable() {
            self.pool.put(target, line);
        }
    }

    async fn addresses(
        &self,
        target: &Target,
        rules: &Destinations,
        clock: &Clock<'_>,
    ) -> Result<Vec<SocketAddr>, EgressError> {
        clock.enter(Phase::Resolve);
        let addresses = self.lookups.addresses(target).await?;
        for address in &addresses {
            rules.check(address.ip()).map_err(|why| EgressError::forbidden(target, why))?;
        }
        Ok(addresses)
    }

    async fn dial(
        &self,
        target: &Target,
        rules: &Destinations,
        clock: &Clock<'_>,
    ) -> Result<(Socket, SocketAddr), EgressError> {
        let addresses = self.addresses(target, rules, clock).await?;
        clock.enter(Phase::Connect);
        dial::dial(target, &addresses, self.settings.dialler.as_ref()).await
    }

    fn tls(&self) -> Result<&TlsConnector, EgressError> {
        let made = self.tls.get_or_init(|| tls::connector(&self.settings.roots));
        made.as_ref().map_err(Clone::clone)
    }
}
