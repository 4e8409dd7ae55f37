//! Whoever stops agents is told so when they have stopped: no effect is executed after that, however many of them act.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test touches the disk and the clock, says what it saw, and one that can't go on has failed"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lazaret_gate::ledger::{Caps, Switch};
use lazaret_gate::record::{Cause, Ending};
use lazaret_gate::trust::{Score, TrustChange, TrustEvent};
use lazaret_gate::{AgentId, Answer, Budget, Grants, Outcome};
use lazaret_host::{Host, Keeper, NewAgent, Observed, Observer, Pace, Supervisor, change_trust};
use lazaret_link::{AgentRequest, KillRequest, Reply, Request, TrustRequest};

const AGENTS: usize = 48;

fn wall() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// How each agent's turn ended, and what times it was told.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<AgentId, (Ending, Vec<u64>)>>);

impl Observer for Seen {
    fn turned(&self, observed: Observed<'_>) {
        let record = &observed.turn.record;
        let told = record.tape.iter().filter_map(|entry| match &entry.outcome {
            Outcome::Done(Answer::Time(time)) => Some(time.0),
            _ => None,
        });
        let told = (record.ending.clone(), told.collect());
        self.0.lock().unwrap().insert(record.agent.clone(), told);
    }
}

/// Agents that ask what time it is, for ever.
fn crowd(root: &std::path::Path) -> (Keeper, Arc<Seen>, Vec<AgentId>) {
    let host = Arc::new(Host::open(root).unwrap());
    let component = wat::parse_str(include_str!("../benches/speed/busy.wat")).unwrap();
    let budget = Budget { fuel: 1 << 50, wall_ms: 600_000, effects: 100_000, bytes: 64 << 20, ..Budget::default() };
    let agents: Vec<AgentId> = (0..AGENTS).map(|number| format!("agent-{number}").parse().unwrap()).collect();
    for agent in &agents {
        let (agent, grants, budget) = (agent.clone(), Grants::basic(), budget.clone());
        host.create(NewAgent { agent, grants, budget, caps: Caps::default(), slots: Default::default() }, &component)
            .unwrap();
    }
    let seen = Arc::new(Seen::default());
    assert!(host.observe(seen.clone()));
    let supervisor = Supervisor::start(host.clone(), Pace::default()).unwrap();
    let keeper = Keeper::new(host).with_supervisor(supervisor);
    for agent in agents.iter().cloned() {
        let (content_type, body) = ("text/plain".to_owned(), b"c".to_vec().into());
        keeper.answer(Request::Agent(AgentRequest::Post { agent, content_type, body })).unwrap();
    }
    wait_until(&keeper, |awake| awake == AGENTS);
    // Until most of them have asked something.
    std::thread::sleep(Duration::from_millis(500));
    (keeper, seen, agents)
}

/// Waits until so many turns are under way. That of a stopped agent is until it is on record and the observer was told, though
/// the agent is `revoked` at once.
fn wait_until(keeper: &Keeper, enough: impl Fn(usize) -> bool) {
    let (supervisor, begun) = (keeper.supervisor().unwrap(), Instant::now());
    while !enough(supervisor.status().awake) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} turns are under way", supervisor.status().awake);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until only `others` take turns, and says how many effects these agents executed after a moment, and how many of them any.
fn after(
    (keeper, seen): (&Keeper, &Seen),
    agents: &[AgentId],
    others: usize,
    moment: u64,
    cause: Cause,
) -> (usize, usize) {
    wait_until(keeper, |awake| awake <= others);
    let turns = seen.0.lock().unwrap();
    let (mut late, mut acted) = (0, 0);
    for (agent, (ending, told)) in agents.iter().filter_map(|agent| Some((agent, turns.get(agent)?))) {
        assert!(matches!(ending, Ending::Stopped(stop) if stop.cause == cause), "{agent}: {ending:?}");
        late += told.iter().filter(|time| **time > moment).count();
        acted += usize::from(!told.is_empty());
    }
    (late, acted)
}

#[test]
fn nothing_is_executed_after_a_revocation_has_returned() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let (keeper, seen, agents) = crowd(&root);
    let (by, reason) = ("ana".to_owned(), "enough".to_owned());
    // One by one, as the keeper is asked to.
    let (some, rest) = agents.split_at(8);
    let mut acted = 0;
    for (agent, others) in some.iter().zip((0..AGENTS).rev()) {
        let request = TrustRequest::Revoke { agent: agent.clone(), by: by.clone(), reason: reason.clone() };
        keeper.answer(Request::Trust(request)).unwrap();
        let returned = wall();
        let (late, did) = after((&keeper, &seen), std::slice::from_ref(agent), others, returned, Cause::Revoked);
        assert_eq!(late, 0, "{agent}");
        acted += did;
    }
    // All with one command, as the command does it.
    let at = lazaret_host::now().moment.wall_ms;
    let event = |agent: &AgentId| TrustEvent {
        agent: agent.clone(),
        change: TrustChange::Revoked,
        score: Score::NONE,
        by: by.clone(),
        at,
        reason: reason.clone(),
        turn: None,
    };
    let events: Vec<_> = rest.iter().map(event).collect();
    change_trust(&root, keeper.host().store(), &events).unwrap();
    keeper.answer(Request::Record).unwrap();
    let returned = wall();
    let (late, did) = after((&keeper, &seen), rest, 0, returned, Cause::Revoked);
    assert_eq!(late, 0);
    assert!((acted + did) * 2 > AGENTS, "only {acted} and {did} did anything that could be stopped");
    // All of it is on record, although the file tells only of the last events.
    for agent in &agents {
        let told = lazaret_host::events_of(keeper.host().store(), agent).unwrap();
        assert_eq!(told.iter().map(|event| event.change).collect::<Vec<_>>(), [TrustChange::Revoked], "{agent}");
    }
}

#[test]
fn nothing_is_executed_after_a_kill_has_returned() {
    let dir = tempfile::tempdir().unwrap();
    let (keeper, seen, agents) = crowd(&dir.path().join("root"));
    let kill = KillRequest { switch: Switch::All, lift: false, by: "ana".into(), reason: "enough".into() };
    keeper.answer(Request::Kill(kill)).unwrap();
    let returned = wall();
    let (late, acted) = after((&keeper, &seen), &agents, 0, returned, Cause::Killed);
    assert_eq!(late, 0);
    assert!(acted * 2 > AGENTS, "only {acted} did anything that could be stopped");
}

#[test]
fn a_short_turn_is_taken_among_many_that_loop_and_they_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (keeper, seen, agents) = crowd(&dir.path().join("root"));
    let component = wat::parse_str(include_str!("../benches/speed/asker.wat")).unwrap();
    let short: AgentId = "short".parse().unwrap();
    let (grants, budget, caps) = (Grants::basic(), Budget::default(), Caps::default());
    let new = NewAgent { agent: short.clone(), grants, budget, caps, slots: Default::default() };
    keeper.host().create(new, &component).unwrap();
    let mut answered = 0;
    for asks in 1..=8_u32 {
        let (agent, content_type) = (short.clone(), "text/plain".to_owned());
        let send = AgentRequest::Send { agent, content_type, body: asks.to_le_bytes().to_vec().into() };
        let Ok(Reply::Taken(taken)) = keeper.answer(Request::Agent(send)) else { panic!("no answer to {asks}") };
        assert!(matches!(taken.record.ending, Ending::Replied(_)), "{:?}", taken.record.ending);
        answered = wall();
    }
    assert_eq!(keeper.supervisor().unwrap().status().awake, AGENTS, "some had to be stopped for it");
    // Until each of them has had another stretch.
    std::thread::sleep(Duration::from_secs(2));
    let kill = KillRequest { switch: Switch::All, lift: false, by: "ana".into(), reason: "enough".into() };
    keeper.answer(Request::Kill(kill)).unwrap();
    let (_, acted) = after((&keeper, &seen), &agents, 0, wall(), Cause::Killed);
    assert_eq!(acted, AGENTS, "everybody had a stretch");
    let turns = seen.0.lock().unwrap();
    let on = agents.iter().filter(|agent| turns[*agent].1.iter().any(|time| *time > answered)).count();
    assert_eq!(on, AGENTS, "and went on after it");
}
