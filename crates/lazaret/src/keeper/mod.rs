//! The keeper: a process that has a data root open for as long as it lives, and answers whoever may ask.

mod connection;
pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod logs;
mod outbox;
mod porter;
pub(crate) mod shared;
mod socket;
mod systemd;
mod traces;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lazaret_gate::shown;
use lazaret_host::{Host, Keeper, Pace, Supervisor};
use lazaret_link::Token;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::failure::Failure;
use porter::Porter;
use shared::{Ending, Phase, Shared};
pub(crate) use socket::{mark, marked};
pub(crate) use systemd::is_handed_over;

/// How often it is looked whether everything is done.
const LOOK: Duration = Duration::from_millis(10);

/// How often it is looked whether somebody has changed a file of the data root: what is in force at the next effect should be
/// on record soon, even if no agent does anything.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);

/// How long threads that have nothing to do may take to end.
const CLOSING: Duration = Duration::from_secs(2);

/// Answers until somebody stops it. The data root stays open, and its lock held, until this returns.
pub(crate) fn serve(root: &Path, host: Host, token: Token, wish: http::Wish) -> Result<(), Failure> {
    let failed = |what: &'static str| move |why: std::io::Error| Failure::Failed(format!("{what}: {why}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(limits::THREADS)
        .enable_all()
        .build()
        .map_err(failed("no threads to serve with"))?;
    socket::raise_files();
    // Before any agent takes a turn: if a place can't be had, nothing was begun that would be cut off.
    let listener = socket::Listener::open(root).map_err(failed("the socket can't be had"))?;
    let bound = runtime.block_on(http::Bound::take(root, wish))?;
    let (ending, phase) = Ending::new();
    let host = Arc::new(host);
    let supervisor = Supervisor::start(host.clone(), Pace::default())?;
    let keeper = Keeper::new(host.clone()).with_surroundings(Arc::new(ending.clone())).with_supervisor(supervisor);
    let keeper = Arc::new(keeper);
    let watcher = http::Watcher::new(keeper.host(), traces::Exporter::start());
    let shared = Shared::new(keeper, token, ending);
    let served = runtime.block_on(async {
        let listening = listener.listener()?;
        let http = bound.map(|bound| bound.serve(root, &shared, &watcher));
        let porter =
            Porter::start(Arc::clone(&shared), Handle::current()).map_err(failed("the socket can't be watched"))?;
        info!(pid = std::process::id(), "the keeper is up");
        systemd::notify("READY=1");
        let watchdog = tokio::spawn(systemd::watchdog(Arc::clone(&shared)));
        let files = tokio::spawn(look_at_files(Arc::clone(&shared)));
        let troubles = tokio::spawn(look_for_trouble(Arc::clone(&shared)));
        let signals = tokio::spawn(heed_signals(Arc::clone(&shared)));
        let accepting = tokio::spawn(Arc::clone(&porter).accept(listening, socket::connections()));
        let hurried = drain(&shared, phase).await;
        [watchdog, files, troubles, signals, accepting].iter().for_each(JoinHandle::abort);
        porter.hang_up();
        if let Some(http) = http {
            http.close().await;
        }
        // While the lock is held: whoever comes next makes a new one.
        drop(listener);
        Ok(hurried)
    });
    watcher.end();
    // A turn that did not end in time is cut off here, and taken up at the next start. If none is, nobody holds the host any
    // more but us, and the data root is closed in order.
    let quiet = shared.in_flight() == 0 && !matches!(served, Ok(Hurried(true)));
    runtime.shutdown_timeout(if quiet { CLOSING } else { Duration::ZERO });
    drop((shared, watcher));
    let begun = std::time::Instant::now();
    while quiet && Arc::strong_count(&host) > 1 && begun.elapsed() < CLOSING {
        std::thread::sleep(LOOK);
    }
    served.map(drop)
}

/// Whether somebody said that the end can't wait.
struct Hurried(bool);

/// Waits for the end, and then for what is under way, as long as there is time.
async fn drain(shared: &Shared, mut phase: tokio::sync::watch::Receiver<Phase>) -> Hurried {
    let mut agents = None;
    loop {
        let until = match *phase.borrow_and_update() {
            Phase::Up => None,
            Phase::Stopping(until) => Some(until),
            Phase::Over => break,
        };
        let Some(until) = until else {
            if phase.changed().await.is_err() {
                break;
            }
            continue;
        };
        shared.keeper.stop();
        let agents = agents.get_or_insert_with(|| {
            systemd::notify("STOPPING=1");
            let (keeper, within) = (Arc::clone(&shared.keeper), until.saturating_duration_since(Instant::now()));
            tokio::task::spawn_blocking(move || keeper.supervisor().map(|supervisor| supervisor.drain(within)))
        });
        if (shared.in_flight() == 0 && agents.is_finished()) || Instant::now() >= until {
            break;
        }
        let _ = tokio::time::timeout(LOOK, phase.changed()).await;
    }
    // Turns that answer mail are nobody's request, and cut off all the same.
    let turns = shared.keeper.supervisor().map_or(0, |supervisor| supervisor.status().awake as u64);
    match shared.in_flight().max(turns) {
        0 => info!("the keeper is down"),
        cut => warn!(cut, "the keeper is down; turns that were cut off are taken up at the next start"),
    }
    Hurried(matches!(*phase.borrow(), Phase::Over))
}

/// Puts on record what somebody has changed by hand: kill switches, revocations, rules.
async fn look_at_files(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(LOOK_AT_FILES);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        let keeper = Arc::clone(&shared.keeper);
        let looked = tokio::task::spawn_blocking(move || keeper.look()).await;
        // What can't be written now is kept, and said once.
        if let Ok(Err(why)) = &looked
            && !failed
        {
            let why = shown::text(&why.to_string());
            warn!(why, "what was changed in the data root's files is in force, and can't be put on record yet");
        }
        failed = !matches!(looked, Ok(Ok(())));
    }
}

/// Says when something keeps agents from their turns, and when it is over. Not for each try: a full disk is one message.
async fn look_for_trouble(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(LOOK_AT_FILES);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known = false;
    loop {
        ticks.tick().await;
        let troubles = shared.keeper.supervisor().map(|supervisor| supervisor.status().troubles).unwrap_or_default();
        // What is the matter may alternate while it lasts: the log tells of the first.
        let first = troubles.iter().next().map(|(agent, (why, _))| (agent.clone(), shown::text(why)));
        if first.is_some() == known {
            continue;
        }
        match &first {
            Some((agent, why)) => warn!(%agent, why, agents = troubles.len(), "agents want a turn and can't have it"),
            None => info!("agents take their turns again"),
        }
        known = first.is_some();
    }
}

/// The first signal drains, the second one doesn't wait.
async fn heed_signals(shared: Arc<Shared>) {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return warn!("signals can't be heeded");
    };
    for again in [false, true] {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        info!(again, "told to stop");
        if again { shared.ending.now() } else { shared.ending.within(limits::DRAIN) }
    }
}
