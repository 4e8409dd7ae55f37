//! Questions, decisions, patterns and the machine: what is lawful, what is refused and in which words.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "approval/world.rs"]
mod world;

use lazaret_gate::approval::limits::{MAX_RUN_MS, MAX_UNTIL_MS};
use lazaret_gate::approval::{
    BadDecision, BadPattern, BadQuestion, Decision, Event, Pattern, Question, Refused, Requester, Scope, State,
    Verdict, step,
};
use lazaret_gate::shown;
use lazaret_gate::{Digest, Effect, canonical};
use proptest::prelude::*;
use world::{PATIENCE, START, agent, approvers, ask, ask_by, at, attempt, decide, get, key, key_id, now, send, yes};

const END: i64 = PATIENCE as i64;
const API: &str = "https://api.example.com/v1/items";

fn pattern(text: &str) -> Pattern {
    text.parse().unwrap()
}

fn run_scope() -> Scope {
    Scope::Run { pattern: pattern("http.fetch GET https://api.example.com/v1/*"), matched: 3 }
}

fn until_scope(ms: u64) -> Scope {
    let wall_ms = START.wall_ms + ms;
    Scope::Until { pattern: pattern("http.fetch GET https://api.example.com/v1/*"), matched: 3, wall_ms }
}

fn uses(effect: Effect) -> Event {
    Event::Use(Box::new(attempt(effect)))
}

/// The state after these events, each at its time; the first refusal ends it.
fn walk(question: &Question, events: &[(Event, i64)]) -> Result<State, Refused> {
    events.iter().try_fold(State::Pending, |state, (event, ms)| step(question, &state, event, &at(*ms)))
}

#[test]
fn questions_are_records() {
    let question = ask(send("ann@example.com"));
    let bytes = question.encode().unwrap();
    assert_eq!(Question::decode(&bytes).unwrap(), question);
    assert_eq!(question.digest().unwrap(), Digest::of(&bytes));
    assert_eq!(question.arguments, Digest::of(&canonical::encode(&question.effect).unwrap()));
    let mut other = question.clone();
    other.effect = send("eve@example.com");
    let forged = canonical::encode(&other).unwrap();
    assert!(matches!(Question::decode(&forged), Err(BadQuestion::Arguments { .. })));
    let mut other = question.clone();
    other.expires.monotonic_ms += 1;
    assert!(matches!(Question::decode(&canonical::encode(&other).unwrap()), Err(BadQuestion::Patience(_))));
    let mut other = question;
    other.reason = "x".repeat(2000);
    let why = Question::decode(&canonical::encode(&other).unwrap()).unwrap_err();
    assert_eq!(why.to_string(), "the question's reason must have 1 to 1024 bytes, not 2000");
}

#[test]
fn decisions_bind_everything() {
    let question = ask(get(API));
    let good = Decision::sign(&question, Verdict::Approve, Scope::Once, START.wall_ms + 1, &key(1)).unwrap();
    assert!(good.clone().verify(&question, &approvers()).is_ok());
    let fails = |change: &dyn Fn(&mut Decision)| {
        let mut decision = good.clone();
        change(&mut decision);
        decision.verify(&question, &approvers()).unwrap_err()
    };
    assert!(matches!(fails(&|d| d.scope = run_scope()), BadDecision::OtherShown), "the scope is part of what is shown");
    let shown_for = |scope: &Scope| shown::decision(&question, scope).digest().unwrap();
    let wider = |d: &mut Decision| (d.scope = run_scope(), d.shown = shown_for(&run_scope())).0;
    assert!(matches!(fails(&wider), BadDecision::Signature(_)));
    // A wider yes is bound to the pattern and to the number of past effects that the approver saw.
    let wide = Decision::sign(&question, Verdict::Approve, run_scope(), START.wall_ms + 1, &key(1)).unwrap();
    let mut other = wide.clone();
    let Scope::Run { pattern, matched } = run_scope() else { panic!("a run's") };
    other.scope = Scope::Run { pattern, matched: matched + 1 };
    assert!(matches!(other.clone().verify(&question, &approvers()), Err(BadDecision::OtherShown)));
    other.shown = shown_for(&other.scope);
    assert!(matches!(other.verify(&question, &approvers()), Err(BadDecision::Signature(_))));
    assert!(wide.verify(&question, &approvers()).is_ok());
    assert!(matches!(fails(&|d| d.verdict = Verdict::Deny), BadDecision::Signature(_)));
    assert!(matches!(fails(&|d| d.at += 1), BadDecision::Signature(_)));
    assert!(matches!(fails(&|d| d.by = key_id(&key(2))), BadDecision::Signature(_)));
    assert!(matches!(fails(&|d| d.signature.0[5] ^= 1), BadDecision::Signature(_)));
    assert!(matches!(fails(&|d| d.signature.0.truncate(9)), BadDecision::Signature(_)));
    assert!(matches!(fails(&|d| d.shown = Digest::of(b"x")), BadDecision::OtherShown));
    assert!(matches!(fails(&|d| d.question = Digest::of(b"x")), BadDecision::OtherQuestion { .. }));
    assert!(matches!(fails(&|d| d.at = START.wall_ms + PATIENCE), BadDecision::Time { .. }));
    let other = ask(get("https://api.example.com/v1/other"));
    assert!(matches!(good.clone().verify(&other, &approvers()), Err(BadDecision::OtherQuestion { .. })));
    let text = String::from_utf8(canonical::encode(&good).unwrap()).unwrap();
    assert_eq!(canonical::decode::<Decision>(text.as_bytes()).unwrap(), good);
}

#[test]
fn only_approvers_decide() {
    let question = ask(get(API));
    let by = |number: u8| decide(&question, Verdict::Approve, Scope::Once, number).map(|_| ());
    by(1).unwrap();
    by(2).unwrap();
    assert!(by(3).unwrap_err().to_string().contains("is revoked: decide with another"));
    assert!(matches!(by(4), Err(BadDecision::Requester)), "the agent's own key");
    assert!(by(9).unwrap_err().to_string().starts_with("no approver has the key "));
    let own = ask_by(get(API), Requester::Key(key_id(&key(1))));
    assert!(matches!(decide(&own, Verdict::Approve, Scope::Once, 1), Err(BadDecision::Requester)));
    assert!(decide(&own, Verdict::Approve, Scope::Once, 2).is_ok());
}

#[test]
fn what_is_hidden_can_only_be_denied() {
    let question = ask(Effect::ToolsCall { name: "t".into(), arguments: "x\n".repeat(shown::MAX_LINES) });
    let sign = |verdict| Decision::sign(&question, verdict, Scope::Once, START.wall_ms, &key(1));
    assert!(matches!(sign(Verdict::Approve), Err(BadDecision::Hidden)));
    let denied = sign(Verdict::Deny).unwrap();
    assert!(denied.verify(&question, &approvers()).is_ok());
}

#[test]
fn scopes_have_limits() {
    let question = ask(get(API));
    let wide = |scope| decide(&question, Verdict::Approve, scope, 1).map(|_| ());
    wide(run_scope()).unwrap();
    wide(until_scope(60_000)).unwrap();
    wide(until_scope(MAX_UNTIL_MS)).unwrap();
    for scope in [run_scope(), until_scope(60_000)] {
        let event = Event::Decide(decide(&question, Verdict::Approve, scope, 1).unwrap());
        let state = walk(&question, &[(event, 1)]).unwrap();
        let recorded = canonical::encode(&state).unwrap();
        assert_eq!(canonical::decode::<State>(&recorded).unwrap(), state);
    }
    let why = wide(until_scope(MAX_UNTIL_MS + 2)).unwrap_err();
    assert!(why.to_string().ends_with("choose a later time, at most 8 hours off"), "{why}");
    assert!(matches!(wide(until_scope(1)), Err(BadDecision::Until { .. })));
    let other = Scope::Run { pattern: pattern("tools.call mailbox.search"), matched: 0 };
    assert!(matches!(wide(other), Err(BadDecision::PatternMisses(_))));
    assert!(matches!(decide(&question, Verdict::Deny, run_scope(), 1), Err(BadDecision::WideDenial)));
    let risky = ask(send("ann@example.com"));
    let scope = Scope::Run { pattern: pattern("tools.call mail.send"), matched: 0 };
    assert!(matches!(decide(&risky, Verdict::Approve, scope, 1), Err(BadDecision::OnceOnly)));
    assert!(decide(&risky, Verdict::Approve, Scope::Once, 1).is_ok());
}

#[test]
fn patterns_cover_what_they_say() {
    let covers = |text: &str, url: &str| pattern(text).matches(&get(url));
    let open = "http.fetch GET https://api.example.com/v1/*";
    for url in ["items", "", "items/7?full=1", "a.b/..c/d"] {
        assert!(covers(open, &format!("https://api.example.com/v1/{url}")), "{url}");
    }
    for url in [
        "https://api.example.com/v1",
        "https://api.example.com/v2/items",
        "https://api.example.com.evil.example/v1/items",
        "https://api.example.com:8443/v1/items",
        "http://api.example.com/v1/items",
        "https://api.example.com/v1/../admin",
        "https://api.example.com/v1/%2e%2E/admin",
        "https://api.example.com/v1/.%2e/admin",
        "https://api.example.com/v1/..;a=b/admin",
        "https://api.example.com/v1/x%2f..%2fadmin",
        "https://api.example.com/v1/%252e%252e/admin",
        "https://user@api.example.com/v1/items",
        "https://api.example.com/v1/a#b",
    ] {
        assert!(!covers(open, url), "{url}");
    }
    let mut post = get("https://api.example.com/v1/items");
    if let Effect::HttpFetch(request) = &mut post {
        request.method = "POST".into();
    }
    assert!(!pattern(open).matches(&post));
    let call = |name: &str| Effect::ToolsCall { name: name.into(), arguments: "{}".into() };
    assert!(pattern("tools.call mailbox.search").matches(&call("mailbox.search")));
    assert!(!pattern("tools.call mailbox.search").matches(&call("mailbox.search2")));
    assert!(pattern("tools.call mailbox.*").matches(&call("mailbox.search")));
    assert!(!pattern("tools.call mailbox.*").matches(&call("mailboxes")));
    let set = |key: &str| Effect::StorageSet { key: key.into(), value: "x".into() };
    assert!(pattern("storage.set notes/*").matches(&set("notes/1")));
    assert!(!pattern("storage.set notes/*").matches(&set("notes/../keys")));
    assert!(!pattern("storage.get notes/*").matches(&set("notes/1")));
    let past = [get(API), get("https://api.example.com/v2"), send("ann@example.com"), post];
    assert_eq!(pattern(open).count(&past), 1);
}

#[test]
fn patterns_are_written_strictly() {
    for text in [
        "http.fetch GET https://api.example.com/v1/*",
        "http.fetch POST https://api.example.com/v1/items?x=1",
        "tools.call mailbox.search",
        "tools.call mailbox.*",
        "model.generate other/*",
        "storage.delete notes/1",
        "agents.send bob",
    ] {
        assert_eq!(pattern(text).to_string(), text);
    }
    for text in [
        "*",
        "",
        "http.fetch",
        "http.* GET https://a.example/",
        "http.fetch * https://a.example/",
        "http.fetch get https://a.example/",
        "http.fetch GET https://*.example.com/",
        "http.fetch GET https://a.example*",
        "http.fetch GET https://*",
        "http.fetch GET https://a.example/v1*",
        "http.fetch GET https://a.example/?q=/*",
        "http.fetch GET https://a.example/../*",
        "http.fetch GET https://a.exаmple/*",
        "tools.call *",
        "tools.call mail*",
        "tools.call mailbox.search now",
        "tools.call ",
        "agents.send *",
        "storage.set *",
        "clock.now",
        "tools.call a\u{202e}b",
    ] {
        assert!(matches!(text.parse::<Pattern>(), Err(BadPattern::Text { .. })), "{text}");
    }
    assert!("tools.call a".repeat(100).parse::<Pattern>().is_err());
    assert_eq!(Pattern::of(&get(API)).unwrap().to_string(), format!("http.fetch GET {API}"));
    assert_eq!(Pattern::of(&send("a")).unwrap().to_string(), "tools.call mail.send");
    let odd = Effect::StorageGet { key: "a b*".into() };
    assert_eq!(Pattern::of(&odd).unwrap_err().to_string(), "no pattern can name this `storage.get`: approve it once");
}

#[test]
fn once_is_once() {
    let question = ask(send("ann@example.com"));
    let approved = walk(&question, &[(Event::Decide(yes(&question)), 10)]).unwrap();
    assert_eq!(approved.name(), "approved");
    let used = step(&question, &approved, &uses(send("ann@example.com")), &at(20)).unwrap();
    assert_eq!(used, State::Used { by: key_id(&key(1)) });
    let again = step(&question, &used, &uses(send("ann@example.com")), &at(21)).unwrap_err();
    assert_eq!(again.to_string(), "the question is used, so nothing may be done on it: ask anew");
    let refuses = |change: &dyn Fn(&mut lazaret_gate::approval::Attempt)| {
        let mut attempt = attempt(send("ann@example.com"));
        change(&mut attempt);
        step(&question, &approved, &Event::Use(Box::new(attempt)), &at(20)).unwrap_err()
    };
    assert!(matches!(refuses(&|a| a.effect = send("eve@example.com")), Refused::OtherArguments { .. }));
    assert!(matches!(refuses(&|a| a.agent = agent("other")), Refused::OtherAgent { .. }));
    assert!(matches!(refuses(&|a| a.run = "run-8".into()), Refused::OtherRun { .. }));
    assert!(matches!(refuses(&|a| a.policy = Digest::of(b"other")), Refused::OtherPolicy { .. }));
}

#[test]
fn every_wrong_step_is_refused() {
    let question = ask(get(API));
    let decide_event = || Event::Decide(yes(&question));
    let no = Event::Decide(decide(&question, Verdict::Deny, Scope::Once, 2).unwrap());
    let fails = |events: &[(Event, i64)]| walk(&question, events).unwrap_err();
    assert!(matches!(fails(&[(uses(get(API)), 1)]), Refused::NotApproved("pending")));
    assert!(matches!(fails(&[(Event::Expire, 1)]), Refused::NotYet));
    assert!(matches!(fails(&[(decide_event(), 1), (decide_event(), 2)]), Refused::Decided("approved")));
    assert!(matches!(fails(&[(no.clone(), 1), (decide_event(), 2)]), Refused::Decided("denied")));
    assert!(matches!(fails(&[(no, 1), (uses(get(API)), 2)]), Refused::NotApproved("denied")));
    assert!(matches!(fails(&[(decide_event(), END)]), Refused::Expired));
    assert!(matches!(fails(&[(decide_event(), 1), (uses(get(API)), END)]), Refused::Expired));
    assert!(matches!(fails(&[(Event::Expire, END), (decide_event(), END)]), Refused::Decided("expired")));
    assert!(matches!(fails(&[(Event::Withdraw, 1), (Event::Withdraw, 2)]), Refused::Over("withdrawn")));
    assert!(matches!(fails(&[(Event::Withdraw, 1), (uses(get(API)), 2)]), Refused::NotApproved("withdrawn")));
    assert!(matches!(fails(&[(Event::Revoke(key_id(&key(1))), 1)]), Refused::NotBy(_)));
    assert!(matches!(fails(&[(decide_event(), 1), (Event::Revoke(key_id(&key(2))), 2)]), Refused::NotBy(_)));
    let other = ask(get("https://api.example.com/v1/other"));
    assert!(matches!(fails(&[(Event::Decide(yes(&other)), 1)]), Refused::OtherQuestion { .. }));
    let revoked = walk(&question, &[(decide_event(), 1), (Event::Revoke(key_id(&key(1))), 2)]);
    assert_eq!(revoked, Ok(State::Withdrawn));
    assert_eq!(walk(&question, &[(decide_event(), 1), (Event::Expire, END)]), Ok(State::Expired));
}

#[test]
fn wider_scopes_last_and_end() {
    let question = ask(get(API));
    let other = get("https://api.example.com/v1/other");
    let run = Event::Decide(decide(&question, Verdict::Approve, run_scope(), 1).unwrap());
    let later = END + 1_000_000;
    let state = walk(&question, &[(run.clone(), 1), (uses(get(API)), 2), (uses(other.clone()), later)]).unwrap();
    assert!(matches!(state, State::Approved { uses: 2, .. }));
    assert!(matches!(step(&question, &state, &Event::EndRun, &at(later)), Ok(State::Withdrawn)));
    let end = i64::try_from(MAX_RUN_MS).unwrap();
    assert!(matches!(step(&question, &state, &uses(other.clone()), &at(end + 1)), Err(Refused::Expired)));
    let outside = uses(get("https://api.example.com/v2"));
    assert!(matches!(step(&question, &state, &outside, &at(later)), Err(Refused::OutOfPattern(_))));
    // What the pattern covers can still turn out to be too risky for a pattern.
    let mut risky = attempt(other.clone());
    risky.risk.tier = lazaret_gate::risk::RiskTier::High;
    assert_eq!(step(&question, &state, &Event::Use(Box::new(risky)), &at(later)), Err(Refused::OnceOnly));
    // And what the agent has seen since is more than the approver was told.
    let mut marked = attempt(other.clone());
    marked.labels = question.labels.iter().cloned().collect();
    assert!(step(&question, &state, &Event::Use(Box::new(marked.clone())), &at(later)).is_ok());
    marked.labels.insert("private".into());
    let new = step(&question, &state, &Event::Use(Box::new(marked)), &at(later)).unwrap_err();
    assert_eq!(new.to_string(), "the agent has seen something `private` after the question was asked: ask anew");
    let until = Event::Decide(decide(&question, Verdict::Approve, until_scope(3_600_000), 1).unwrap());
    let state = walk(&question, &[(until, 1)]).unwrap();
    let mut next_run = attempt(other);
    next_run.run = "run-8".into();
    let next_run = Event::Use(Box::new(next_run));
    assert!(step(&question, &state, &next_run, &at(3_599_999)).is_ok());
    assert_eq!(step(&question, &state, &next_run, &at(3_600_000)), Err(Refused::Expired));
    assert_eq!(step(&question, &state, &next_run, &now(-9_000_000, 3_600_000)), Err(Refused::Expired));
    assert_eq!(step(&question, &state, &Event::EndRun, &at(5)), Err(Refused::OutlastsRun));
}

/// Each clock alone is enough, and so is a new boot.
#[test]
fn the_strictest_clock_wins() {
    let question = ask(get(API));
    let approved = walk(&question, &[(Event::Decide(yes(&question)), 10)]).unwrap();
    let use_at = |now| step(&question, &approved, &uses(get(API)), &now);
    assert!(use_at(now(END - 1, END - 1)).is_ok());
    assert!(use_at(now(-1_000_000, 20)).is_ok(), "a wall clock set back gains nothing: the other one goes on");
    assert_eq!(use_at(now(END, 20)), Err(Refused::Expired));
    assert_eq!(use_at(now(20, END)), Err(Refused::Expired));
    assert_eq!(use_at(now(-1_000_000, END)), Err(Refused::Expired));
    assert_eq!(use_at(now(20, 9)), Err(Refused::Expired), "a monotonic clock that goes back is broken");
    let mut rebooted = at(20);
    rebooted.boot = "boot-2".into();
    assert_eq!(use_at(rebooted.clone()), Err(Refused::Expired));
    assert_eq!(step(&question, &approved, &Event::Expire, &rebooted), Ok(State::Expired));
}

/// What can happen, at random.
#[derive(Clone, Debug)]
enum Happens {
    Approve(u8),
    Deny(u8),
    Expire,
    Withdraw,
    EndRun,
    Revoke(u8),
    Use { changed: bool, run: bool },
    Jump { wall: i64, monotonic: u32 },
    Reboot,
}

fn happens() -> impl Strategy<Value = Happens> {
    let jump = (-200_000_i64..200_000, prop_oneof![0_u32..1000, 0_u32..200_000]);
    prop_oneof![
        4 => (1_u8..3).prop_map(Happens::Approve),
        1 => (1_u8..3).prop_map(Happens::Deny),
        1 => Just(Happens::Expire),
        1 => Just(Happens::Withdraw),
        1 => Just(Happens::EndRun),
        1 => (1_u8..3).prop_map(Happens::Revoke),
        6 => any::<(bool, bool)>().prop_map(|(changed, run)| Happens::Use { changed, run }),
        3 => jump.prop_map(|(wall, monotonic)| Happens::Jump { wall, monotonic }),
        1 => Just(Happens::Reboot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever happens in whatever order: one use at most, of the very effect, after one yes, in time.
    #[test]
    fn any_history(history in prop::collection::vec(happens(), 1..40)) {
        let question = ask(send("ann@example.com"));
        let (mut state, mut clock) = (State::Pending, at(0));
        let (mut executed, mut ever_past, mut said_no) = (0, false, false);
        for event in history {
            let event = match event {
                Happens::Jump { wall, monotonic } => {
                    clock.moment.wall_ms = clock.moment.wall_ms.saturating_add_signed(wall);
                    clock.moment.monotonic_ms += u64::from(monotonic);
                    continue;
                }
                Happens::Reboot => {
                    clock.boot += "'";
                    clock.moment.monotonic_ms = START.monotonic_ms;
                    continue;
                }
                Happens::Approve(by) => Event::Decide(decide(&question, Verdict::Approve, Scope::Once, by).unwrap()),
                Happens::Deny(by) => Event::Decide(decide(&question, Verdict::Deny, Scope::Once, by).unwrap()),
                Happens::Expire => Event::Expire,
                Happens::Withdraw => Event::Withdraw,
                Happens::EndRun => Event::EndRun,
                Happens::Revoke(by) => Event::Revoke(key_id(&key(by))),
                Happens::Use { changed, run } => {
                    let mut attempt = attempt(send(if changed { "eve@example.com" } else { "ann@example.com" }));
                    if run {
                        attempt.run = "run-8".into();
                    }
                    Event::Use(Box::new(attempt))
                }
            };
            let past = question.is_past(&clock);
            ever_past |= clock.boot != "boot-1" || clock.moment.monotonic_ms >= question.expires.monotonic_ms;
            let next = step(&question, &state, &event, &clock);
            prop_assert_eq!(&next, &step(&question, &state, &event, &clock), "the same again");
            let Ok(next) = next else { continue };
            prop_assert!(!state.is_final(), "{} became {}", state.name(), next.name());
            said_no |= matches!(next, State::Denied { .. } | State::Withdrawn | State::Expired);
            if let Event::Use(attempt) = &event {
                executed += 1;
                prop_assert!(!past && !ever_past && !said_no);
                prop_assert_eq!(&attempt.effect, &question.effect);
                prop_assert_eq!(&attempt.run, &question.run);
                prop_assert_eq!(state.name(), "approved");
            }
            state = next;
        }
        prop_assert!(executed <= 1);
        prop_assert_eq!(executed == 1, matches!(state, State::Used { .. }));
    }

    #[test]
    fn any_pattern_text_is_read_or_refused(text in "(http.fetch |tools.call |storage.set )?.{0,60}") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            prop_assert_eq!(pattern.to_string(), text);
        }
    }
}
