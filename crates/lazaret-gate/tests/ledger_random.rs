//! Accounts under random use: three accounts (two agents of one app) beside a plain model of them, through days, crashes
//! and changed caps.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use std::collections::{BTreeMap, BTreeSet};

use lazaret_gate::canonical::{decode, encode};
use lazaret_gate::ledger::limits::{RUN_DAYS, TURN_DAYS};
use lazaret_gate::ledger::{
    Account, Amounts, Ask, Caps, Crossing, Joint, Mark, Money, Period, Point, Unit, reserve_both,
};
use proptest::prelude::*;

/// What can happen.
#[derive(Clone, Debug)]
enum Step {
    Reserve { agent: usize, run: u8, turn: u8, amounts: Amounts },
    Settle { which: usize, actual: Amounts },
    Release { which: usize },
    Day { to: u32 },
    Crash,
    EndTurn { agent: usize, turn: u8 },
    EndRun { run: u8 },
    Cap { account: usize, caps: Box<Caps> },
}

fn amounts() -> impl Strategy<Value = Amounts> {
    let code = prop_oneof![4 => Just("EUR"), 1 => Just("USD")];
    let money = proptest::option::of((0..40u64, code));
    (0..60u64, 0..50u64, 0..3u64, 0..40u64, money).prop_map(|(fuel, memory, effects, bytes_out, money)| Amounts {
        fuel,
        memory,
        effects,
        bytes_out,
        money: money.map(|(micros, code)| Money { micros, currency: code.parse().unwrap() }),
        ..Amounts::default()
    })
}

fn caps() -> impl Strategy<Value = Caps> {
    let cap = |most: u64| proptest::option::weighted(0.6, 0..most);
    let limits = move |scale: u64| (cap(100 * scale), cap(60), cap(4 * scale), cap(50 * scale), cap(50 * scale));
    (limits(1), limits(3), limits(4), limits(9)).prop_map(|(turn, run, day, total)| {
        let mut caps = Caps { currency: Some("EUR".parse().unwrap()), ..Caps::default() };
        let periods = [(&mut caps.turn, turn), (&mut caps.run, run), (&mut caps.day, day), (&mut caps.total, total)];
        for (limits, (fuel, memory, effects, bytes_out, money)) in periods {
            (limits.fuel, limits.memory, limits.effects) = (fuel, memory, effects);
            (limits.bytes_out, limits.money) = (bytes_out, money);
        }
        caps
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..2usize, 0..3u8, 0..3u8, amounts())
            .prop_map(|(agent, run, turn, amounts)| Step::Reserve { agent, run, turn, amounts }),
        5 => (any::<usize>(), amounts()).prop_map(|(which, actual)| Step::Settle { which, actual }),
        3 => any::<usize>().prop_map(|which| Step::Release { which }),
        2 => prop_oneof![100..106u32, 100..300u32].prop_map(|to| Step::Day { to }),
        2 => Just(Step::Crash),
        1 => (0..2usize, 0..3u8).prop_map(|(agent, turn)| Step::EndTurn { agent, turn }),
        1 => (0..3u8).prop_map(|run| Step::EndRun { run }),
        1 => (0..3usize, caps()).prop_map(|(account, caps)| Step::Cap { account, caps: Box::new(caps) }),
    ];
    proptest::collection::vec(step, 1..60)
}

type Key = (Period, String, Unit);

/// An account, told as simply as possible: nothing is kept but sums, and reserved is added up anew each time.
#[derive(Default)]
struct Model {
    day: u32,
    spent: BTreeMap<Key, u64>,
    open: BTreeMap<u64, (Point, Amounts)>,
    /// When a turn or a run was last heard of.
    heard: BTreeMap<(Period, String), u32>,
}

const UNITS: [&str; 6] = ["fuel", "memory", "effects", "bytes_out", "money:EUR", "money:USD"];

fn units() -> impl Iterator<Item = Unit> {
    UNITS.into_iter().map(|name| name.parse().unwrap())
}

fn key_of(period: Period, at: &Point) -> String {
    match period {
        Period::Turn => at.turn.clone(),
        Period::Run => at.run.clone(),
        Period::Day => at.day.to_string(),
        Period::Total => String::new(),
    }
}

impl Model {
    fn reserved(&self, (period, key, unit): &Key) -> u64 {
        if *unit == Unit::Memory {
            return 0;
        }
        let touching = self.open.values().filter(|(at, _)| key_of(*period, at) == *key);
        touching.map(|(_, amounts)| amounts.of(*unit)).sum()
    }

    fn hear(&mut self, at: &Point) {
        for period in [Period::Turn, Period::Run] {
            self.heard.insert((period, key_of(period, at)), self.day);
        }
    }

    fn roll(&mut self, day: u32) {
        if day <= self.day {
            return;
        }
        self.day = day;
        self.spent.retain(|(period, key, _), _| *period != Period::Day || *key == day.to_string());
        let stale = |(period, key): &(Period, String), heard: u32| {
            let days = if *period == Period::Turn { TURN_DAYS } else { RUN_DAYS };
            heard + days <= day && self.open.values().all(|(at, _)| key_of(*period, at) != *key)
        };
        let gone: BTreeSet<_> = self.heard.iter().filter(|(what, heard)| stale(what, **heard)).collect();
        let gone: BTreeSet<(Period, String)> = gone.into_iter().map(|(what, _)| what.clone()).collect();
        gone.iter().for_each(|(period, key)| self.forget(*period, key));
    }

    fn forget(&mut self, period: Period, key: &str) {
        self.heard.remove(&(period, key.to_owned()));
        self.spent.retain(|(p, k, _), _| (*p, k.as_str()) != (period, key));
    }

    fn end(&mut self, period: Period, key: &str) -> bool {
        let over = self.open.values().all(|(at, _)| key_of(period, at) != key);
        if over {
            self.forget(period, key);
        }
        over
    }

    fn admits(&self, caps: &Caps, amounts: &Amounts, at: &Point) -> bool {
        let at = Point { day: self.day, ..at.clone() };
        let foreign = amounts.money.is_some_and(|money| money.micros > 0 && money.currency.to_string() != "EUR");
        let costs = amounts.money.is_some_and(|money| money.micros > 0);
        let has_money = Period::ALL.iter().any(|period| caps.limits(*period).money.is_some());
        let lines = || Period::ALL.into_iter().flat_map(|period| units().map(move |unit| (period, unit)));
        let fits = lines().all(|(period, unit)| {
            let (Some(cap), asked) = (caps.cap(period, unit), amounts.of(unit)) else { return true };
            let key = (period, key_of(period, &at), unit);
            let spent = self.spent.get(&key).copied().unwrap_or(0);
            match unit {
                Unit::Memory => asked <= cap && spent <= cap,
                Unit::Money(_) if asked == 0 => true,
                _ => spent + self.reserved(&key) + asked <= cap,
            }
        });
        !foreign && (!costs || has_money) && fits
    }

    fn reserve(&mut self, id: u64, at: &Point, amounts: &Amounts) {
        let at = Point { day: self.day, ..at.clone() };
        self.hear(&at);
        self.open.insert(id, (at, amounts.clone()));
    }

    fn settle(&mut self, id: u64, actual: &Amounts) {
        let (at, _) = self.open.remove(&id).unwrap();
        self.hear(&at);
        for period in Period::ALL {
            if period == Period::Day && at.day != self.day {
                continue;
            }
            for unit in units().filter(|unit| actual.of(*unit) > 0) {
                let spent = self.spent.entry((period, key_of(period, &at), unit)).or_default();
                *spent = if unit == Unit::Memory { (*spent).max(actual.of(unit)) } else { *spent + actual.of(unit) };
            }
        }
    }

    fn release(&mut self, id: u64) {
        let (at, _) = self.open.remove(&id).unwrap();
        self.hear(&at);
    }

    /// Both tell the same, and what they tell balances.
    fn agrees(&self, account: &Account, caps: &Caps) {
        let lines = account.balance(caps).unwrap();
        let mut told = BTreeMap::new();
        for line in &lines {
            if let Some(cap) = line.cap.filter(|_| line.unit != Unit::Memory) {
                let left = line.left().unwrap();
                assert_eq!(line.spent + line.reserved + left, cap + line.overdrawn(), "{line:?}");
                assert!(left == 0 || line.overdrawn() == 0, "{line:?}");
            }
            told.insert((line.scope.period, line.of.clone(), line.unit), (line.spent, line.reserved));
        }
        let mut keys: BTreeSet<Key> = self.spent.keys().chain(told.keys()).cloned().collect();
        for (at, _) in self.open.values() {
            let periods = Period::ALL.into_iter().filter(|period| *period != Period::Day || at.day == self.day);
            keys.extend(periods.flat_map(|period| units().map(move |unit| (period, key_of(period, at), unit))));
        }
        for key in keys {
            let ours = (self.spent.get(&key).copied().unwrap_or(0), self.reserved(&key));
            assert_eq!(told.get(&key).copied().unwrap_or((0, 0)), ours, "{key:?}");
        }
    }
}

/// Two agents and their app, with their models.
struct World {
    accounts: [Account; 3],
    caps: [Caps; 3],
    models: [Model; 3],
    /// Rights in hand: which agent, and the ids on both accounts with them.
    held: Vec<(usize, u64, u64, Joint)>,
    day: u32,
}

const APP: usize = 2;

impl World {
    fn new(caps: [Caps; 3]) -> Self {
        let names = ["agent:clerk", "agent:porter", "app:mail"];
        let accounts = names.map(|name| Account::new(name.parse().unwrap()));
        Self { accounts, caps, models: Default::default(), held: Vec::new(), day: 100 }
    }

    fn pair(&mut self, agent: usize) -> [(&mut Account, &Caps); 2] {
        let [clerk, porter, app] = &mut self.accounts;
        let account = if agent == 0 { clerk } else { porter };
        [(account, &self.caps[agent]), (app, &self.caps[APP])]
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Reserve { agent, run, turn, amounts } => self.reserve(agent, run, turn, amounts),
            Step::Settle { which, actual } => {
                let Some((agent, mine, apps, joint)) = self.take(which) else { return };
                let [first, second] = self.pair(agent);
                joint.settle(first, second, &actual).unwrap();
                self.models[agent].settle(mine, &actual);
                self.models[APP].settle(apps, &actual);
            }
            Step::Release { which } => {
                let Some((agent, mine, apps, joint)) = self.take(which) else { return };
                let [(account, _), (app, _)] = self.pair(agent);
                joint.release(account, app).unwrap();
                self.models[agent].release(mine);
                self.models[APP].release(apps);
            }
            Step::Day { to } => self.day = to,
            Step::Crash => self.crash(),
            Step::EndTurn { agent, turn } => {
                for index in [agent, APP] {
                    let key = format!("{agent}/{turn}");
                    assert_eq!(self.accounts[index].end_turn(&key), self.models[index].end(Period::Turn, &key));
                }
            }
            Step::EndRun { run } => {
                for (account, model) in self.accounts.iter_mut().zip(&mut self.models) {
                    let key = format!("run {run}");
                    assert_eq!(account.end_run(&key), model.end(Period::Run, &key));
                }
            }
            Step::Cap { account, caps } => self.caps[account] = *caps,
        }
    }

    fn reserve(&mut self, agent: usize, run: u8, turn: u8, amounts: Amounts) {
        let at = Point { day: self.day, run: format!("run {run}"), turn: format!("{agent}/{turn}") };
        let ask = Ask::from(amounts);
        self.models[agent].roll(at.day);
        let mine = self.models[agent].admits(&self.caps[agent], &ask.amounts, &at);
        if mine {
            // The app is only asked when the agent's own caps reach.
            self.models[APP].roll(at.day);
        }
        let both = mine && self.models[APP].admits(&self.caps[APP], &ask.amounts, &at);
        let [first, second] = self.pair(agent);
        match reserve_both(first, second, &ask, &at) {
            Ok(joint) => {
                assert!(both, "{ask:?} was let through");
                let (mine, apps) = (joint.agent.id(), joint.app.id());
                self.models[agent].reserve(mine, &at, &ask.amounts);
                self.models[APP].reserve(apps, &at, &ask.amounts);
                self.held.push((agent, mine, apps, joint));
            }
            Err(short) => assert!(!both, "{ask:?}: {short}"),
        }
    }

    fn take(&mut self, which: usize) -> Option<(usize, u64, u64, Joint)> {
        let count = self.held.len();
        (count > 0).then(|| self.held.swap_remove(which % count))
    }

    /// kill -9: only what was stored is left.
    fn crash(&mut self) {
        for account in &mut self.accounts {
            let stored = encode(account).unwrap();
            *account = decode(&stored).unwrap();
        }
        let lost = std::mem::take(&mut self.held);
        for (agent, mine, apps, _) in lost {
            let joint = Joint {
                agent: self.accounts[agent].reopen(mine).unwrap(),
                app: self.accounts[APP].reopen(apps).unwrap(),
            };
            self.held.push((agent, mine, apps, joint));
        }
    }

    fn agree(&self) {
        for ((account, caps), model) in self.accounts.iter().zip(&self.caps).zip(&self.models) {
            model.agrees(account, caps);
            let ours: Vec<u64> = model.open.keys().copied().collect();
            assert_eq!(account.open().iter().map(|hold| hold.id).collect::<Vec<_>>(), ours);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_always_balance_and_nothing_is_reserved_for_ever(
        caps in [caps(), caps(), caps()],
        steps in steps(),
        ends in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut world = World::new(caps);
        for step in steps {
            world.step(step);
            world.agree();
        }
        world.crash();
        for spent in ends {
            let actual = Amounts { fuel: 1, ..Amounts::default() };
            world.step(if spent { Step::Settle { which: 0, actual } } else { Step::Release { which: 0 } });
        }
        world.agree();
        for (account, caps) in world.accounts.iter().zip(&world.caps) {
            prop_assert!(account.open().is_empty());
            prop_assert!(account.balance(caps).unwrap().iter().all(|line| line.reserved == 0));
        }
    }

    /// With caps that stay, each mark of each line is reported when it is reached, and never again.
    #[test]
    fn each_mark_is_reported_once(
        caps in caps(),
        uses in proptest::collection::vec((amounts(), amounts(), 0..3u32, any::<bool>()), 1..80),
    ) {
        let mut account = Account::new("agent:clerk".parse().unwrap());
        let mut said = BTreeSet::new();
        let mut day = 100;
        let mut note = |crossings: &[Crossing]| {
            for Crossing { mark, line } in crossings {
                let key = (*mark, line.scope.period, line.of.clone(), line.unit);
                assert!(said.insert(key), "twice: {line:?}");
            }
            said.clone()
        };
        for (index, (asked, actual, pass, settle)) in uses.into_iter().enumerate() {
            day += pass / 2;
            let at = Point { day, run: "run".to_owned(), turn: format!("turn {index}") };
            let Ok(reservation) = account.reserve(&caps, &Ask::from(asked), &at) else { continue };
            note(reservation.crossings());
            let said = if settle {
                note(&account.settle(&caps, reservation, &actual).unwrap().crossings)
            } else {
                account.release(reservation).unwrap();
                continue;
            };
            for line in account.balance(&caps).unwrap() {
                let Some(cap) = line.cap.filter(|cap| *cap > 0) else { continue };
                for (mark, percent) in [(Mark::Near, 80), (Mark::Full, 100)] {
                    let key = (mark, line.scope.period, line.of.clone(), line.unit);
                    if line.spent * 100 >= cap * percent {
                        prop_assert!(said.contains(&key), "never: {line:?}");
                    }
                }
            }
        }
    }
}
