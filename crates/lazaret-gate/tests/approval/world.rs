//! Keys, clocks and questions for the approval tests.

#![allow(dead_code, reason = "each test file uses its part")]
#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use ed25519_dalek::SigningKey;
use lazaret_gate::approval::{
    Approver, Approvers, Attempt, BadDecision, Decision, Draft, Moment, Now, Question, Requester, Scope, Verdict,
    Verified,
};
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::risk::{Around, Known, Risk, Table};
use lazaret_gate::{AgentId, Digest, Effect};

pub(crate) const PATIENCE: u64 = 120_000;
pub(crate) const START: Moment = Moment { wall_ms: 1_781_234_567_890, monotonic_ms: 5_000_000 };

pub(crate) fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

pub(crate) fn key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

pub(crate) fn key_id(key: &SigningKey) -> Digest {
    Approver::new(key.verifying_key()).id()
}

/// The keys 1 and 2 are approvers, 3 was revoked, 4 is held by the agent that asks; nobody knows the others.
pub(crate) fn approvers() -> Approvers {
    let mut all: Approvers = [1, 2, 3].map(|number| Approver::new(key(number).verifying_key())).into_iter().collect();
    all.add(Approver::of_agent(key(4).verifying_key(), agent("mailer")));
    assert!(all.revoke(&key_id(&key(3))));
    all
}

pub(crate) fn now(wall: i64, monotonic: i64) -> Now {
    let moment = Moment {
        wall_ms: START.wall_ms.checked_add_signed(wall).unwrap(),
        monotonic_ms: START.monotonic_ms.checked_add_signed(monotonic).unwrap(),
    };
    Now { moment, boot: "boot-1".into() }
}

pub(crate) fn at(ms: i64) -> Now {
    now(ms, ms)
}

pub(crate) fn risk(effect: &Effect) -> Risk {
    Table::shipped().weigh(effect, &Around { host: Known::Exact, scratch: None })
}

pub(crate) fn get(url: &str) -> Effect {
    let headers = vec![Header { name: "accept".into(), value: "text/plain".into() }];
    Effect::HttpFetch(Request { method: "GET".into(), url: url.into(), headers, body: "".into() })
}

pub(crate) fn send(to: &str) -> Effect {
    Effect::ToolsCall { name: "mail.send".into(), arguments: format!("{{\"to\":\"{to}\"}}") }
}

pub(crate) fn ask(effect: Effect) -> Question {
    ask_by(effect, Requester::Agent(agent("mailer")))
}

pub(crate) fn ask_by(effect: Effect, requester: Requester) -> Question {
    let draft = Draft {
        id: "q-1".into(),
        agent: agent("mailer"),
        run: "run-7".into(),
        risk: risk(&effect),
        effect,
        policy: Digest::of(b"policy"),
        rule: "ask-first".into(),
        reason: "Somebody should look at it.".into(),
        labels: vec!["untrusted".into()],
        nonce: "0123456789abcdef".into(),
        requester,
    };
    Question::ask(draft, &at(0), PATIENCE).unwrap()
}

pub(crate) fn attempt(effect: Effect) -> Attempt {
    Attempt {
        agent: agent("mailer"),
        run: "run-7".into(),
        risk: risk(&effect),
        effect,
        policy: Digest::of(b"policy"),
        labels: Default::default(),
    }
}

pub(crate) fn decide(question: &Question, verdict: Verdict, scope: Scope, by: u8) -> Result<Verified, BadDecision> {
    let signed = Decision::sign(question, verdict, scope, START.wall_ms + 1, &key(by))?;
    signed.verify(question, &approvers())
}

pub(crate) fn yes(question: &Question) -> Verified {
    decide(question, Verdict::Approve, Scope::Once, 1).unwrap()
}
