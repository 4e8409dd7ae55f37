//! Scores: what is counted, how it adds up, and that the docs say the same. And the gate's word to a revoked agent.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test says what is wrong by failing"
)]

use lazaret_gate::canonical::{decode, encode};
use lazaret_gate::halted::Halted;
use lazaret_gate::ledger::{Killed, Switch, Switches, Thrown};
use lazaret_gate::outcome::Outcome;
use lazaret_gate::policy::{Facts, Policies, Recorded, Request, compare};
use lazaret_gate::record::{Cause, Ending, Failure, Message, Reply, Stop};
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::trust::{
    Conduct, MailboxClosed, Revocations, Revoked, RevokedAgent, Score, TERMS, TrustChange, TrustEvent, score, terms,
};
use lazaret_gate::{AgentId, Budget, Circumstance, Digest, Effect, Grants, Refusal, TapeEntry, TurnRecord, stages};
use proptest::prelude::*;

const CODES: [Code; 24] = [
    Code::BadAsk,
    Code::NotGranted,
    Code::EgressDenied,
    Code::NoPermit,
    Code::Forbidden,
    Code::PolicyError,
    Code::ApprovalDenied,
    Code::ApprovalExpired,
    Code::ApprovalInvalid,
    Code::Killed,
    Code::Revoked,
    Code::MailboxClosed,
    Code::NoBudget,
    Code::BudgetExceeded,
    Code::PerActionLimit,
    Code::RailNotAllowed,
    Code::Unpriced,
    Code::BadSpend,
    Code::TooManyOpen,
    Code::EffectsSpent,
    Code::BytesSpent,
    Code::SecretNotBound,
    Code::SecretLeak,
    Code::VaultLocked,
];

fn agent() -> AgentId {
    "clerk".parse().unwrap()
}

fn turn(codes: &[Code], ending: Ending) -> TurnRecord {
    let refused = |code: &Code| TapeEntry {
        effect: Effect::ClockNow {},
        outcome: Outcome::Refused(Refusal {
            code: *code,
            layer: Layer::Policy,
            reason: String::new(),
            remedy: String::new(),
        }),
        ruling: None,
    };
    let none = Digest([0; 32]);
    TurnRecord {
        agent: agent(),
        turn: 1,
        previous: none,
        component: none,
        engine: none,
        grants: Grants::default(),
        budget: Budget::default(),
        image_before: None,
        input: Message::outside("", ""),
        tape: codes.iter().map(refused).collect(),
        judged: none,
        ending,
        fuel: 0,
        image_after: None,
    }
}

fn replied() -> Ending {
    Ending::Replied(Reply { content_type: String::new(), body: "".into() })
}

fn stopped(cause: Cause) -> Ending {
    Ending::Stopped(Stop { cause, detail: String::new() })
}

#[test]
fn each_fact_counts_once() {
    let counted = |codes: &[Code], ending: Ending| Conduct::of_turn(&turn(codes, ending));
    let none = Conduct::default();
    assert_eq!(counted(&[], replied()), Conduct { clean_turns: 1, ..none });
    assert_eq!(counted(&[], Ending::Failed(Failure::Failed("x".into()))), none);
    let all = counted(&CODES, replied());
    assert_eq!(all, Conduct { refusals: 10, overruns: 6, denied: 1, ..none }, "the rest is not the agent's doing");
    for code in [Code::Killed, Code::Revoked, Code::MailboxClosed, Code::ApprovalExpired, Code::PolicyError] {
        assert_eq!(counted(&[code], replied()).clean_turns, 1, "{code:?}");
    }
    for (cause, expected) in [
        (Cause::Fuel, Conduct { overruns: 1, ..none }),
        (Cause::Memory, Conduct { overruns: 1, ..none }),
        (Cause::WallClock, Conduct { overruns: 1, ..none }),
        (Cause::Trap, Conduct { stopped: 1, ..none }),
        (Cause::BadValue, Conduct { stopped: 1, ..none }),
        (Cause::Killed, none),
        (Cause::Revoked, none),
    ] {
        assert_eq!(counted(&[], stopped(cause)), expected, "{cause:?}");
    }
    assert_eq!(counted(&[Code::EffectsSpent], stopped(Cause::Refused)), Conduct { overruns: 1, ..none });
}

fn conduct() -> impl Strategy<Value = Conduct> {
    let count = || prop_oneof![4 => 0..50_u64, 1 => any::<u64>()];
    let counts = (count(), count(), count(), count(), count(), count());
    counts.prop_map(|(clean_turns, refusals, overruns, stopped, denied, mismatches)| Conduct {
        clean_turns,
        refusals,
        overruns,
        stopped,
        denied,
        mismatches,
    })
}

fn base() -> impl Strategy<Value = Score> {
    (0..=100_u8).prop_map(|hundredths| Score::try_from(hundredths).unwrap())
}

proptest! {
    #[test]
    fn a_score_is_the_sum_of_its_terms(conduct in conduct(), base in base()) {
        let terms = terms(&conduct, base);
        prop_assert_eq!(terms.len(), TERMS.len() + 1);
        let sum: i64 = terms.iter().map(|term| term.points).sum();
        prop_assert_eq!(i64::from(score(&conduct, base).hundredths()), sum.clamp(0, 100));
        prop_assert_eq!(score(&Conduct::default(), base), base);
    }

    #[test]
    fn better_conduct_is_never_trusted_less(conduct in conduct(), base in base()) {
        let before = score(&conduct, base);
        let more = |more: Conduct| score(&conduct.plus(more), base);
        let none = Conduct::default();
        let cleaner = Conduct { clean_turns: 1, ..none };
        prop_assert!(more(cleaner) >= before);
        for worse in [
            Conduct { refusals: 1, ..none },
            Conduct { overruns: 1, ..none },
            Conduct { stopped: 1, ..none },
            Conduct { denied: 1, ..none },
            Conduct { mismatches: 1, ..none },
        ] {
            prop_assert!(more(worse) <= before, "{:?}", worse);
        }
        let false_twice = Conduct { mismatches: 2, ..none };
        prop_assert_eq!(more(false_twice), Score::NONE);
    }
}

#[test]
fn the_docs_have_the_same_formula() {
    let docs = include_str!("../../../docs/trust.md");
    let points = |hundredths: i64| format!("{}.{:02}", hundredths.abs() / 100, hundredths.abs() % 100);
    for weight in &TERMS {
        let sign = if weight.each > 0 { "+" } else { "-" };
        let row =
            format!("| {} | {sign}{} | {} | {} |", weight.name, points(weight.each), weight.per, points(weight.most));
        assert!(docs.contains(&row), "docs/trust.md has no row `{row}`");
    }
    assert!(docs.contains(&format!("**base**: {} for a new agent", Score::START)));
}

#[test]
fn events_in_their_order_give_what_stands() {
    let event = |change, hundredths, by: &str| TrustEvent {
        agent: agent(),
        change,
        score: Score::try_from(hundredths).unwrap(),
        by: by.into(),
        at: 5,
        reason: String::new(),
        turn: None,
    };
    let mut now = Revocations::default();
    now.apply(&event(TrustChange::Set, 70, "ana"));
    now.apply(&event(TrustChange::Revoked, 0, "ben"));
    now.apply(&event(TrustChange::Revoked, 0, "cy"));
    assert_eq!(now.revoked[&agent()].by, "ben", "the first word stands");
    now.apply(&event(TrustChange::Mismatch, 0, "cy"));
    now.apply(&event(TrustChange::Restored, 70, "ana"));
    assert!(now.revoked.is_empty());
    assert_eq!(now.bases[&agent()].hundredths(), 70);
}

#[test]
fn refusals_say_who_and_what_to_do() {
    let revoked = Revoked { by: "ana".into(), at: 1_772_357_400_999, reason: "enough".into() };
    let under = Circumstance {
        rulebook: Digest([0; 32]),
        facts: Facts::default(),
        switches: Switches::default(),
        revoked: Some(revoked.clone()),
    };
    let stop = stages::revoked(&Effect::ClockNow {}, &agent(), &under).unwrap_err();
    assert_eq!(stop, RevokedAgent { agent: agent(), kind: "clock.now", revoked });
    assert!(stop.refusal().ends_turn());
    assert_eq!(
        stop.refusal().to_string(),
        "refused (revoked, trust): asked for `clock.now`, but ana has revoked `clerk` at 2026-03-01T09:30:00Z (enough); \
         `lazaret trust restore clerk` lets it go on"
    );
    assert_eq!(
        Halted::Revoked(stop.clone()).refusal(false).to_string(),
        "refused (revoked, executor): `clock.now` was permitted and not begun: ana has revoked `clerk` at \
         2026-03-01T09:30:00Z (enough); `lazaret trust restore clerk` lets it go on"
    );
    assert!(Halted::Revoked(stop).refusal(true).reason.contains("was under way and is cut off"));
    let thrown = Thrown { by: "ana".into(), at: 0, reason: String::new() };
    let killed = Halted::Killed(Killed { switch: Switch::All, kind: "http.fetch", thrown });
    assert_eq!((killed.refusal(false).code, killed.refusal(false).layer), (Code::Killed, Layer::Executor));
    assert!(killed.refusal(false).reason.contains("not begun"));
    assert!(killed.refusal(true).reason.contains("under way"));
    let closed = MailboxClosed { to: agent() }.refusal();
    assert!(!closed.ends_turn(), "the sender goes on");
    assert_eq!(closed.code.name(), "mailbox-closed");
}

#[test]
fn records_from_before_there_were_scores_read_as_they_were() {
    let old = br#"{"facts":{"device":null,"labels":[],"run":"r","spent":0,"tier":"A","time":0},"rulebook":"0000000000000000000000000000000000000000000000000000000000000000","switches":{"all":null,"spend":null}}"#;
    let read: Circumstance = decode(old).unwrap();
    assert_eq!((read.facts.trust, &read.revoked), (None, &None));
    assert_eq!(encode(&read).unwrap(), old);
    let facts = Facts { trust: Some(Score::START), ..read.facts };
    let new = Circumstance { facts, ..read };
    assert_eq!(decode::<Circumstance>(&encode(&new).unwrap()).unwrap(), new);
}

#[test]
fn what_was_not_recorded_is_not_guessed() {
    let load = |text: &str| Policies::load(&[("a.cedar", text)]).unwrap();
    let all = load("@id(\"all\") permit (principal, action, resource);");
    let draft =
        load("@id(\"all\") permit (principal, action, resource) unless { context has trust && context.trust < 60 };");
    let silent = load("@id(\"all\") permit (principal, action, resource) unless { context.run == \"x\" };");
    let recorded = |trust: Option<Score>| {
        let who = lazaret_gate::policy::Who::agent(&agent(), None);
        let table = lazaret_gate::Rulebook::load(Default::default()).unwrap();
        let around = lazaret_gate::risk::Around::of(&Effect::ClockNow {}, &Grants::default(), None);
        let risk = table.risks().weigh(&Effect::ClockNow {}, &around);
        let facts = Facts { run: "r".into(), tier: "A".into(), trust, ..Facts::default() };
        let request = Request::of(&Effect::ClockNow {}, &who, &facts, &risk).unwrap();
        Recorded { id: "1.0".into(), request: Some(Box::new(request)) }
    };
    let past = || [None, Some(Score::START), Some(Score::FULL)].into_iter().map(recorded);
    let found = compare(&all, &draft, past());
    assert_eq!((found.unknown, found.newly_denied, found.same), (1, 1, 1));
    assert_eq!(compare(&draft, &all, past()).unknown, 1);
    let found = compare(&all, &silent, past());
    assert_eq!((found.unknown, found.same), (0, 3), "rules that don't read it can be asked");
}
