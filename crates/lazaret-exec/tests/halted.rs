//! A permit that was given, and died before it was used.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test listens on a socket, and says what is wrong by failing"
)]

mod gate;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gate::{Gate, request};
use lazaret_exec::egress::Settings;
use lazaret_exec::{Egress, Outside, Web};
use lazaret_gate::halted::Halted;
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::trust::{Revoked, RevokedAgent};
use lazaret_gate::{AgentId, Effect, Outcome};

#[test]
fn a_permit_dies_with_its_agent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut gate = Gate::new(&[&format!("http:{origin}")]);
    let who: AgentId = "clerk".parse().unwrap();
    let gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&gone);
    let web = Web::new(Egress::new(Settings::default()), gate.grants.clone());
    let mut outside = Outside::new(std::env::temp_dir(), web).with_switches(move |effect| {
        let revoked = Revoked { by: "ana".into(), at: 1, reason: String::new() };
        let halted = RevokedAgent { agent: who.clone(), kind: effect.kind(), revoked };
        seen.load(Ordering::Relaxed).then_some(Halted::Revoked(halted))
    });
    // The agent is revoked in the last moment: when its permit was given and is put on disk.
    let effect = Effect::HttpFetch(request("POST", &format!("{origin}/")));
    let outcome = gate.ask(effect, &mut outside, || gone.store(true, Ordering::Relaxed));
    let Outcome::Refused(refusal) = outcome else { panic!("it was done: {outcome:?}") };
    assert_eq!((refusal.code, refusal.layer), (Code::Revoked, Layer::Executor), "{refusal}");
    assert!(refusal.reason.contains("permitted and not begun"), "{refusal}");
    assert!(listener.accept().is_err(), "nobody dialled");
}
