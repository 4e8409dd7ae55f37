//! The live executor of everything that isn't part of the turn's own transaction.

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lazaret_gate::canonical::Exact;
use lazaret_gate::{Answer, Bytes, Effect, Executor, Permit};

use crate::limits::MAX_SLEEP;
use crate::{http, model, tools};

/// The world outside: clocks, randomness, models, tools, the web.
pub struct Outside {
    started: Instant,
    http: http::Client,
    tools: tools::Toolbox,
    environment: Vec<(String, String)>,
}

impl Outside {
    /// `tools` is the directory in which built-in tools keep what they make.
    pub fn new(tools: PathBuf) -> Self {
        Self {
            started: Instant::now(),
            http: http::Client::default(),
            tools: tools::Toolbox::new(tools),
            environment: Vec::new(),
        }
    }

    /// The environment variables that agents with the `environment` grant see. The host's own are never among them.
    pub fn with_environment(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment = environment;
        self
    }
}

impl Executor for Outside {
    fn run(&mut self, permit: Permit) -> Result<Answer, String> {
        match permit.into_effect() {
            Effect::LogWrite { .. } => Ok(Answer::Nothing),
            Effect::ClockNow {} => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970")?;
                Ok(Answer::Time(Exact(nanos(since)?)))
            }
            Effect::ClockMonotonic {} => Ok(Answer::Time(Exact(nanos(self.started.elapsed())?))),
            Effect::ClockSleep { nanos } => {
                let wait = std::time::Duration::from_nanos(nanos.0);
                if wait > MAX_SLEEP {
                    return Err(format!("a wait of {} ms; the most is {} ms", wait.as_millis(), MAX_SLEEP.as_millis()));
                }
                std::thread::sleep(wait);
                Ok(Answer::Nothing)
            }
            Effect::RandomBytes { len } => {
                let mut bytes = vec![0; len as usize];
                getrandom::fill(&mut bytes).map_err(|why| format!("no randomness: {why}"))?;
                Ok(Answer::Random(Bytes(bytes)))
            }
            Effect::EnvironmentRead {} => Ok(Answer::Environment(self.environment.clone())),
            Effect::ModelGenerate(prompt) => model::generate(&prompt).map(Answer::Completion),
            Effect::ToolsCall { name, arguments } => self.tools.call(&name, &arguments).map(Answer::Result),
            Effect::HttpFetch(request) => self.http.fetch(request).map(Answer::Response),
            inside @ (Effect::StorageGet { .. }
            | Effect::StorageSet { .. }
            | Effect::StorageDelete { .. }
            | Effect::StorageList { .. }
            | Effect::ToolsList {}
            | Effect::AgentsSend { .. }) => {
                Err(format!("`{}` belongs to the turn, not to the world outside", inside.kind()))
            }
        }
    }
}

fn nanos(time: std::time::Duration) -> Result<u64, String> {
    u64::try_from(time.as_nanos()).map_err(|_| "the clock is past 2554".to_owned())
}
