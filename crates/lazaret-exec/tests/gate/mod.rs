//! A gate around an executor: an agent with some grants asks for something, in calm circumstances.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::effect::Request;
use lazaret_gate::ledger::{Account, Caps, Holder, Point, Switches};
use lazaret_gate::policy::{Facts, Who, preset};
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::{Matter, Purse};
use lazaret_gate::{
    AgentId, Budget, Bytes, Caller, Circumstance, Circumstances, Digest, Effect, Executor, Grants, Halt, Journal,
    Meter, Outcome, Rulebook, Ruling, mediate,
};

pub(crate) struct Calm(Arc<Rulebook>);

impl Circumstances for Calm {
    fn now(&mut self, _: u32) -> Result<Circumstance, Halt> {
        let facts = Facts { run: "r".into(), tier: "A".into(), ..Facts::default() };
        Ok(Circumstance { rulebook: self.0.digest(), facts, switches: Switches::default(), revoked: None })
    }

    fn rulebook(&mut self, _: &Digest) -> Result<Arc<Rulebook>, Halt> {
        Ok(self.0.clone())
    }

    fn ask(&mut self, _: u32, matter: Matter<'_>, _: &Circumstance) -> Result<Asked, Halt> {
        panic!("nobody is asked: {}", matter.reason)
    }
}

/// Told of each permit when it is put on disk, right before it is used.
pub(crate) struct OnFlush<F>(F);

impl<F: FnMut()> Journal for OnFlush<F> {
    fn open(&mut self, _: u32, _: &Effect) -> Result<(), Halt> {
        Ok(())
    }

    fn flush(&mut self, _: u32, _: &Ruling) -> Result<(), Halt> {
        (self.0)();
        Ok(())
    }

    fn close(&mut self, _: u32, _: Effect, _: Option<Ruling>, _: &Outcome) -> Result<(), Halt> {
        Ok(())
    }
}

/// An agent, under the rules of the preset `open`.
pub(crate) struct Gate {
    pub(crate) grants: Grants,
    calm: Calm,
}

impl Gate {
    pub(crate) fn new(grants: &[&str]) -> Self {
        let (name, text) = preset("open").unwrap();
        let book = Rulebook::load(BTreeMap::from([(name.to_owned(), text.to_owned())])).unwrap();
        let grants = Grants::new(grants.iter().map(|grant| grant.parse().unwrap()).collect());
        Self { grants, calm: Calm(Arc::new(book)) }
    }

    /// One ask, the whole way. `flushed` is called when the permit is there and not yet used.
    pub(crate) fn ask(&mut self, effect: Effect, executor: &mut dyn Executor, flushed: impl FnMut()) -> Outcome {
        let agent: AgentId = "clerk".parse().unwrap();
        let (mut meter, mut account) = (Meter::default(), Account::new(Holder::Agent(agent.clone())));
        let mut caller = Caller {
            agent: &agent,
            who: &Who::agent(&agent, None),
            grants: &self.grants,
            budget: &Budget::default(),
            meter: &mut meter,
            purse: Purse {
                caps: &Caps::default(),
                account: &mut account,
                at: &Point { day: 1, run: "r".into(), turn: "t".into() },
            },
            labels: None,
        };
        mediate(&mut caller, effect, &mut self.calm, &mut OnFlush(flushed), executor).unwrap()
    }
}

pub(crate) fn request(method: &str, url: &str) -> Request {
    Request { method: method.into(), url: url.into(), headers: Vec::new(), body: Bytes::default() }
}
