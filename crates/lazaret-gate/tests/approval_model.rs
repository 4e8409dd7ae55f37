//! The approval machine explored exhaustively: several executors, approvers of all sorts, a requester that changes the
//! effect, clocks that jump. The machine is the real one, the decisions are really signed.
//!
//! `cargo test -p lazaret-gate --test approval_model` prints the properties and how many states were looked at.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]
#![expect(clippy::disallowed_methods, reason = "a test prints its figures past the capture")]

#[path = "approval/world.rs"]
mod world;

use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;

use lazaret_gate::Effect;
use lazaret_gate::approval::{Event, Moment, Now, Question, Requester, Scope, State, Verdict, Verified, step};
use stateright::{Checker as _, Expectation, Model, Property};
use world::{PATIENCE, START, ask_by, attempt, decide, get, key, key_id, send};

const EXECUTORS: usize = 3;
/// The model's clocks count in halves of a question's patience.
const TICK: u64 = PATIENCE / 2;
/// The approver, the requester's own key, a revoked one, an unknown one.
const KEYS: [u8; 4] = [1, 2, 3, 9];
const REQUESTER: u8 = 2;

/// A mistake in what surrounds the machine, to see that the properties would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A new state is written without comparing the old one.
    BlindWrite,
    /// The clock is read when the executor starts, not when it commits.
    EarlyClock,
    /// What is executed is read anew after the check.
    LateArguments,
    /// The question doesn't say who asked.
    NoRequester,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Clock {
    wall: u8,
    monotonic: u8,
    boot: u8,
}

impl Clock {
    fn now(self) -> Now {
        let ms = |ticks: u8| u64::from(ticks) * TICK + 1;
        let moment =
            Moment { wall_ms: START.wall_ms + ms(self.wall), monotonic_ms: START.monotonic_ms + ms(self.monotonic) };
        Now { moment, boot: format!("boot-{}", self.boot + 1) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Executor {
    Idle,
    /// Has read the state and holds a copy of the effect.
    Ready {
        seen: State,
        effect: usize,
        clock: Option<Clock>,
    },
    /// Has had its turn.
    Done,
}

fn fingerprint(executor: &Executor) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    executor.hash(&mut hasher);
    hasher.finish()
}

/// Everything, and what an observer who knows nothing of the machine has seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    kept: State,
    clock: Clock,
    /// Sorted: they are all alike, and which of them did something makes no other world.
    executors: [Executor; EXECUTORS],
    /// Who said yes, to what, when.
    yes: Option<(u8, usize, Clock)>,
    /// Somebody said no, took it back, or it was declared expired.
    ended: bool,
    executed: u8,
    wrong: Wrong,
    /// An executor was refused because another one was faster.
    beaten: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Wrong {
    twice: bool,
    late: bool,
    changed: bool,
    by_requester: bool,
    without_yes: bool,
    after_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Wall(u8),
    Monotonic,
    Reboot,
    Decide {
        by: usize,
        verdict: usize,
        scope: usize,
    },
    Expire,
    Withdraw,
    Revoke,
    /// An executor takes up an effect: the one that was asked about, or what the agent has changed it to.
    Read {
        executor: usize,
        effect: usize,
    },
    Commit(usize),
}

/// The question, what can be asked instead, and every decision that the four keys can sign.
struct Approving {
    question: Question,
    effects: Vec<Effect>,
    /// For each effect, whether the wider scopes cover it.
    covered: Vec<bool>,
    scopes: Vec<Scope>,
    decisions: Vec<Option<Verified>>,
    fault: Fault,
}

const VERDICTS: [Verdict; 2] = [Verdict::Approve, Verdict::Deny];

impl Approving {
    fn new(effects: Vec<Effect>, covered: Vec<bool>, scopes: Vec<Scope>, fault: Fault) -> Self {
        let requester = match fault {
            Fault::NoRequester => Requester::Agent(world::agent("mailer")),
            _ => Requester::Key(key_id(&key(REQUESTER))),
        };
        let question = ask_by(effects[0].clone(), requester);
        let mut decisions = Vec::new();
        for by in KEYS {
            for verdict in VERDICTS {
                for scope in &scopes {
                    decisions.push(decide(&question, verdict, scope.clone(), by).ok());
                }
            }
        }
        Self { question, effects, covered, scopes, decisions, fault }
    }

    /// Of an effect with high risk that leaves the host: only once.
    fn once(fault: Fault) -> Self {
        Self::new(vec![send("ann@example.com"), send("eve@example.com")], vec![false, false], vec![Scope::Once], fault)
    }

    /// Of a read, with all scopes.
    fn wide(fault: Fault) -> Self {
        let url = |path: &str| get(&format!("https://api.example.com/{path}"));
        let pattern: lazaret_gate::approval::Pattern = "http.fetch GET https://api.example.com/v1/*".parse().unwrap();
        let scopes = vec![
            Scope::Once,
            Scope::Run { pattern: pattern.clone(), matched: 7 },
            Scope::Until { pattern, matched: 7, wall_ms: START.wall_ms + TICK },
        ];
        Self::new(vec![url("v1/a"), url("v1/b"), url("admin")], vec![true, true, false], scopes, fault)
    }

    fn step(&self, world: &World, event: &Event) -> Option<State> {
        step(&self.question, &world.kept, event, &world.clock.now()).ok()
    }

    /// What an observer says of an execution, from the rules as people know them and not from the machine's state.
    fn judge(&self, world: &World, effect: usize) -> Wrong {
        let mut wrong = world.wrong;
        let Some((by, scope, at)) = world.yes else {
            return Wrong { without_yes: true, ..wrong };
        };
        let (now, scope) = (world.clock, &self.scopes[scope]);
        wrong.twice |= *scope == Scope::Once && world.executed > 0;
        wrong.changed |= if *scope == Scope::Once { effect != 0 } else { !self.covered[effect] };
        wrong.after_end |= world.ended;
        wrong.by_requester |= by == REQUESTER;
        wrong.late |= now.boot != at.boot;
        wrong.late |= match scope {
            Scope::Once => now.wall >= 2 || now.monotonic >= 2,
            Scope::Run { .. } => false,
            // Until one tick: by the wall, or as long after the yes as was left then.
            Scope::Until { .. } => now.wall >= 1 || now.monotonic > at.monotonic,
        };
        wrong
    }

    fn commit(&self, world: &mut World, number: usize) {
        let done = std::mem::replace(&mut world.executors[number], Executor::Done);
        let Executor::Ready { seen, effect, clock } = done else { return };
        let clock = clock.unwrap_or(world.clock);
        let event = Event::Use(Box::new(attempt(self.effects[effect].clone())));
        let Ok(next) = step(&self.question, &seen, &event, &clock.now()) else { return };
        if seen != world.kept && self.fault != Fault::BlindWrite {
            world.beaten = true;
            return;
        }
        let effect = if self.fault == Fault::LateArguments { (effect + 1) % self.effects.len() } else { effect };
        world.wrong = self.judge(world, effect);
        world.kept = next;
        world.executed += 1;
    }
}

impl Model for Approving {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            kept: State::Pending,
            clock: Clock { wall: 0, monotonic: 0, boot: 0 },
            executors: [const { Executor::Idle }; EXECUTORS],
            yes: None,
            ended: false,
            executed: 0,
            wrong: Wrong::default(),
            beaten: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend((0..3).filter(|wall| *wall != world.clock.wall).map(Action::Wall));
        if world.clock.monotonic < 2 {
            actions.push(Action::Monotonic);
        }
        if world.clock.boot == 0 {
            actions.push(Action::Reboot);
        }
        for by in 0..KEYS.len() {
            for verdict in 0..VERDICTS.len() {
                actions.extend((0..self.scopes.len()).map(|scope| Action::Decide { by, verdict, scope }));
            }
        }
        actions.extend([Action::Expire, Action::Withdraw, Action::Revoke]);
        for (number, executor) in world.executors.iter().enumerate() {
            match executor {
                Executor::Idle => {
                    actions.extend((0..self.effects.len()).map(|effect| Action::Read { executor: number, effect }));
                }
                Executor::Ready { .. } => actions.push(Action::Commit(number)),
                Executor::Done => {}
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Wall(wall) => world.clock.wall = wall,
            Action::Monotonic => world.clock.monotonic += 1,
            Action::Reboot => world.clock = Clock { monotonic: 0, boot: 1, ..world.clock },
            Action::Decide { by, verdict, scope } => {
                let at = (by * VERDICTS.len() + verdict) * self.scopes.len() + scope;
                let verified = self.decisions[at].clone()?;
                world.kept = self.step(&world, &Event::Decide(verified))?;
                if VERDICTS[verdict] == Verdict::Approve {
                    world.yes = Some((KEYS[by], scope, world.clock));
                }
            }
            Action::Expire => world.kept = self.step(&world, &Event::Expire)?,
            Action::Withdraw => world.kept = self.step(&world, &Event::Withdraw)?,
            Action::Revoke => world.kept = self.step(&world, &Event::Revoke(key_id(&key(KEYS[0]))))?,
            Action::Read { executor, effect } => {
                let seen = world.kept.clone();
                let clock = (self.fault == Fault::EarlyClock).then_some(world.clock);
                // A machine that is not approved refuses at once; there is nothing to hold on to.
                if !matches!(seen, State::Approved { .. }) {
                    return None;
                }
                world.executors[executor] = Executor::Ready { seen, effect, clock };
            }
            Action::Commit(number) => self.commit(&mut world, number),
        }
        world.executors.sort_by_key(fingerprint);
        world.ended |= matches!(world.kept.name(), "denied" | "withdrawn" | "expired");
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("never two executions on one approval (once)", |_, world: &World| !world.wrong.twice),
            Property::always("never after expiry, by either clock or another boot", |_, world: &World| {
                !world.wrong.late
            }),
            Property::always("never on changed arguments", |_, world: &World| !world.wrong.changed),
            Property::always("never approved by the requester", |_, world: &World| !world.wrong.by_requester),
            Property::always("never without a yes", |_, world: &World| !world.wrong.without_yes),
            Property::always("never after a no, a withdrawal or a revocation", |_, world: &World| {
                !world.wrong.after_end
            }),
            Property::sometimes("an approved question can be used", |_, world: &World| world.executed > 0),
            Property::sometimes("two executors race and one is beaten", |_, world: &World| world.beaten),
            Property::sometimes("it can be denied", |_, world: &World| world.kept.name() == "denied"),
            Property::sometimes("it can expire", |_, world: &World| world.kept.name() == "expired"),
            Property::sometimes("it can be withdrawn", |_, world: &World| world.kept.name() == "withdrawn"),
        ]
    }
}

fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn explore(name: &str, model: Approving) {
    let properties = model.properties();
    let scopes = model.scopes.len();
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.is_done());
    say(&format!(
        "{name} ({scopes} scopes, {EXECUTORS} executors): {} states, {} transitions, depth {}, all explored",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    ));
    for property in properties {
        let kind = if property.expectation == Expectation::Sometimes { "reached" } else { "holds" };
        say(&format!("  {kind}: {}", property.name));
    }
}

#[test]
fn once() {
    explore("approval once", Approving::once(Fault::None));
}

#[test]
fn wider() {
    explore("approval with patterns", Approving::wide(Fault::None));
}

#[test]
fn wider_scopes_are_used_more_than_once() {
    let model = Approving::wide(Fault::None);
    let world = model.init_states().remove(0);
    let run = Action::Decide { by: 0, verdict: 0, scope: 1 };
    let mut world = model.next_state(&world, run).unwrap();
    for effect in [0, 1] {
        let executor = world.executors.iter().position(|executor| *executor == Executor::Idle).unwrap();
        world = model.next_state(&world, Action::Read { executor, effect }).unwrap();
        let ready = world.executors.iter().position(|executor| matches!(executor, Executor::Ready { .. })).unwrap();
        world = model.next_state(&world, Action::Commit(ready)).unwrap();
    }
    assert_eq!((world.executed, world.wrong), (2, Wrong::default()));
}

/// A check that finds nothing is only worth something if it would have found this.
#[test]
fn mistakes_are_found() {
    let twice = "never two executions on one approval (once)";
    for (fault, property) in [
        (Fault::BlindWrite, twice),
        (Fault::EarlyClock, "never after expiry, by either clock or another boot"),
        (Fault::LateArguments, "never on changed arguments"),
        (Fault::NoRequester, "never approved by the requester"),
    ] {
        let found = stateright::HasDiscoveries::AnyOf([property].into());
        let checker = Approving::once(fault).checker().finish_when(found).spawn_bfs().join();
        let Some(path) = checker.discovery(property) else { panic!("{fault:?} was not noticed") };
        say(&format!("  a keeper with {fault:?} breaks \"{property}\" in {} steps", path.into_actions().len()));
    }
}
