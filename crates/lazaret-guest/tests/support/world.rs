//! A world in memory for guests under test: the real gate, before a journal and an executor that only remember.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use lazaret_gate::ledger::{Account, Caps, Holder, Point, Switches};
use lazaret_gate::outcome::{Completion, Entry, KeyInfo, Response, Tool};
use lazaret_gate::policy::{Facts, Who};
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::{Matter, Purse};
use lazaret_gate::{
    AgentId, Answer, Budget, Caller, Circumstance, Circumstances, Digest, Effect, Exact, Executor, Grants, Halt,
    Journal, Meter, Outcome, Permit, Rulebook, Ruling, TapeEntry, Undone, mediate,
};
use lazaret_guest::World;

/// The world of one turn.
pub(crate) struct Memory {
    agent: AgentId,
    grants: Grants,
    budget: Budget,
    account: Account,
    meter: Meter,
    calm: Calm,
    pub(crate) journal: Tape,
    hands: Hands,
}

/// What was asked and got.
#[derive(Default)]
pub(crate) struct Tape {
    opened: Option<u32>,
    pub(crate) entries: Vec<TapeEntry>,
}

/// Does what is permitted, in memory.
#[derive(Default)]
struct Hands {
    storage: BTreeMap<String, Entry>,
    messages: u32,
}

impl Memory {
    pub(crate) fn new(grants: Grants, budget: Budget) -> Self {
        let agent: AgentId = "stranger".parse().expect("a name");
        let account = Account::new(Holder::Agent(agent.clone()));
        let (meter, calm) = (Meter::default(), Calm::default());
        Self { agent, grants, budget, account, meter, calm, journal: Tape::default(), hands: Hands::default() }
    }

    /// The tape of a world that came back from a turn.
    pub(crate) fn tape(world: Box<dyn World>) -> Vec<TapeEntry> {
        let world: Box<dyn Any> = world;
        world.downcast::<Self>().map(|world| world.journal.entries).expect("a turn hands its own world back")
    }
}

impl World for Memory {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let at = Point { day: 1, run: "r".into(), turn: "t".into() };
        let mut caller = Caller {
            agent: &self.agent,
            who: &Who::agent(&self.agent, None),
            grants: &self.grants,
            budget: &self.budget,
            meter: &mut self.meter,
            purse: Purse { caps: &Caps::default(), account: &mut self.account, at: &at },
            labels: None,
        };
        mediate(&mut caller, effect, &mut self.calm, &mut self.journal, &mut self.hands)
    }
}

/// Circumstances in which the rules are the loosest that are shipped, and nobody can be asked.
struct Calm(Arc<Rulebook>);

impl Default for Calm {
    fn default() -> Self {
        static OPEN: OnceLock<Arc<Rulebook>> = OnceLock::new();
        let load = || {
            let (name, text) = lazaret_gate::policy::preset("open").expect("a preset");
            Rulebook::load(BTreeMap::from([(name.to_owned(), text.to_owned())])).expect("rules")
        };
        Self(OPEN.get_or_init(|| Arc::new(load())).clone())
    }
}

impl Circumstances for Calm {
    fn now(&mut self, _: u32) -> Result<Circumstance, Halt> {
        let facts = Facts { run: "r".into(), tier: "A".into(), ..Facts::default() };
        Ok(Circumstance { rulebook: self.0.digest(), facts, switches: Switches::default(), revoked: None })
    }

    fn rulebook(&mut self, _: &Digest) -> Result<Arc<Rulebook>, Halt> {
        Ok(self.0.clone())
    }

    fn ask(&mut self, _: u32, matter: Matter<'_>, _: &Circumstance) -> Result<Asked, Halt> {
        Err(Halt::Stopped(format!("nobody can be asked: {}", matter.reason)))
    }
}

impl Journal for Tape {
    fn open(&mut self, number: u32, _: &Effect) -> Result<(), Halt> {
        assert_eq!(self.opened.replace(number), None, "an ask was opened before the last one was closed");
        Ok(())
    }

    fn flush(&mut self, number: u32, _: &Ruling) -> Result<(), Halt> {
        assert_eq!(self.opened, Some(number), "an effect leaves the host that was not opened");
        Ok(())
    }

    fn close(&mut self, number: u32, effect: Effect, _: Option<Ruling>, outcome: &Outcome) -> Result<(), Halt> {
        assert_eq!(self.opened.take(), Some(number), "an ask was closed that was not opened");
        self.entries.push(TapeEntry { effect, outcome: outcome.clone(), ruling: None });
        Ok(())
    }
}

impl Executor for Hands {
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone> {
        let number = permit.number();
        Ok(match permit.into_effect() {
            Effect::StorageGet { key } => Answer::Entry(self.storage.get(&key).cloned()),
            Effect::StorageSet { key, value } => {
                let version = self.storage.get(&key).map_or(1, |entry| entry.version + 1);
                self.storage.insert(key, Entry { value, version });
                Answer::Version(version)
            }
            Effect::StorageDelete { key } => Answer::Existed(self.storage.remove(&key).is_some()),
            Effect::StorageList { prefix, after, limit } => {
                let after = after.unwrap_or_default();
                let keys = self.storage.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
                let info = |(key, entry): (&String, &Entry)| KeyInfo {
                    key: key.clone(),
                    version: entry.version,
                    size: entry.value.0.len() as u64,
                };
                Answer::Keys(keys.take(limit as usize).map(info).collect())
            }
            Effect::LogWrite { .. } | Effect::ClockSleep { .. } => Answer::Nothing,
            Effect::ClockNow {} | Effect::ClockMonotonic {} => Answer::Time(Exact(1_000_000_007 * u64::from(number))),
            Effect::RandomBytes { len } => {
                let byte = |at: u32| (at.wrapping_mul(167).wrapping_add(number) >> 3) as u8;
                Answer::Random((0..len).map(byte).collect::<Vec<_>>().into())
            }
            Effect::EnvironmentRead {} => Answer::Environment(Vec::new()),
            Effect::ModelGenerate(prompt) if prompt.model == "rehearsal/echo" => {
                Answer::Completion(Completion { text: "echo".into(), input_tokens: 1, output_tokens: 1 })
            }
            Effect::ModelGenerate(prompt) => return Err(format!("there is no model `{}`", prompt.model).into()),
            Effect::ToolsList {} => Answer::Tools(vec![Tool {
                name: "mail.list".into(),
                description: "names the mails".into(),
                arguments: "{}".into(),
            }]),
            Effect::ToolsCall { .. } => Answer::Result("{}".into()),
            Effect::SecretUse { slot, .. } => Answer::Handle(format!("lazaret-secret:{slot}")),
            Effect::HttpFetch(_) => {
                Answer::Response(Response { status: 200, headers: Vec::new(), body: b"hello".to_vec().into() })
            }
            Effect::AgentsSend { .. } => {
                self.messages += 1;
                Answer::Sent(self.messages - 1)
            }
        })
    }
}
