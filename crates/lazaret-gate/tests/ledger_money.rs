//! Money: caps as files, prices, what arguments name, and the kill switches.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use lazaret_gate::canonical::{decode, encode};
use lazaret_gate::effect::{Prompt, Role, Utterance};
use lazaret_gate::ledger::limits::{MAX_AMOUNT, MAX_PRICE, MAX_PRICES};
use lazaret_gate::ledger::{
    Account, Ask, Caps, Money, Point, Prices, Short, Switch, SwitchEvent, Switches, Thrown, spend_of,
};
use lazaret_gate::{Bytes, Effect};
use proptest::prelude::*;

fn money(micros: u64, code: &str) -> Money {
    Money { micros, currency: code.parse().unwrap() }
}

fn call(arguments: &str) -> Effect {
    Effect::ToolsCall { name: "bank.pay".into(), arguments: arguments.into() }
}

fn generate(model: &str, text: &str, max_tokens: u32) -> Effect {
    let utterances = vec![Utterance { role: Role::User, text: text.into() }];
    Effect::ModelGenerate(Prompt { model: model.into(), utterances, max_tokens })
}

#[test]
fn money_is_written_without_rounding() {
    for (micros, text) in [
        (0, "0.00 EUR"),
        (1, "0.000001 EUR"),
        (10_000, "0.01 EUR"),
        (1_250_000, "1.25 EUR"),
        (1_250_100, "1.2501 EUR"),
        (1_000_000_000_000, "1000000.00 EUR"),
        (u64::MAX, "18446744073709.551615 EUR"),
    ] {
        assert_eq!(money(micros, "EUR").to_string(), text);
    }
}

const LAWFUL: &str = r#"
at_cap = "refuse"
currency = "EUR"
per_action = 2000000
rails = ["card", "transfer"]
[turn]
fuel = 1
memory = 2
wall_ms = 3
[run]
effects = 4
[day]
bytes_out = 5
money = 5000000
[total]
output_bytes = 6
"#;

#[test]
fn caps_are_read_strictly() {
    let caps: Caps = toml::from_str(LAWFUL).unwrap();
    assert_eq!(decode::<Caps>(&encode(&caps).unwrap()).unwrap(), caps);
    assert_eq!(toml::from_str::<Caps>("").unwrap(), Caps::default());
    assert_eq!(Caps::default().budgeted(), None);
    for (from, to, why) in [
        ("fuel = 1", "fule = 1", "unknown field `fule`"),
        ("at_cap", "atcap", "unknown field `atcap`"),
        ("[total]", "[week]", "unknown field `week`"),
        ("\"refuse\"", "\"ignore\"", "unknown variant `ignore`"),
        ("\"EUR\"", "\"eur\"", "`eur` can't name a currency"),
        ("\"EUR\"", "\"EURO\"", "`EURO` can't name a currency"),
        ("\"card\"", "\"Card\"", "`Card` can't name a rail"),
        ("\"card\"", "\"\"", "`` can't name a rail"),
        ("currency = \"EUR\"", "", "`day.money` is an amount of money, but there is no `currency`"),
        ("fuel = 1", "fuel = -1", "invalid value: integer `-1`"),
        ("fuel = 1", "fuel = 1.5", "invalid type: floating point `1.5`"),
        ("fuel = 1", "fuel = inf", "invalid type: floating point `inf`"),
        ("fuel = 1", "fuel = \"1\"", "invalid type: string"),
        ("fuel = 1", "fuel = 9007199254740992", "`turn.fuel` can be at most 9007199254740991, not 9007199254740992"),
        ("= 2000000", "= 9007199254740992", "`per_action` can be at most"),
    ] {
        let text = LAWFUL.replacen(from, to, 1);
        assert_ne!(text, LAWFUL, "{from}");
        let error = toml::from_str::<Caps>(&text).unwrap_err().to_string();
        assert!(error.contains(why), "{from} -> {to}: {error}");
    }
}

#[test]
fn a_cap_is_set_by_its_name_or_nothing_changes() {
    let mut caps = Caps::default();
    for pair in [
        "at_cap=refuse currency=EUR per_action=2000000 rails=card,transfer turn.fuel=1 turn.memory=2 turn.wall_ms=3",
        "run.effects=4 day.bytes_out=5 day.money=5000000 total.output_bytes=6",
    ]
    .join(" ")
    .split(' ')
    {
        let (key, value) = pair.split_once('=').unwrap();
        caps.set(key, value).unwrap();
    }
    assert_eq!(caps, toml::from_str(LAWFUL).unwrap());
    let before = caps.clone();
    for (key, value, why) in [
        ("week.fuel", "1", "`week.fuel` is not a cap; write PERIOD.UNIT"),
        ("fuel", "1", "`fuel` is not a cap"),
        ("day.", "1", "`day.` is not a cap"),
        ("day.fuel", "", "`` is not a value for `day.fuel`: write a whole number, or none"),
        ("day.fuel", "-1", "`-1` is not a value"),
        ("day.fuel", "1e9", "`1e9` is not a value"),
        ("day.fuel", "18446744073709551616", "is not a value"),
        ("day.fuel", "18446744073709551615", "can be at most"),
        ("at_cap", "wait", "`wait` is not a value for `at_cap`: write pause or refuse"),
        ("currency", "euro", "can't name a currency"),
        ("currency", "none", "there is no `currency`"),
        ("rails", "card,,", "can't name a rail"),
    ] {
        let error = caps.set(key, value).unwrap_err().to_string();
        assert!(error.contains(why), "{key}={value}: {error}");
        assert_eq!(caps, before);
    }
    caps.set("day.money", "none").unwrap();
    assert_eq!(caps.budgeted(), None);
}

const TABLE: &str = r#"
[[price]]
provider = "acme"
model = "small"
input = 150000
output = 600000
currency = "USD"
as_of = "2026-01-31"
source = "a test"
[[price]]
provider = "acme"
model = "dear"
input = 1000000000000
output = 1000000000000
currency = "EUR"
as_of = "2026-01-31"
source = "a test"
[[price]]
provider = "toy"
model = "*"
input = 0
output = 0
currency = "USD"
as_of = "2026-01-31"
source = "a test"
"#;

#[test]
fn prices_round_up() {
    let prices = Prices::parse(TABLE).unwrap();
    for (model, input, output, micros) in [
        ("acme/small", 0, 0, Some(0)),
        ("acme/small", 1, 0, Some(1)),
        ("acme/small", 6, 0, Some(1)),
        ("acme/small", 7, 0, Some(2)),
        ("acme/small", 0, 1, Some(1)),
        ("acme/small", 1, 1, Some(1)),
        ("acme/small", 1_000_000, 1_000_000, Some(750_000)),
        ("acme/small", 1_000_001, 1_000_000, Some(750_001)),
        ("acme/dear", u64::MAX, u64::MAX, Some(MAX_AMOUNT)),
        ("acme/dear", 1, 0, Some(1_000_000)),
        ("toy/anything", u64::MAX, u64::MAX, Some(0)),
        ("toy/a/b", 1, 1, Some(0)),
        ("acme/other", 1, 1, None),
        ("acme/*", 1, 1, None),
        ("toy/*", 1, 1, None),
        ("acme", 1, 1, None),
        ("toy", 1, 1, None),
        ("", 1, 1, None),
        ("/", 1, 1, None),
        ("ACME/small", 1, 1, None),
    ] {
        let price = prices.price(model, input, output);
        assert_eq!(price.map(|money| money.micros), micros, "{model} {input} {output}");
    }
}

#[test]
fn a_price_table_is_read_strictly() {
    for (from, to, why) in [
        ("model = \"small\"", "", "missing field `model`"),
        ("source = \"a test\"", "", "missing field `source`"),
        ("source = \"a test\"", "source = \" \"", "it doesn't say where it is from"),
        ("input = 150000", "input = -1", "invalid value: integer `-1`"),
        ("input = 150000", "input = 0.15", "invalid type: floating point"),
        ("input = 150000", "input = nan", "invalid type: floating point"),
        ("input = 150000", "input = 1000000000001", "a million tokens can't cost more than a million"),
        ("input = 150000", "input = 150000\ncached = 1", "unknown field `cached`"),
        ("[[price]]", "version = 1\n[[price]]", "unknown field `version`"),
        ("\"USD\"", "\"usd\"", "can't name a currency"),
        ("2026-01-31", "2026-1-31", "`acme/small` can't stand: its date is not written YYYY-MM-DD"),
        ("2026-01-31", "2026-13-31", "its date is not written"),
        ("2026-01-31", "2026-01-00", "its date is not written"),
        ("2026-01-31", "2026/01/31", "its date is not written"),
        ("2026-01-31", "2026-01-3é", "its date is not written"),
        ("model = \"small\"", "model = \"dear\"", "`acme/dear` can't stand: it stands twice"),
        ("model = \"small\"", "model = \"*\"", "only what is free"),
        ("model = \"small\"", "model = \"sm*\"", "its model is neither a name nor `*`"),
        ("model = \"small\"", "model = \"\"", "its model is neither a name nor `*`"),
        ("\"acme\"", "\"ac/me\"", "its provider is not a name"),
        ("[[price]]", "[[price]", "the price table can't be read"),
    ] {
        let text = TABLE.replacen(from, to, 1);
        assert_ne!(text, TABLE, "{from}");
        let error = Prices::parse(&text).unwrap_err().to_string();
        assert!(error.contains(why), "{from} -> {to}: {error}");
    }
    assert!(Prices::parse(&" ".repeat(MAX_PRICES + 1)).is_err());
}

#[test]
fn the_shipped_table_is_sound() {
    let prices = Prices::shipped();
    assert_eq!(Prices::parse(Prices::shipped_text()).as_ref(), Ok(&prices));
    assert!(prices.rows().count() >= 4);
    for row in prices.rows() {
        let free = row.provider == "rehearsal";
        assert_eq!((row.input, row.output) == (0, 0), free, "{row:?}: only the rehearsal models are free");
        assert!(row.input <= row.output && row.output < MAX_PRICE / 1000, "{row:?} is not a plausible price");
    }
    for model in ["rehearsal/echo", "rehearsal/triage"] {
        assert_eq!(prices.price(model, 1_000_000, 1_000_000), Some(money(0, "USD")));
    }
}

#[test]
fn a_model_call_is_reserved_at_its_worst() {
    let prices = Prices::parse(TABLE).unwrap();
    let ask = Ask::of(&generate("acme/small", "ünï", 1000), &prices).unwrap();
    // 5 bytes, 16 for the utterance, 64 for the prompt; 1000 tokens of answer.
    assert_eq!(ask.amounts.money, Some(money((85 * 150_000 + 1000 * 600_000u64).div_ceil(1_000_000), "USD")));
    assert!(ask.has_money() && ask.rail.is_none() && ask.amounts.bytes_out > 0);
    let free = Ask::of(&generate("toy/any", "x", u32::MAX), &prices).unwrap();
    assert_eq!((free.has_money(), free.amounts.effects), (false, 1));
    let short = Ask::of(&generate("acme/next", "x", 1), &prices).unwrap_err();
    assert_eq!((short.code(), &short), ("unpriced", &Short::Unpriced { model: "acme/next".into() }));
    assert_eq!(
        short.to_string(),
        "asked for the model `acme/next`, but its price is not known, so it gets none of the money; a row for it in \
         the policy folder's `prices.toml` gives it a price"
    );
    let stays = Ask::of(&Effect::StorageSet { key: "k".into(), value: Bytes(vec![0; 100]) }, &prices).unwrap();
    assert_eq!((stays.amounts.effects, stays.amounts.bytes_out, stays.has_money()), (1, 0, false));
    // A model that costs nothing runs without a budget of money; one that costs something doesn't.
    let point = Point { day: 1, run: "r".into(), turn: "t".into() };
    let mut account = Account::new("agent:clerk".parse().unwrap());
    let caps = Caps::default();
    assert!(account.reserve(&caps, &free, &point).is_ok());
    assert_eq!(account.reserve(&caps, &ask, &point).unwrap_err().code(), "no-budget");
}

/// Arguments; the amount in micro-units, nothing, or a part of what is wrong.
const ARGUMENTS: &[(&str, Result<Option<u64>, &str>)] = &[
    (r#"{"amount_micros":1500000,"currency":"EUR","rail":"card","to":"Anna"}"#, Ok(Some(1_500_000))),
    (r#" {"to":"Anna","x":[{"y":1}],"rail":"card","currency":"EUR","amount_micros":0} "#, Ok(Some(0))),
    (r#"{"amount_\u006dicros":7,"currency":"EUR","rail":"card","to":"Anna"}"#, Ok(Some(7))),
    (r#"{"amount_micros":9007199254740991,"currency":"EUR","rail":"card","to":"A"}"#, Ok(Some(MAX_AMOUNT))),
    ("{}", Ok(None)),
    ("", Ok(None)),
    (" \n", Ok(None)),
    ("null", Ok(None)),
    ("[1,2]", Ok(None)),
    ("1e999", Err("not JSON")),
    (r#"{"to":"anna@example.com","subject":"x","body":"amount_micros: 5"}"#, Ok(None)),
    (r#"{"to":5,"currency":null}"#, Ok(None)),
    (r#"{"to":"a","to":"b"}"#, Ok(None)),
    ("{", Err("not JSON")),
    ("{} {}", Err("not JSON")),
    ("amount_micros=5", Err("not JSON")),
    ("{amount_micros:5}", Err("not JSON")),
    (r#"{"amount_micros":-1,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":1.5,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":1e3,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":"5","currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":null,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":[5],"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":true}"#, Err("whole number")),
    (r#"{"amount_micros":NaN}"#, Err("not JSON")),
    (r#"{"amount_micros":9007199254740992,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":18446744073709551615,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":18446744073709551616,"currency":"EUR","rail":"card","to":"A"}"#, Err("whole number")),
    (r#"{"amount_micros":5,"amount_micros":5,"currency":"EUR","rail":"card","to":"A"}"#, Err("stands twice")),
    (r#"{"amount_micros":5,"currency":"EUR","currency":"EUR","rail":"card","to":"A"}"#, Err("`currency` stands twice")),
    (r#"{"amount_micros":5,"currency":"EUR","rail":"card","to":"A","to":"B"}"#, Err("`to` stands twice")),
    (r#"{"amount_micros":5,"Amount_Micros":6,"currency":"EUR","rail":"card","to":"A"}"#, Err("`Amount_Micros` is not")),
    (r#"{"amountMicros":6}"#, Err("`amountMicros` is not how `amount_micros` is written")),
    (r#"{"amount-micros":6}"#, Err("is not how")),
    (r#"{"payment":{"amount_micros":5}}"#, Err("must stand at the top")),
    (r#"[{"amount_micros":5}]"#, Err("must stand at the top")),
    (r#"{"a":[[{"AMOUNT_MICROS":5}]]}"#, Err("is not how")),
    (r#"{"amount_micros":5}"#, Err("no `currency`")),
    (r#"{"amount_micros":5,"currency":"EUR","to":"A"}"#, Err("no `rail`")),
    (r#"{"amount_micros":5,"currency":"EUR","rail":"card"}"#, Err("no `to`")),
    (r#"{"amount_micros":5,"currency":"eur","rail":"card","to":"A"}"#, Err("`eur` can't name a currency")),
    (r#"{"amount_micros":5,"currency":978,"rail":"card","to":"A"}"#, Err("`currency` must be a text")),
    (r#"{"amount_micros":5,"currency":"EUR","rail":"","to":"A"}"#, Err("`rail` must be a text")),
    (r#"{"amount_micros":5,"currency":"EUR","rail":"Card","to":"A"}"#, Err("`Card` can't name a rail")),
    (r#"{"amount_micros":5,"currency":"EUR","rail":"card","to":""}"#, Err("`to` must be a text")),
];

#[test]
fn arguments_name_money_or_are_refused() {
    for (arguments, expected) in ARGUMENTS {
        match (spend_of(&call(arguments)), expected) {
            (Ok(spend), Ok(amount)) => assert_eq!(spend.map(|s| s.amount.micros), *amount, "{arguments}"),
            (Err(why), Err(part)) => {
                let text = why.to_string();
                assert!(text.starts_with("the arguments of the tool `bank.pay`") && text.contains(part), "{text}");
                let short = Ask::of(&call(arguments), &Prices::default()).unwrap_err();
                assert_eq!(short.code(), "bad-spend");
            }
            (found, _) => panic!("{arguments}: {found:?}"),
        }
    }
    let spend = spend_of(&call(ARGUMENTS[0].0)).unwrap().unwrap();
    assert_eq!((spend.amount, spend.rail.as_str(), spend.to.as_str()), (money(1_500_000, "EUR"), "card", "Anna"));
    let ask = Ask::of(&call(ARGUMENTS[1].0), &Prices::default()).unwrap();
    assert!(ask.has_money(), "even none of it");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(spend_of(&call(&deep)).is_err());
    let long = format!(r#"{{"amount_micros":5,"currency":"EUR","rail":"card","to":"{}"}}"#, "x".repeat(257));
    assert!(spend_of(&call(&long)).unwrap_err().to_string().contains("`to` has 257 bytes"));
    assert_eq!(spend_of(&Effect::AgentsSend { to: "a".into(), content_type: "t".into(), body: "{".into() }), Ok(None));
}

fn thrown(by: &str, at: u64, reason: &str) -> Thrown {
    Thrown { by: by.into(), at, reason: reason.into() }
}

#[test]
fn switches_stop_what_they_name() {
    let pay = call(ARGUMENTS[0].0);
    let unreadable = call("{");
    let model = generate("acme/small", "x", 1);
    let (list, read) = (call("{}"), Effect::ClockNow {});
    let mut switches = Switches::default();
    for effect in [&pay, &unreadable, &model, &list, &read] {
        assert_eq!(switches.check(effect, true), Ok(()));
    }
    switches.throw(Switch::Spend, thrown("dana", 1_772_357_400_000, "odd invoices"));
    for (effect, has_money, stopped) in [
        (&pay, true, true),
        (&pay, false, true),
        (&unreadable, false, true),
        (&model, true, true),
        (&model, false, false),
        (&list, false, false),
        (&read, false, false),
    ] {
        assert_eq!(switches.check(effect, has_money).is_err(), stopped, "{effect:?} {has_money}");
    }
    let killed = switches.check(&pay, true).unwrap_err();
    assert_eq!(
        Short::from(killed.clone()).to_string(),
        "asked for `tools.call`, but dana has stopped all spending at 2026-03-01T09:30:00Z (odd invoices); `lazaret \
         kill --lift spend` lets effects pass again"
    );
    assert_eq!((Short::from(killed.clone()).code(), killed.switch), ("killed", Switch::Spend));
    switches.throw(Switch::All, thrown("eve", 0, ""));
    let killed = switches.check(&read, false).unwrap_err();
    assert_eq!(
        killed.to_string(),
        "asked for `clock.now`, but eve has stopped everything at 1970-01-01T00:00:00Z; `lazaret kill --lift all` lets \
         effects pass again"
    );
    assert!(switches.lift(Switch::All, "dana", 1, "").is_some());
    assert!(switches.lift(Switch::All, "dana", 2, "").is_none(), "it isn't thrown");
    assert_eq!((switches.check(&read, false), switches.check(&pay, false).is_err()), (Ok(()), true));
}

#[test]
fn the_first_throw_stands() {
    let mut switches = Switches::default();
    let events = [
        switches.throw(Switch::Spend, thrown("dana", 1, "first")),
        switches.throw(Switch::Spend, thrown("eve", 2, "second")),
    ];
    assert_eq!(switches.thrown(Switch::Spend), Some(&thrown("dana", 1, "first")));
    assert_eq!(events[1].by, "eve");
    let unknown = r#"{"all":null,"spend":null,"write":null}"#;
    assert!(serde_json::from_str::<Switches>(unknown).is_err());
}

proptest! {
    /// The recorded events give the switches back, and everything survives being stored.
    #[test]
    fn switches_are_the_sum_of_their_events(steps in proptest::collection::vec(any::<(bool, bool, u16)>(), 0..20)) {
        let mut switches = Switches::default();
        let mut events: Vec<SwitchEvent> = Vec::new();
        for (spend, lift, at) in steps {
            let switch = if spend { Switch::Spend } else { Switch::All };
            if lift {
                events.extend(switches.lift(switch, "dana", at.into(), ""));
                prop_assert_eq!(switches.thrown(switch), None);
            } else {
                events.push(switches.throw(switch, thrown("dana", at.into(), "why")));
                prop_assert!(switches.thrown(switch).is_some());
            }
        }
        let stored: Vec<SwitchEvent> = decode(&encode(&events).unwrap()).unwrap();
        let mut again = Switches::default();
        stored.iter().for_each(|event| again.apply(event));
        prop_assert_eq!(&again, &switches);
        prop_assert_eq!(decode::<Switches>(&encode(&switches).unwrap()).unwrap(), switches);
    }

    /// No text makes reading it panic, and no JSON that names an amount is taken for free.
    #[test]
    fn hostile_arguments(text in "\\PC{0,60}", amount in "[-0-9.eE\"]{1,22}", depth in 0..6usize) {
        let _ = spend_of(&call(&text));
        let inner = format!(r#"{{"x":0,"amount_micros":{amount}}}"#);
        let wrapped = (0..depth).fold(inner, |inner, _| format!(r#"{{"in":[{inner}]}}"#));
        let free = matches!(spend_of(&call(&wrapped)), Ok(None));
        prop_assert!(!free, "{}", wrapped);
    }

    /// Rounding up never gives away more than one micro-unit, and never less than the exact price.
    #[test]
    fn rounding(input in 0..u64::from(u32::MAX), output in 0..u64::from(u32::MAX)) {
        let micros = Prices::parse(TABLE).unwrap().price("acme/small", input, output).unwrap().micros;
        let exact = u128::from(input) * 150_000 + u128::from(output) * 600_000;
        let priced = u128::from(micros) * 1_000_000;
        prop_assert!(priced >= exact && priced - exact < 1_000_000);
    }
}
