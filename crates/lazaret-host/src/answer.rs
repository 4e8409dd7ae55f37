//! One door: whatever the socket, the HTTP interface or the command asks is answered here.
//!
//! One file per family of requests. Every answer may block: for a turn, a person, the disk.

mod agents;
mod operator;
mod turns;
mod vault;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lazaret_gate::AgentId;
use lazaret_link::{AgentRequest, Health, Reply, Request};

use crate::asking::now;
use crate::error::HostError;
use crate::host::Host;
use crate::supervisor::Supervisor;

/// What the process around a keeper does for it.
pub trait Surroundings: Send + Sync {
    /// Ends the process when what is under way is done, or when the time is over. Returns at once.
    fn stop(&self, within: Duration);
    /// Ends the process as if the power had gone.
    fn crash(&self);
}

/// A host that answers.
pub struct Keeper {
    host: Arc<Host>,
    since: u64,
    under_way: AtomicU64,
    stopping: AtomicBool,
    /// Changes of rules, switches and revocations that agents were looked at for.
    heeded: AtomicU64,
    surroundings: Option<Arc<dyn Surroundings>>,
    /// Runs the agents, if this keeper lives long enough for that.
    supervisor: Option<Arc<Supervisor>>,
}

/// Counts a request for as long as it is answered.
struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Keeper {
    /// A keeper that lives no longer than a command.
    pub fn new(host: Arc<Host>) -> Self {
        let [under_way, heeded] = [0, host.station.rules.changes()].map(AtomicU64::new);
        let (since, stopping) = (now().moment.wall_ms, AtomicBool::new(false));
        Self { host, since, under_way, stopping, heeded, surroundings: None, supervisor: None }
    }

    /// A keeper in a process that lives on.
    pub fn with_surroundings(mut self, surroundings: Arc<dyn Surroundings>) -> Self {
        self.surroundings = Some(surroundings);
        self
    }

    /// A keeper whose agents are run by a supervisor: they answer their mail by themselves.
    pub fn with_supervisor(mut self, supervisor: Arc<Supervisor>) -> Self {
        self.supervisor = Some(supervisor);
        self
    }

    /// Who runs the agents.
    pub fn supervisor(&self) -> Option<&Arc<Supervisor>> {
        self.supervisor.as_ref()
    }

    /// Something but a turn has changed an agent.
    fn nudge(&self, agent: &AgentId) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.nudge(agent);
        }
    }

    /// The host.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Requests that are being answered.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::SeqCst)
    }

    /// How it is. Takes no lock and reads no disk.
    pub fn health(&self) -> Health {
        if self.stopping.load(Ordering::SeqCst) { Health::Stopping } else { Health::Ok }
    }

    /// Takes no more work from here on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Answers a request of somebody who may ask it.
    pub fn answer(&self, request: Request) -> Result<Reply, HostError> {
        // Counted first: whoever stops the keeper sees it, or it sees that the keeper stops.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let _counted = UnderWay(&self.under_way);
        let stopping = self.health() == Health::Stopping;
        match request {
            // Mail waits; whoever asks has had an answer.
            Request::Agent(AgentRequest::Deliver) if stopping => Ok(Reply::Delivered(Vec::new())),
            request if stopping && !request.is_open() && !request.is_urgent() => Err(HostError::Stopping),
            Request::Ping => Ok(Reply::Pong),
            Request::Health => Ok(Reply::Health(self.health())),
            Request::Status => self.status(),
            Request::Problems => Ok(Reply::Problems(self.host.rules().2.iter().map(ToString::to_string).collect())),
            Request::Record => self.record(),
            Request::Stop { within_ms } => self.stop_within(within_ms),
            Request::Agent(request) => self.agent(request),
            Request::Run(request) => self.run(*request),
            Request::Budget(request) => self.budget(request),
            Request::Kill(request) => self.kill(request),
            Request::Trust(request) => self.trust(request),
            Request::Schedule(request) => self.schedule(request),
            Request::Journal(request) => self.journal(request),
            Request::Turns(request) => self.turns(request),
            Request::Vault(request) => self.vault(request),
            Request::Secret(request) => self.secret(request),
        }
    }
}
