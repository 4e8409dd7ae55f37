//! The whole gate around one approval: what gets through is executed and counted.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::approval::{Decision, Draft, Now, Question, Requester, Scope, Verdict};
use lazaret_gate::ledger::{Account, Caps, Holder, Point, Switches};
use lazaret_gate::policy::{Facts, Who};
use lazaret_gate::ruling::{Answered, Asked};
use lazaret_gate::stages::{Matter, Purse};
use lazaret_gate::{
    AgentId, Answer, Budget, Bytes, Caller, Circumstance, Circumstances, Digest, Effect, Executor, Grants, Halt,
    Journal, Meter, Outcome, Permit, Rulebook, Ruling, Undone, mediate,
};

use crate::world::{PATIENCE, START, agent, at, key};

const RULE: &str =
    r#"@id("ask-first") @requireApproval("Somebody should look.") permit (principal, action, resource);"#;

const GRANTS: [&str; 8] =
    ["storage", "log", "clock", "random", "model:rehearsal/*", "tool:mail.*", "http:api.example.com", "agent:bob"];

/// A turn in which every ask is answered with the one approval that there is.
#[derive(Clone)]
pub(crate) struct Gate {
    agent: AgentId,
    meter: Meter,
    desk: Desk,
}

#[derive(Clone)]
struct Desk {
    book: Arc<Rulebook>,
    run: String,
    kept: Option<Asked>,
    at: Now,
    asked: usize,
}

impl Desk {
    /// Somebody asks for the first time, and a person says yes.
    fn approve(&self, matter: Matter<'_>, under: &Circumstance) -> Asked {
        let Matter { effect, risk, rule, reason } = matter;
        let draft = Draft {
            id: "q-1".into(),
            agent: agent("mailer"),
            run: self.run.clone(),
            effect: effect.clone(),
            policy: under.rulebook,
            rule: rule.into(),
            reason: reason.into(),
            risk: risk.clone(),
            labels: Vec::new(),
            nonce: "0123456789abcdef".into(),
            requester: Requester::Agent(agent("mailer")),
        };
        let question = Question::ask(draft, &at(0), PATIENCE).unwrap();
        let decision = Decision::sign(&question, Verdict::Approve, Scope::Once, START.wall_ms + 1, &key(1)).unwrap();
        let key = Bytes(key(1).verifying_key().as_bytes().to_vec());
        let answer = Some(Answered { decision, key, at: at(10) });
        Asked { question, answer, at: self.at.clone(), then: under.clone(), ignored: Vec::new() }
    }
}

impl Circumstances for Desk {
    fn now(&mut self, _: u32) -> Result<Circumstance, Halt> {
        let facts = Facts { run: self.run.clone(), tier: "A".into(), ..Facts::default() };
        Ok(Circumstance { rulebook: self.book.digest(), facts, switches: Switches::default(), revoked: None })
    }

    fn rulebook(&mut self, _: &Digest) -> Result<Arc<Rulebook>, Halt> {
        Ok(self.book.clone())
    }

    fn ask(&mut self, _: u32, matter: Matter<'_>, under: &Circumstance) -> Result<Asked, Halt> {
        self.asked += 1;
        let asked = self.kept.clone().unwrap_or_else(|| self.approve(matter, under));
        self.kept = Some(asked.clone());
        Ok(Asked { at: self.at.clone(), then: under.clone(), ..asked })
    }
}

struct Unwritten;

impl Journal for Unwritten {
    fn open(&mut self, _: u32, _: &Effect) -> Result<(), Halt> {
        Ok(())
    }

    fn flush(&mut self, _: u32, _: &Ruling) -> Result<(), Halt> {
        Ok(())
    }

    fn close(&mut self, _: u32, _: Effect, _: Option<Ruling>, _: &Outcome) -> Result<(), Halt> {
        Ok(())
    }
}

#[derive(Default)]
struct Counted(usize);

impl Executor for Counted {
    fn run(&mut self, _: Permit) -> Result<Answer, Undone> {
        self.0 += 1;
        Ok(Answer::Nothing)
    }
}

impl Gate {
    /// A person has said yes to this effect, once, and it has not run yet.
    pub(crate) fn approved(effect: Effect) -> Self {
        let book = Rulebook::load(BTreeMap::from([("rules.cedar".to_owned(), RULE.to_owned())])).unwrap();
        let desk = Desk { book: Arc::new(book), run: "run-7".into(), kept: None, at: at(20), asked: 0 };
        let mut asking = Self { agent: agent("mailer"), meter: Meter::default(), desk };
        assert!(asking.runs(effect, &at(20)), "what a person said yes to runs");
        asking.desk.asked = 0;
        Self { meter: Meter::default(), ..asking }
    }

    pub(crate) fn in_run(mut self, run: &str) -> Self {
        self.desk.run = run.into();
        self
    }

    pub(crate) fn of_agent(mut self, name: &str) -> Self {
        self.agent = agent(name);
        self
    }

    /// How often the approval was looked at.
    pub(crate) fn asked(&self) -> usize {
        self.desk.asked
    }

    /// Whether an ask is executed.
    pub(crate) fn runs(&mut self, effect: Effect, at: &Now) -> bool {
        self.desk.at = at.clone();
        // Only the approval is of interest here: no turn runs out.
        (self.meter.effects, self.meter.bytes) = (0, 0);
        let grants = Grants::new(GRANTS.iter().map(|grant| grant.parse().unwrap()).collect());
        let mut account = Account::new(Holder::Agent(self.agent.clone()));
        let point = Point { day: 1, run: self.desk.run.clone(), turn: "t".into() };
        let mut caller = Caller {
            agent: &self.agent,
            who: &Who::agent(&self.agent, None),
            grants: &grants,
            budget: &Budget::default(),
            meter: &mut self.meter,
            purse: Purse { caps: &Caps::default(), account: &mut account, at: &point },
            labels: None,
        };
        let mut executed = Counted::default();
        mediate(&mut caller, effect, &mut self.desk, &mut Unwritten, &mut executed).unwrap();
        executed.0 == 1
    }
}
