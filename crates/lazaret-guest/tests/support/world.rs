//! A world in memory for guests under test: the real gate, before a journal and an executor that only remember.

use std::any::Any;
use std::collections::BTreeMap;

use lazaret_gate::outcome::{Completion, Entry, KeyInfo, Response, Tool};
use lazaret_gate::{
    Answer, Budget, Caller, Effect, Exact, Executor, Grants, Halt, Journal, Meter, Outcome, Permit, TapeEntry, mediate,
};
use lazaret_guest::World;

/// The world of one turn.
pub(crate) struct Memory {
    grants: Grants,
    budget: Budget,
    meter: Meter,
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
        Self { grants, budget, meter: Meter::default(), journal: Tape::default(), hands: Hands::default() }
    }

    /// The tape of a world that came back from a turn.
    pub(crate) fn tape(world: Box<dyn World>) -> Vec<TapeEntry> {
        let world: Box<dyn Any> = world;
        world.downcast::<Self>().map(|world| world.journal.entries).expect("a turn hands its own world back")
    }
}

impl World for Memory {
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt> {
        let mut caller = Caller { grants: &self.grants, budget: &self.budget, meter: &mut self.meter };
        mediate(&mut caller, effect, &mut self.journal, &mut self.hands)
    }
}

impl Journal for Tape {
    fn open(&mut self, number: u32, _: &Effect) -> Result<(), Halt> {
        assert_eq!(self.opened.replace(number), None, "an ask was opened before the last one was closed");
        Ok(())
    }

    fn flush(&mut self, number: u32) -> Result<(), Halt> {
        assert_eq!(self.opened, Some(number), "an effect leaves the host that was not opened");
        Ok(())
    }

    fn close(&mut self, number: u32, effect: Effect, outcome: &Outcome) -> Result<(), Halt> {
        assert_eq!(self.opened.take(), Some(number), "an ask was closed that was not opened");
        self.entries.push(TapeEntry { effect, outcome: outcome.clone() });
        Ok(())
    }
}

impl Executor for Hands {
    fn run(&mut self, permit: Permit) -> Result<Answer, String> {
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
            Effect::ModelGenerate(prompt) => return Err(format!("there is no model `{}`", prompt.model)),
            Effect::ToolsList {} => Answer::Tools(vec![Tool {
                name: "mail.list".into(),
                description: "names the mails".into(),
                arguments: "{}".into(),
            }]),
            Effect::ToolsCall { .. } => Answer::Result("{}".into()),
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
