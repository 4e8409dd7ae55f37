//! A turn with rules of its own, whose asks are answered as a test says and kept as a tape.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::effect::Request;
use lazaret_gate::ledger::{Account, Caps, Holder, Point, Switches};
use lazaret_gate::outcome::Response;
use lazaret_gate::policy::{Facts, Who};
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::{Matter, Purse};
use lazaret_gate::{
    AgentId, Answer, Budget, Bytes, Caller, Circumstance, Circumstances, Digest, Effect, Executor, Grants, Halt,
    Journal, Labels, Meter, Outcome, Permit, Rulebook, Ruling, Undone, mediate,
};

pub(crate) fn rulebook(text: &str) -> Arc<Rulebook> {
    Arc::new(Rulebook::load(BTreeMap::from([("rules.cedar".to_owned(), text.to_owned())])).unwrap())
}

pub(crate) fn get(url: &str) -> Effect {
    let (method, url) = ("GET".to_owned(), url.to_owned());
    Effect::HttpFetch(Request { method, url, headers: Vec::new(), body: Bytes::default() })
}

pub(crate) fn body(len: usize) -> Result<Answer, Undone> {
    Ok(Answer::Response(Response { status: 200, headers: Vec::new(), body: Bytes(vec![b'x'; len]) }))
}

pub(crate) struct Turn {
    agent: AgentId,
    account: Account,
    grants: Grants,
    meter: Meter,
    pub(crate) caps: Caps,
    pub(crate) now: Now,
    pub(crate) labels: Option<Labels>,
    /// How each ask was judged and ended.
    pub(crate) tape: Vec<(Effect, Option<Ruling>, Outcome)>,
}

type Answers = Box<dyn FnMut(Matter<'_>, &Circumstance) -> Asked>;

/// The rules in force, and what becomes of a question.
pub(crate) struct Now {
    pub(crate) book: Arc<Rulebook>,
    pub(crate) answers: Answers,
    /// Rulebooks that are found by their digests besides.
    pub(crate) others: Vec<Arc<Rulebook>>,
}

impl Turn {
    pub(crate) fn new(rules: &str, grants: &[&str]) -> Self {
        let grants = Grants::new(grants.iter().map(|grant| grant.parse().unwrap()).collect());
        let agent: AgentId = "clerk".parse().unwrap();
        let account = Account::new(Holder::Agent(agent.clone()));
        let answers = Box::new(|_: Matter<'_>, _: &Circumstance| panic!("nobody can be asked"));
        let now = Now { book: rulebook(rules), answers, others: Vec::new() };
        let (labels, meter, caps) = (Some(Labels::new()), Meter::default(), Caps::default());
        Self { agent, account, grants, meter, caps, now, labels, tape: Vec::new() }
    }

    /// Asks, and is answered so if the gate lets it pass.
    pub(crate) fn ask(&mut self, effect: Effect, with: Result<Answer, Undone>) -> Outcome {
        let at = Point { day: 1, run: "r".into(), turn: "t".into() };
        let mut caller = Caller {
            agent: &self.agent,
            who: &Who::agent(&self.agent, None),
            grants: &self.grants,
            budget: &Budget::default(),
            meter: &mut self.meter,
            purse: Purse { caps: &self.caps, account: &mut self.account, at: &at },
            labels: self.labels.as_mut(),
        };
        let mut kept = Kept(&mut self.tape);
        mediate(&mut caller, effect, &mut self.now, &mut kept, &mut Given(with)).unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<&str> {
        self.labels.iter().flatten().map(String::as_str).collect()
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }
}

struct Given(Result<Answer, Undone>);

impl Executor for Given {
    fn run(&mut self, permit: Permit) -> Result<Answer, Undone> {
        drop(permit);
        self.0.clone()
    }
}

struct Kept<'a>(&'a mut Vec<(Effect, Option<Ruling>, Outcome)>);

impl Journal for Kept<'_> {
    fn open(&mut self, _: u32, _: &Effect) -> Result<(), Halt> {
        Ok(())
    }

    fn flush(&mut self, _: u32, _: &Ruling) -> Result<(), Halt> {
        Ok(())
    }

    fn close(&mut self, _: u32, effect: Effect, ruling: Option<Ruling>, outcome: &Outcome) -> Result<(), Halt> {
        self.0.push((effect, ruling, outcome.clone()));
        Ok(())
    }
}

impl Circumstances for Now {
    fn now(&mut self, _: u32) -> Result<Circumstance, Halt> {
        // A host that lies about what the agent has seen.
        let labels = ["made-up".to_owned()].into();
        let facts = Facts { run: "r".into(), tier: "A".into(), labels, ..Facts::default() };
        Ok(Circumstance { rulebook: self.book.digest(), facts, switches: Switches::default(), revoked: None })
    }

    fn rulebook(&mut self, digest: &Digest) -> Result<Arc<Rulebook>, Halt> {
        let other = self.others.iter().find(|book| book.digest() == *digest);
        Ok(other.unwrap_or(&self.book).clone())
    }

    fn ask(&mut self, _: u32, matter: Matter<'_>, under: &Circumstance) -> Result<Asked, Halt> {
        Ok((self.answers)(matter, under))
    }
}
