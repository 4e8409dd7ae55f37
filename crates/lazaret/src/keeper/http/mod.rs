//! The HTTP interface: the keeper's requests as resources, its journal as a stream of events, its figures for Prometheus.
//!
//! Only on loopback, only for whoever has the token, and only under a name of loopback: see [`guard`]. A handler asks the
//! keeper by the same door as the socket does, or reads the data root on a thread that may wait.

mod connections;
mod document;
mod events;
mod guard;
mod limits;
mod metrics;
mod problem;
mod routes;
mod shapes;
mod take;
mod watcher;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use lazaret_host::Host;
use lazaret_link::{Reply, Request};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::failure::Failure;
use crate::keeper::shared::Shared;
use problem::Problem;

pub(crate) use watcher::Watcher;

/// Says where it is, for clients.
const PLACE: &str = "run/http";

/// Where the interface is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nowhere.
    Off,
    /// There, and nowhere else.
    At(SocketAddr),
    /// At the usual place, or beside it if another keeper has that.
    Usual,
}

impl std::str::FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let address: SocketAddr =
            text.parse().map_err(|_| format!("`{text}` is not an address; write 127.0.0.1:PORT, [::1]:PORT or off"))?;
        if !address.ip().is_loopback() {
            let text = format!(
                "`{text}` can be reached from other machines; until devices can be paired the API is served on loopback \
                 only, like 127.0.0.1:{}",
                limits::PORT
            );
            return Err(text);
        }
        Ok(Self::At(address))
    }
}

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    watcher: Arc<Watcher>,
    root: PathBuf,
    port: u16,
    reads: Arc<Semaphore>,
    long_reads: Arc<Semaphore>,
    large: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Whether streams and connections are to end.
    stop: watch::Receiver<bool>,
}

impl Api {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(crate) fn watcher(&self) -> &Arc<Watcher> {
        &self.0.watcher
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0.root
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }

    pub(crate) fn streams(&self) -> &Arc<Semaphore> {
        &self.0.streams
    }

    pub(crate) fn stop(&self) -> watch::Receiver<bool> {
        self.0.stop.clone()
    }

    /// A place for a large body.
    pub(crate) async fn large(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.large).acquire_owned().await.ok()
    }

    /// Asks the keeper.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, Problem> {
        Ok(self.0.shared.ask(request).await?)
    }

    /// Reads the data root.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Host) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.look(&self.0.reads, look).await
    }

    /// Reads the whole of the data root, which takes its time.
    pub(crate) async fn read_all<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Host) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        if self.0.long_reads.available_permits() == 0 {
            let text = "others go through the whole journal already; try again when they are done";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", text));
        }
        self.look(&self.0.long_reads, look).await
    }

    async fn look<T: Send + 'static>(
        &self,
        places: &Arc<Semaphore>,
        look: impl FnOnce(&Host) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = Arc::clone(places).acquire_owned().await;
        let keeper = Arc::clone(&self.0.shared.keeper);
        let looked = tokio::task::spawn_blocking(move || {
            let _place = place;
            look(keeper.host())
        });
        looked.await.unwrap_or_else(|_| Err(Problem::unexpected()))
    }
}

/// The interface, for as long as it is served.
pub(crate) struct Server {
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    asking: JoinHandle<()>,
    _word: Word,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
        self.asking.abort();
    }
}

/// The file that says where the interface is, for as long as it is there.
struct Word(PathBuf);

impl Drop for Word {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Where the interface is going to be served. Whoever connects waits until it is.
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    word: Word,
}

impl Bound {
    /// Takes the address, and says where it is; none if that isn't wished.
    pub(crate) async fn take(root: &Path, wish: Wish) -> Result<Option<Self>, Failure> {
        let place = root.join(PLACE);
        let _ = std::fs::remove_file(&place);
        if wish == Wish::Off {
            return Ok(None);
        }
        let (listener, address) = listen(wish).await?;
        let word = leave_word(&place, address)
            .map_err(|why| Failure::Failed(format!("`{}` can't be written: {why}", place.display())))?;
        Ok(Some(Self { listener, address, word }))
    }

    /// Begins to serve.
    pub(crate) fn serve(self, root: &Path, shared: &Arc<Shared>, watcher: &Arc<Watcher>) -> Server {
        let Self { listener, address, word } = self;
        let (stop, stopped) = watch::channel(false);
        let places = |count| Arc::new(Semaphore::new(count));
        let api = Api(Arc::new(Inner {
            shared: Arc::clone(shared),
            watcher: Arc::clone(watcher),
            root: root.to_owned(),
            port: address.port(),
            reads: places(limits::READS),
            long_reads: places(limits::LONG_READS),
            large: places(limits::LARGE_AT_ONCE),
            streams: places(limits::STREAMS),
            stop: stopped.clone(),
        }));
        info!(address = %format!("http://{address}"), "the HTTP interface is up");
        let asking = tokio::spawn(events::look_for_questions(api.clone()));
        let serving = tokio::spawn(connections::serve(listener, router(api), stopped));
        Server { stop, serving, asking, _word: word }
    }
}

impl Server {
    /// Ends streams and connections. What is being answered is written first, if that is quick.
    pub(crate) async fn close(mut self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(limits::CLOSE, &mut self.serving).await;
    }
}

async fn listen(wish: Wish) -> Result<(TcpListener, SocketAddr), Failure> {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, limits::PORT));
    let (wanted, bound) = match wish {
        Wish::At(address) => (address, TcpListener::bind(address).await),
        _ => match TcpListener::bind(usual).await {
            Err(why) if why.kind() == std::io::ErrorKind::AddrInUse => {
                warn!(address = %usual, "somebody else listens there; another port is taken");
                (usual, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await)
            }
            bound => (usual, bound),
        },
    };
    let failed = |why: std::io::Error| {
        Failure::Failed(format!("the HTTP interface can't be had at {wanted}: {why}; `--http ADDR` moves it"))
    };
    let listener = bound.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Writes down where the interface is, where clients of this data root look. Whoever reads finds all of it or nothing.
fn leave_word(place: &Path, address: SocketAddr) -> std::io::Result<Word> {
    let part = place.with_extension(format!("part-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&part)?;
    writeln!(file, "http://{address}")?;
    std::fs::rename(&part, place)?;
    Ok(Word(place.to_owned()))
}

fn router(api: Api) -> Router {
    let (routes, document) = routes::all();
    document::keep(document);
    routes
        .fallback(|| async {
            let text = "there is nothing at this path; /v1/openapi.json says what there is";
            Problem::new(StatusCode::NOT_FOUND, "no-path", text)
        })
        .method_not_allowed_fallback(|| async {
            let text = "this path has no such method; the `Allow` header names those it has";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", text)
        })
        .layer(axum::middleware::from_fn_with_state(api.clone(), guard::guard))
        .with_state(api)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_on() {
        assert_eq!("off".parse(), Ok(Wish::Off));
        assert!(matches!("127.0.0.1:0".parse(), Ok(Wish::At(_))));
        assert!(matches!("[::1]:7419".parse(), Ok(Wish::At(_))));
        for wide in ["0.0.0.0:7419", "[::]:7419", "192.168.1.2:80", "[fe80::1]:7419"] {
            let why = wide.parse::<Wish>().unwrap_err();
            assert!(why.contains("can be reached from other machines"), "{why}");
        }
        assert!("localhost:80".parse::<Wish>().unwrap_err().contains("is not an address"));
    }
}
