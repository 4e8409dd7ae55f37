//! A permit that was given, and died before it was used.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test listens on a socket, and says what is wrong by failing"
)]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lazaret_exec::Outside;
use lazaret_gate::effect::Request;
use lazaret_gate::halted::Halted;
use lazaret_gate::ledger::{Account, Caps, Holder, Point, Switches};
use lazaret_gate::policy::{Facts, Who, preset};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::ruling::Asked;
use lazaret_gate::stages::{Matter, Purse};
use lazaret_gate::trust::{Revoked, RevokedAgent};
use lazaret_gate::{
    AgentId, Budget, Bytes, Caller, Circumstance, Circumstances, Digest, Effect, Grants, Halt, Journal, Meter, Outcome,
    Rulebook, Ruling, mediate,
};

struct Calm(Arc<Rulebook>);

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

/// The agent is revoked in the last moment: when its permit was given and is put on disk.
struct LastMoment(Arc<AtomicBool>);

impl Journal for LastMoment {
    fn open(&mut self, _: u32, _: &Effect) -> Result<(), Halt> {
        Ok(())
    }

    fn flush(&mut self, _: u32, _: &Ruling) -> Result<(), Halt> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self, _: u32, _: Effect, _: Option<Ruling>, _: &Outcome) -> Result<(), Halt> {
        Ok(())
    }
}

#[test]
fn a_permit_dies_with_its_agent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (name, text) = preset("open").unwrap();
    let book = Arc::new(Rulebook::load(BTreeMap::from([(name.to_owned(), text.to_owned())])).unwrap());
    let agent: AgentId = "clerk".parse().unwrap();
    let (gone, who) = (Arc::new(AtomicBool::new(false)), agent.clone());
    let seen = Arc::clone(&gone);
    let mut outside = Outside::new(std::env::temp_dir()).with_switches(move |effect| {
        let revoked = Revoked { by: "ana".into(), at: 1, reason: String::new() };
        let halted = RevokedAgent { agent: who.clone(), kind: effect.kind(), revoked };
        seen.load(Ordering::Relaxed).then_some(Halted::Revoked(halted))
    });
    let grants = Grants::new(vec![format!("http:{}", url.trim_end_matches('/')).parse().unwrap()]);
    let (mut meter, mut account) = (Meter::default(), Account::new(Holder::Agent(agent.clone())));
    let mut caller = Caller {
        agent: &agent,
        who: &Who::agent(&agent, None),
        grants: &grants,
        budget: &Budget::default(),
        meter: &mut meter,
        purse: Purse {
            caps: &Caps::default(),
            account: &mut account,
            at: &Point { day: 1, run: "r".into(), turn: "t".into() },
        },
    };
    let request = Request { method: "POST".into(), url, headers: Vec::new(), body: Bytes(b"x".to_vec()) };
    let mut journal = LastMoment(gone);
    let effect = Effect::HttpFetch(request);
    let outcome = mediate(&mut caller, effect, &mut Calm(book), &mut journal, &mut outside).unwrap();
    let Outcome::Refused(refusal) = outcome else { panic!("it was done: {outcome:?}") };
    assert_eq!((refusal.code, refusal.layer), (Code::Revoked, Layer::Executor), "{refusal}");
    assert!(refusal.reason.contains("permitted and not begun"), "{refusal}");
    assert!(listener.accept().is_err(), "nobody dialled");
}
