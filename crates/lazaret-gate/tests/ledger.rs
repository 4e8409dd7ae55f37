//! Accounts, by example: what is refused and how it is said, marks, days, crashes, two accounts at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use lazaret_gate::canonical::{decode, encode};
use lazaret_gate::ledger::limits::{MAX_AMOUNT, MAX_OPEN};
use lazaret_gate::ledger::{
    Account, Amounts, Ask, AtCap, Caps, Mark, Money, Period, Point, Reservation, Short, Unit, reserve_both,
};

fn account(holder: &str) -> Account {
    Account::new(holder.parse().unwrap())
}

/// `day.effects=3 currency=EUR day.money=5000000`, as on the command line.
fn caps(text: &str) -> Caps {
    let mut caps = Caps::default();
    for pair in text.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        caps.set(key, value).unwrap();
    }
    caps
}

/// `effects=1 EUR=250000 rail=card`.
fn ask(text: &str) -> Ask {
    let mut ask = Ask::default();
    for pair in text.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        let amount = || value.parse::<u64>().unwrap();
        match key {
            "fuel" => ask.amounts.fuel = amount(),
            "memory" => ask.amounts.memory = amount(),
            "wall_ms" => ask.amounts.wall_ms = amount(),
            "effects" => ask.amounts.effects = amount(),
            "bytes_out" => ask.amounts.bytes_out = amount(),
            "output_bytes" => ask.amounts.output_bytes = amount(),
            "rail" => ask.rail = Some(value.parse().unwrap()),
            currency => ask.amounts.money = Some(Money { micros: amount(), currency: currency.parse().unwrap() }),
        }
    }
    ask
}

fn at(day: u32, run: &str, turn: &str) -> Point {
    Point { day, run: run.to_owned(), turn: turn.to_owned() }
}

/// Reserves and settles the same.
fn spend(account: &mut Account, caps: &Caps, what: &str, point: &Point) -> Result<(), Short> {
    let ask = ask(what);
    let reservation = account.reserve(caps, &ask, point)?;
    account.settle(caps, reservation, &ask.amounts).unwrap();
    Ok(())
}

/// The code and the text, or nothing if it passes.
type Refused = Option<(&'static str, &'static str)>;

/// Caps; what was spent; what is held; what is asked; what comes of it.
const CASES: &[(&str, &str, &str, &str, Refused)] = &[
    ("", "effects=5", "", "fuel=1 memory=1 wall_ms=1 effects=1 bytes_out=1 output_bytes=1", None),
    ("day.effects=10", "effects=5", "effects=4", "effects=1", None),
    (
        "day.effects=10",
        "effects=5",
        "effects=4",
        "effects=2",
        Some((
            "budget-exceeded",
            "asked for 2 effects, but agent:clerk has 10 effects per day: 5 spent, 4 reserved, 1 left; `lazaret budget set clerk day.effects=N` changes the cap",
        )),
    ),
    ("turn.effects=0", "", "", "fuel=1", None),
    (
        "total.fuel=100",
        "fuel=100",
        "",
        "fuel=1",
        Some((
            "budget-exceeded",
            "asked for 1 fuel, but agent:clerk has 100 fuel in total: 100 spent, 0 reserved, 0 left; `lazaret budget set clerk total.fuel=N` changes the cap",
        )),
    ),
    ("run.memory=1000", "memory=1000", "memory=1000", "memory=1000", None),
    (
        "run.memory=1000",
        "memory=900",
        "",
        "memory=1001",
        Some((
            "budget-exceeded",
            "asked for 1001 bytes of memory, but agent:clerk has 1000 bytes of memory per run at most: 900 used so far; `lazaret budget set clerk run.memory=N` changes the cap",
        )),
    ),
    (
        "turn.wall_ms=50",
        "",
        "",
        "wall_ms=51",
        Some((
            "budget-exceeded",
            "asked for 51 ms of wall time, but agent:clerk has 50 ms of wall time per turn: 0 spent, 0 reserved, 50 left; `lazaret budget set clerk \
             turn.wall_ms=N` changes the cap",
        )),
    ),
    // Without money there is none, whatever else is allowed.
    (
        "",
        "",
        "",
        "effects=1 EUR=1",
        Some((
            "no-budget",
            "asked for 0.000001 EUR, but agent:clerk has no budget of money; `lazaret budget set clerk \
             currency=EUR day.money=MICROS` gives it one",
        )),
    ),
    ("currency=EUR per_action=5 rails=card", "", "", "EUR=1", Some(("no-budget", ""))),
    (
        "currency=EUR day.money=5000000",
        "",
        "",
        "USD=1250000",
        Some((
            "no-budget",
            "asked for 1.25 USD, but agent:clerk has a budget in EUR only; `lazaret budget set clerk \
             currency=USD day.money=MICROS` gives it one",
        )),
    ),
    ("", "", "", "effects=1 EUR=0", None),
    ("currency=EUR day.money=5000000", "EUR=4000000", "EUR=600000", "EUR=400000", None),
    (
        "currency=EUR day.money=5000000",
        "EUR=4000000",
        "EUR=600000",
        "EUR=400001",
        Some((
            "budget-exceeded",
            "asked for 0.400001 EUR, but agent:clerk has 5.00 EUR per day: 4.00 EUR spent, 0.60 EUR reserved, 0.40 EUR \
             left; `lazaret budget set clerk day.money=N` changes the cap",
        )),
    ),
    (
        "currency=EUR day.money=5000000 per_action=1000000",
        "",
        "",
        "EUR=1000001",
        Some((
            "per-action-limit",
            "asked for 1.000001 EUR at once, but one action of agent:clerk may cost at most 1.00 EUR; `lazaret \
             budget set clerk per_action=MICROS` changes the limit",
        )),
    ),
    ("currency=EUR day.money=5000000 rails=card,transfer", "", "", "EUR=1 rail=transfer", None),
    (
        "currency=EUR day.money=5000000 rails=card,transfer",
        "",
        "",
        "EUR=1 rail=cheque",
        Some((
            "rail-not-allowed",
            "asked to move money by `cheque`, but agent:clerk is allowed card, transfer only; `lazaret budget set \
             clerk rails=card,transfer,cheque` allows it",
        )),
    ),
    (
        "currency=EUR day.money=5000000",
        "",
        "",
        "EUR=0 rail=card",
        Some((
            "rail-not-allowed",
            "asked to move money by `card`, but agent:clerk is allowed no rail; `lazaret budget set clerk rails=card` \
             allows it",
        )),
    ),
    ("", "", "", "EUR=0 rail=card", Some(("no-budget", ""))),
];

#[test]
fn asks_against_caps() {
    for (number, (allowed, spent, held, asked, refused)) in CASES.iter().enumerate() {
        let (caps, mut account, point) = (caps(allowed), account("agent:clerk"), at(5, "run", "turn"));
        let case = format!("case {number}: {asked} against {allowed}");
        spend(&mut account, &caps, spent, &point).unwrap();
        let open = account.reserve(&caps, &ask(held), &point).unwrap();
        let before = account.clone();
        let answer = account.reserve(&caps, &ask(asked), &point);
        match (answer, refused) {
            (Ok(reservation), None) => account.release(reservation).unwrap(),
            (Err(short), Some((code, text))) => {
                assert_eq!(short.code(), *code, "{case}: {short}");
                assert!(text.is_empty() || short.to_string() == *text, "{case}: {short}");
                assert_eq!(account, before, "{case}: a refusal books nothing");
            }
            (answer, _) => panic!("{case}: {answer:?}"),
        }
        account.release(open).unwrap();
        account.balance(&caps).unwrap();
    }
}

#[test]
fn at_a_cap_a_person_is_asked_or_not() {
    let point = at(5, "run", "turn");
    for (word, expected) in [("pause", AtCap::Pause), ("refuse", AtCap::Refuse)] {
        let text = format!("at_cap={word} day.effects=1 currency=EUR total.money=100 per_action=10");
        let caps = caps(&text);
        for (asked, larger) in [("effects=2", "day.effects=2"), ("EUR=11", "per_action=11")] {
            let short = account("agent:clerk").reserve(&caps, &ask(asked), &point).unwrap_err();
            assert_eq!(short.at_cap(), expected, "{short}");
            let (key, value) = larger.split_once('=').unwrap();
            let mut by_hand = caps.clone();
            by_hand.set(key, value).unwrap();
            let raised = caps.raised(&short).unwrap();
            assert_eq!(raised, by_hand);
            let reservation = account("agent:clerk").reserve(&raised, &ask(asked), &point);
            assert!(reservation.is_ok());
        }
        let short = account("agent:clerk").reserve(&caps, &ask("EUR=1 rail=card"), &point).unwrap_err();
        assert_eq!(short.at_cap(), AtCap::Refuse);
        assert_eq!(caps.raised(&short), None);
    }
    assert_eq!(Caps::default().at_cap, AtCap::Pause);
}

#[test]
fn marks_are_reported_once() {
    let caps = caps("day.effects=10 total.fuel=100 currency=EUR day.money=10");
    let mut account = account("agent:clerk");
    let mut said = Vec::new();
    let mut step = |account: &mut Account, day, what: &str| {
        let ask = ask(what);
        let reservation = account.reserve(&caps, &ask, &at(day, "run", "turn")).unwrap();
        said.extend(reservation.crossings().iter().map(|crossing| format!("reserve: {crossing}")));
        let settled = account.settle(&caps, reservation, &ask.amounts).unwrap();
        said.extend(settled.crossings.iter().map(|crossing| format!("settle: {crossing}")));
    };
    for _ in 0..10 {
        step(&mut account, 5, "effects=1 fuel=8 EUR=1");
    }
    step(&mut account, 6, "effects=8");
    let near = |what: &str| format!("agent:clerk has used 80 % of its {what}");
    assert_eq!(
        said,
        [
            format!("reserve: {}", near("10 effects per day: 8 effects so far")),
            format!("reserve: {}", near("0.00001 EUR per day: 0.000008 EUR so far")),
            "reserve: agent:clerk has used 100 % of its 10 effects per day: 10 effects so far".to_owned(),
            "reserve: agent:clerk has used 100 % of its 0.00001 EUR per day: 0.00001 EUR so far".to_owned(),
            format!("settle: {}", near("100 fuel in total: 80 fuel so far")),
            format!("reserve: {}", near("10 effects per day: 8 effects so far")),
        ]
    );
}

#[test]
fn one_step_can_reach_both_marks_and_a_raised_cap_has_its_own() {
    let mut account = account("app:mail");
    let point = at(5, "run", "turn");
    let marks = |reservation: &Reservation| reservation.crossings().iter().map(|c| c.mark).collect::<Vec<_>>();
    let all = account.reserve(&caps("run.effects=4"), &ask("effects=4"), &point).unwrap();
    assert_eq!(marks(&all), [Mark::Near, Mark::Full]);
    let more = account.reserve(&caps("run.effects=10"), &ask("effects=4"), &point).unwrap();
    assert_eq!(marks(&more), [Mark::Near]);
    let last = account.reserve(&caps("run.effects=10"), &ask("effects=2"), &point).unwrap();
    assert_eq!(marks(&last), [Mark::Full]);
    for reservation in [all, more, last] {
        account.release(reservation).unwrap();
    }
}

#[test]
fn midnight_gives_a_new_day_and_only_that() {
    let caps = caps("turn.effects=9 run.effects=9 day.effects=3 total.effects=7");
    let mut account = account("agent:clerk");
    spend(&mut account, &caps, "effects=2", &at(5, "run", "turn")).unwrap();
    let over_midnight = account.reserve(&caps, &ask("effects=1"), &at(5, "run", "turn")).unwrap();
    assert!(spend(&mut account, &caps, "effects=1", &at(5, "run", "turn")).is_err());
    // The new day has its whole cap, and what is open stays on its own day.
    let three = account.reserve(&caps, &ask("effects=3"), &at(6, "run", "turn")).unwrap();
    account.settle(&caps, over_midnight, &ask("effects=1").amounts).unwrap();
    assert_eq!(line(&account, &caps, Period::Day, Unit::Effects), (0, 3));
    assert_eq!(line(&account, &caps, Period::Total, Unit::Effects), (3, 3));
    account.settle(&caps, three, &ask("effects=3").amounts).unwrap();
    // A clock that goes back gives no second budget.
    let short = spend(&mut account, &caps, "effects=1", &at(5, "run", "turn")).unwrap_err();
    assert!(matches!(short, Short::BudgetExceeded { spent: 3, cap: 3, .. }), "{short}");
    spend(&mut account, &caps, "effects=1", &at(7, "run", "turn")).unwrap();
    let short = spend(&mut account, &caps, "effects=1", &at(8, "run", "turn")).unwrap_err();
    assert!(matches!(&short, Short::BudgetExceeded { scope, .. } if scope.period == Period::Total), "{short}");
}

/// Spent and reserved.
fn line(account: &Account, caps: &Caps, period: Period, unit: Unit) -> (u64, u64) {
    let lines = account.balance(caps).unwrap();
    let line = lines.iter().find(|line| line.scope.period == period && line.unit == unit);
    line.map_or((0, 0), |line| (line.spent, line.reserved))
}

#[test]
fn a_wrong_clock_can_be_set_right_without_gain() {
    let caps = caps("day.effects=3");
    let mut account = account("agent:clerk");
    let early = account.reserve(&caps, &ask("effects=1"), &at(6, "run", "a")).unwrap();
    let late = account.reserve(&caps, &ask("effects=1"), &at(90_000, "run", "b")).unwrap();
    spend(&mut account, &caps, "effects=1", &at(6, "run", "c")).unwrap();
    account.set_back(6);
    assert_eq!((account.day(), line(&account, &caps, Period::Day, Unit::Effects)), (6, (1, 1)));
    account.set_back(7);
    assert_eq!(account.day(), 6, "it only goes back");
    account.release(early).unwrap();
    account.release(late).unwrap();
    assert_eq!(line(&account, &caps, Period::Day, Unit::Effects), (1, 0));
    spend(&mut account, &caps, "effects=2", &at(6, "run", "d")).unwrap();
    assert!(spend(&mut account, &caps, "effects=1", &at(6, "run", "d")).is_err());
    account.set_back(0);
    assert!(spend(&mut account, &caps, "effects=1", &at(0, "run", "d")).is_err());
}

#[test]
fn runs_and_turns_interleave_without_a_second_budget() {
    let caps = caps("turn.effects=2 run.effects=3");
    let mut app = account("app:mail");
    for _ in 0..2 {
        spend(&mut app, &caps, "effects=1", &at(5, "one", "clerk/1")).unwrap();
        spend(&mut app, &caps, "effects=1", &at(5, "two", "porter/1")).unwrap();
    }
    assert!(spend(&mut app, &caps, "effects=1", &at(5, "one", "clerk/1")).is_err());
    spend(&mut app, &caps, "effects=1", &at(5, "one", "clerk/2")).unwrap();
    let short = spend(&mut app, &caps, "effects=1", &at(5, "one", "clerk/2")).unwrap_err();
    assert!(matches!(&short, Short::BudgetExceeded { scope, .. } if scope.period == Period::Run), "{short}");
    // A turn that has something open can't be forgotten.
    let open = app.reserve(&caps, &ask("fuel=1"), &at(5, "one", "clerk/2")).unwrap();
    assert!(!app.end_turn("clerk/2") && !app.end_run("one"));
    app.release(open).unwrap();
    assert!(app.end_turn("clerk/2") && app.end_run("one") && app.end_run("never"));
    spend(&mut app, &caps, "effects=1", &at(5, "one", "clerk/2")).unwrap();
}

#[test]
fn what_took_more_than_reserved_is_overdrawn_and_stops_the_next() {
    let caps = caps("day.bytes_out=100 currency=EUR day.money=100");
    let mut account = account("agent:clerk");
    let reservation = account.reserve(&caps, &ask("effects=1"), &at(5, "run", "turn")).unwrap();
    let settled = account.settle(&caps, reservation, &ask("effects=1 bytes_out=130").amounts).unwrap();
    let [line] = settled.overdrawn.as_slice() else { panic!("{settled:?}") };
    assert_eq!((line.unit, line.left(), line.overdrawn(), line.of.as_str()), (Unit::BytesOut, Some(0), 30, "5"));
    assert_eq!(settled.crossings.iter().map(|c| c.mark).collect::<Vec<_>>(), [Mark::Near, Mark::Full]);
    // Even what asks for none of it.
    let short = spend(&mut account, &caps, "effects=1", &at(5, "run", "turn")).unwrap_err();
    assert!(short.to_string().contains("130 spent, 0 reserved, overdrawn by 30;"), "{short}");
    spend(&mut account, &caps, "effects=1", &at(6, "run", "turn")).unwrap();
    // Money that is overdrawn stops what costs money.
    let reservation = account.reserve(&caps, &ask("EUR=100"), &at(6, "run", "turn")).unwrap();
    let settled = account.settle(&caps, reservation, &ask("EUR=101").amounts).unwrap();
    assert_eq!(settled.overdrawn.len(), 1);
    spend(&mut account, &caps, "effects=1", &at(6, "run", "turn")).unwrap();
    assert!(spend(&mut account, &caps, "EUR=1", &at(6, "run", "turn")).is_err());
    // What was paid in another currency than reserved is not forgotten.
    let reservation = account.reserve(&caps, &ask("EUR=5"), &at(7, "run", "turn")).unwrap();
    account.settle(&caps, reservation, &ask("USD=7").amounts).unwrap();
    let spent = |code: &str| self::line(&account, &caps, Period::Day, Unit::Money(code.parse().unwrap()));
    assert_eq!((spent("EUR"), spent("USD")), ((0, 0), (7, 0)));
}

#[test]
fn a_reservation_is_used_once_and_only_on_its_own_account() {
    let caps = Caps::default();
    let (mut clerk, mut porter) = (account("agent:clerk"), account("agent:porter"));
    let point = at(5, "run", "turn");
    let ours = clerk.reserve(&caps, &ask("effects=1"), &point).unwrap();
    let id = ours.id();
    let theirs = porter.reserve(&caps, &ask("effects=1"), &point).unwrap();
    assert_eq!(theirs.id(), id);
    assert!(clerk.release(theirs).is_err());
    let again = clerk.reopen(id).unwrap();
    clerk.settle(&caps, ours, &Amounts::default()).unwrap();
    let error = clerk.settle(&caps, again, &Amounts::default()).unwrap_err();
    assert!(error.to_string().starts_with("agent:clerk has no open reservation 1:"), "{error}");
    assert_eq!(clerk.reopen(id), None);
    let next = clerk.reserve(&caps, &ask("effects=1"), &point).unwrap();
    assert_ne!(next.id(), id, "ids are never used again");
    clerk.release(next).unwrap();
}

#[test]
fn after_a_crash_what_is_open_is_found() {
    let caps = caps("currency=EUR day.money=100");
    let mut account = account("agent:clerk");
    for turn in ["1", "2", "3"] {
        let _lost = account.reserve(&caps, &ask("effects=1 EUR=30"), &at(5, "run", turn)).unwrap();
    }
    let stored = encode(&account).unwrap();
    let mut woken: Account = decode(&stored).unwrap();
    assert_eq!(woken, account);
    assert!(woken.reserve(&caps, &ask("EUR=30"), &at(5, "run", "4")).is_err());
    let open: Vec<_> = woken.open().to_vec();
    assert_eq!(open.iter().map(|hold| hold.at.turn.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    for hold in open {
        let reservation = woken.reopen(hold.id).unwrap();
        match hold.at.turn.as_str() {
            "1" => drop(woken.settle(&caps, reservation, &hold.amounts).unwrap()),
            _ => woken.release(reservation).unwrap(),
        }
    }
    assert_eq!(line(&woken, &caps, Period::Day, Unit::Money("EUR".parse().unwrap())), (30, 0));
}

#[test]
fn a_stored_account_that_was_changed_is_not_read() {
    let caps = caps("day.effects=100");
    let mut account = account("agent:clerk");
    let open = account.reserve(&caps, &ask("effects=7"), &at(5, "run", "turn")).unwrap();
    let stored = String::from_utf8(encode(&account).unwrap()).unwrap();
    assert!(decode::<Account>(stored.as_bytes()).is_ok());
    let changes = [
        ("less is reserved", r#""reserved":7"#, r#""reserved":6"#),
        ("more is open", r#""effects":7"#, r#""effects":8"#),
        (
            "the reservation is gone",
            &stored[stored.find(r#"{"amounts""#).unwrap()..stored.find(r#"],"runs""#).unwrap()],
            "",
        ),
        ("its turn is gone", r#""turn":"turn""#, r#""turn":"other""#),
        ("its id comes later", r#""next":2"#, r#""next":1"#),
        ("its day is to come", r#""at":{"day":5"#, r#""at":{"day":6"#),
        ("its day is over", r#""at":{"day":5"#, r#""at":{"day":4"#),
        ("too large to be written back", r#""reserved":7"#, r#""reserved":7,"spent":9007199254740992"#),
        ("negative", r#""reserved":7"#, r#""reserved":7,"spent":-1"#),
        ("a fraction", r#""reserved":7"#, r#""reserved":7,"spent":0.5"#),
        ("another name", r#""agent:clerk""#, r#""clerk""#),
        ("another unit", r#"{"effects":{"#, r#"{"efforts":{"#),
        ("an unknown key", r#"{"day":5"#, r#"{"debt":1,"day":5"#),
    ];
    for (what, from, to) in changes {
        let changed = stored.replacen(from, to, 1);
        assert_ne!(changed, stored, "{what}: {stored}");
        assert!(serde_json::from_str::<Account>(&changed).is_err(), "{what}");
    }
    account.release(open).unwrap();
}

#[test]
fn both_accounts_or_none() {
    let (agent_caps, app_caps) = (caps("day.effects=5"), caps("day.effects=3"));
    let (mut agent, mut app) = (account("agent:clerk"), account("app:mail"));
    let point = at(5, "run", "turn");
    let joint = reserve_both((&mut agent, &agent_caps), (&mut app, &app_caps), &ask("effects=3"), &point).unwrap();
    assert_eq!(
        joint.crossings().map(|c| c.line.scope.holder.to_string()).collect::<Vec<_>>(),
        ["app:mail", "app:mail"]
    );
    let short = reserve_both((&mut agent, &agent_caps), (&mut app, &app_caps), &ask("effects=1"), &point).unwrap_err();
    assert!(short.to_string().contains("app:mail has 3 effects per day: 0 spent, 3 reserved, 0 left"), "{short}");
    assert_eq!((agent.open().len(), app.open().len()), (1, 1));
    let actual = ask("effects=1").amounts;
    joint.settle((&mut agent, &agent_caps), (&mut app, &app_caps), &actual).unwrap();
    let joint = reserve_both((&mut agent, &agent_caps), (&mut app, &app_caps), &ask("effects=2"), &point).unwrap();
    joint.release(&mut agent, &mut app).unwrap();
    for (account, caps) in [(&agent, &agent_caps), (&app, &app_caps)] {
        assert_eq!(line(account, caps, Period::Day, Unit::Effects), (1, 0));
    }
}

#[test]
fn the_largest_numbers_are_refused_or_kept() {
    let point = at(u32::MAX, "run", "turn");
    let max = |unit: &str, amount: u64| ask(&format!("{unit}={amount}"));
    for caps in [Caps::default(), caps(&format!("total.fuel={MAX_AMOUNT} total.memory={MAX_AMOUNT}"))] {
        let mut account = account("agent:clerk");
        for unit in ["fuel", "memory", "wall_ms", "effects", "bytes_out", "output_bytes"] {
            for amount in [u64::MAX, MAX_AMOUNT + 1] {
                let short = account.reserve(&caps, &max(unit, amount), &point).unwrap_err();
                assert_eq!(short.code(), "budget-exceeded", "{unit}");
                assert!(short.to_string().contains(&MAX_AMOUNT.to_string()), "{short}");
                assert_eq!(caps.raised(&short), None);
            }
        }
        let held = account.reserve(&caps, &max("fuel", MAX_AMOUNT), &point).unwrap();
        assert!(account.reserve(&caps, &max("fuel", 1), &point).is_err());
        let most = Amounts { fuel: u64::MAX, memory: u64::MAX, effects: u64::MAX, ..Amounts::default() };
        account.settle(&caps, held, &most).unwrap();
        assert_eq!(line(&account, &caps, Period::Total, Unit::Fuel), (MAX_AMOUNT, 0));
        assert_eq!(decode::<Account>(&encode(&account).unwrap()).unwrap(), account);
    }
    // What has no cap goes on when it can no longer be counted.
    let mut account = account("agent:clerk");
    for _ in 0..3 {
        spend(&mut account, &Caps::default(), &format!("fuel={MAX_AMOUNT}"), &point).unwrap();
    }
    let money = format!("EUR={}", u64::MAX);
    let caps = caps(&format!("currency=EUR total.money={MAX_AMOUNT}"));
    assert_eq!(account.reserve(&caps, &ask(&money), &point).unwrap_err().code(), "budget-exceeded");
}

#[test]
fn only_so_much_can_be_open_and_old_turns_are_forgotten() {
    let caps = Caps::default();
    let mut account = account("app:mail");
    for number in 0..MAX_OPEN {
        let _open = account.reserve(&caps, &ask("effects=1"), &at(5, "run", &number.to_string())).unwrap();
    }
    let short = account.reserve(&caps, &ask("effects=1"), &at(5, "run", "0")).unwrap_err();
    assert_eq!(short.code(), "too-many-open");
    assert!(short.to_string().contains("10000 reservations open"), "{short}");
    for id in account.open().iter().map(|hold| hold.id).skip(1).collect::<Vec<_>>() {
        account.release(account.reopen(id).unwrap()).unwrap();
    }
    let short = account.reserve(&caps, &ask("effects=1"), &at(6, "run", "new")).unwrap_err();
    assert!(short.to_string().contains("10000 turns open"), "{short}");
    let _open = account.reserve(&caps, &ask("effects=1"), &at(7, "run", "new")).unwrap();
    let turns = account.balance(&caps).unwrap().into_iter().filter(|line| line.scope.period == Period::Turn);
    assert_eq!(turns.map(|line| line.of).collect::<Vec<_>>(), ["0", "new"], "what is open stays");
}
