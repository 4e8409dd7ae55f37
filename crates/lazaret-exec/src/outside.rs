//! The live executor of everything that isn't part of the turn's own transaction.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lazaret_gate::canonical::Exact;
use lazaret_gate::effect::Request;
use lazaret_gate::halted::Halted;
use lazaret_gate::response::ResponseLimit;
use lazaret_gate::{Answer, Bytes, Effect, Executor, Permit, Undone};

use crate::broker::{self, Broker};
use crate::limits::{LOOK, MAX_SLEEP};
use crate::web::Web;
use crate::{model, tools};

/// Says whether an operator has stopped an effect that was let pass.
type Switched = Box<dyn Fn(&Effect) -> Option<Halted> + Send>;

/// The world outside: clocks, randomness, models, tools, the web.
pub struct Outside {
    switched: Switched,
    started: Instant,
    web: Web,
    tools: tools::Toolbox,
    broker: Broker,
    environment: Vec<(String, String)>,
}

impl Outside {
    /// `tools` is the directory in which built-in tools keep what they make; `web` is what requests go through.
    pub fn new(tools: PathBuf, web: Web) -> Self {
        Self {
            switched: Box::new(|_| None),
            started: Instant::now(),
            web,
            tools: tools::Toolbox::new(tools),
            broker: Broker::default(),
            environment: Vec::new(),
        }
    }

    /// Asks this right before an effect leaves the host and while it takes its time, and cuts it off if the answer is yes.
    pub fn with_switches(mut self, switched: impl Fn(&Effect) -> Option<Halted> + Send + 'static) -> Self {
        self.switched = Box::new(switched);
        self
    }

    /// An effect that takes its time, cut off if it has to be.
    fn unless_halted<T>(
        &self,
        effect: &Effect,
        act: impl FnOnce(&mut dyn FnMut() -> bool) -> Option<Result<T, Undone>>,
    ) -> Result<T, Undone> {
        let mut halted = None;
        let done = act(&mut || {
            halted = (self.switched)(effect);
            halted.is_some()
        });
        match (done, halted) {
            (Some(done), _) => done,
            (None, Some(halted)) => Err(Undone::Cut(Box::new(halted.refusal(true)))),
            (None, None) => Err("it ended without an answer".into()),
        }
    }

    fn sleep(&self, effect: &Effect, wait: Duration) -> Result<Answer, Undone> {
        if wait > MAX_SLEEP {
            return Err(format!("a wait of {} ms; the most is {} ms", wait.as_millis(), MAX_SLEEP.as_millis()).into());
        }
        let until = Instant::now() + wait;
        self.unless_halted(effect, |halted| {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Some(Ok(Answer::Nothing));
                }
                if halted() {
                    return None;
                }
                std::thread::sleep(left.min(LOOK));
            }
        })
    }

    /// The environment variables that agents with the `environment` grant see. The host's own are never among them.
    pub fn with_environment(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment = environment;
        self
    }
}

impl Outside {
    /// Whose secrets go into requests.
    pub fn with_broker(mut self, broker: Broker) -> Self {
        self.broker = broker;
        self
    }

    /// Takes up what an effect left behind that was done before the turn was cut off.
    pub fn recall(&mut self, effect: &Effect) {
        broker::recalled(&mut self.broker, effect);
    }

    fn fetch(&mut self, effect: &Effect, request: Request, most: Option<u64>) -> Result<Answer, Undone> {
        let mut broker = std::mem::take(&mut self.broker);
        let answered = broker
            .fetch(request, |outgoing| self.unless_halted(effect, |halted| self.web.fetch(outgoing, most, halted)));
        self.broker = broker;
        answered.map(Answer::Response)
    }
}

impl Executor for Outside {
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone> {
        let most = permit.response_limit().map(ResponseLimit::bytes);
        let effect = permit.into_effect();
        // A permit that was given a moment ago is dead if its agent was revoked or everything stopped since.
        if let Some(halted) = effect.leaves_host().then(|| (self.switched)(&effect)).flatten() {
            return Err(Undone::Cut(Box::new(halted.refusal(false))));
        }
        match effect {
            Effect::LogWrite { .. } => Ok(Answer::Nothing),
            Effect::ClockNow {} => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970")?;
                Ok(Answer::Time(Exact(nanos(since)?)))
            }
            Effect::ClockMonotonic {} => Ok(Answer::Time(Exact(nanos(self.started.elapsed())?))),
            Effect::ClockSleep { nanos } => self.sleep(&effect, Duration::from_nanos(nanos.0)),
            Effect::RandomBytes { len } => {
                let mut bytes = vec![0; len as usize];
                getrandom::fill(&mut bytes).map_err(|why| format!("no randomness: {why}"))?;
                Ok(Answer::Random(Bytes(bytes)))
            }
            Effect::EnvironmentRead {} => Ok(Answer::Environment(self.environment.clone())),
            Effect::ModelGenerate(prompt) => Ok(Answer::Completion(model::generate(&prompt)?)),
            Effect::ToolsCall { name, arguments } => Ok(Answer::Result(self.tools.call(&name, &arguments)?)),
            Effect::HttpFetch(ref request) => self.fetch(&effect, request.clone(), most),
            Effect::SecretUse { slot, method, url } => self.broker.admit(&slot, &method, &url),
            inside @ (Effect::StorageGet { .. }
            | Effect::StorageSet { .. }
            | Effect::StorageDelete { .. }
            | Effect::StorageList { .. }
            | Effect::ToolsList {}
            | Effect::AgentsSend { .. }) => {
                Err(format!("`{}` belongs to the turn, not to the world outside", inside.kind()).into())
            }
        }
    }
}

fn nanos(time: Duration) -> Result<u64, String> {
    u64::try_from(time.as_nanos()).map_err(|_| "the clock is past 2554".to_owned())
}
