//! The broker with a vault of three values: what leaves, what doesn't, and what comes back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazaret_exec::Broker;
use lazaret_exec::broker::{Errand, Filling, Form, Outgoing, Secrets, Unfilled};
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::leak::Guard;
use lazaret_gate::outcome::Response;
use lazaret_gate::refusal::{Code, Layer, Refusal};
use lazaret_gate::secret::{Slot, uses};
use lazaret_gate::{AgentId, Answer, Effect, Undone};
use zeroize::Zeroizing;

const GIT: &str = "tr0ub4dor&3-git/Key+One";
const MAPS: &str = "m4ps/key?with=odd&bytes";
const MAIL: &str = "correct-horse-battery";
const URL: &str = "https://api.example.org/v1/user";

/// Slots of agent `clerk`, all bound to the same host.
struct Safe {
    slots: Mutex<HashMap<&'static str, (Form, &'static str)>>,
}

impl Safe {
    fn new() -> Arc<Self> {
        let bearer = Form::Header { name: "authorization".into(), prefix: "Bearer ".into() };
        let slots = HashMap::from([
            ("git", (bearer, GIT)),
            ("maps", (Form::Query { name: "key".into() }, MAPS)),
            ("mail", (Form::Basic { user: "ada".into() }, MAIL)),
        ]);
        Arc::new(Self { slots: Mutex::new(slots) })
    }
}

impl Secrets for Safe {
    fn admits(&self, agent: &AgentId, slot: &Slot, errand: Option<&Errand>) -> Result<(), Unfilled> {
        let known = self.slots.lock().unwrap().contains_key(slot.as_str());
        if agent.as_str() != "clerk" || !known {
            return Err(Unfilled::Unbound);
        }
        match errand.filter(|errand| errand.place.as_grant() != "api.example.org") {
            Some(_) => Err(Unfilled::Elsewhere { why: "another host".into(), hosts: vec!["api.example.org".into()] }),
            None => Ok(()),
        }
    }

    fn fill(&self, agent: &AgentId, slot: &Slot, errand: &Errand) -> Result<Filling, Unfilled> {
        self.admits(agent, slot, Some(errand))?;
        let (form, value) = self.slots.lock().unwrap()[slot.as_str()].clone();
        Ok(Filling { form, value: Zeroizing::new(value.as_bytes().to_vec()) })
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        let slots = self.slots.lock().unwrap();
        let mut values: Vec<_> = slots.iter().map(|(slot, (_, value))| (*slot, *value)).collect();
        values.sort_unstable();
        Guard::new(values).map(|guard| Some(Arc::new(guard))).map_err(|why| why.to_string())
    }
}

fn broker(secrets: Arc<Safe>) -> Broker {
    Broker::new("clerk".parse().unwrap(), secrets)
}

fn request(url: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let header = |(name, value): &(&str, &str)| Header { name: (*name).to_owned(), value: (*value).to_owned() };
    let headers = headers.iter().map(header).collect();
    Request { method: "GET".into(), url: url.into(), headers, body: body.into() }
}

fn ok() -> Response {
    Response { status: 200, headers: Vec::new(), body: "fine".into() }
}

/// As a guest's request comes: the use of each slot first.
fn ask(broker: &mut Broker, request: Request) -> Result<Outgoing, Undone> {
    for using in uses(&request) {
        let Effect::SecretUse { slot, method, url } = using else { panic!("not a use") };
        let answer = broker.admit(&slot, &method, &url)?;
        assert_eq!(answer, Answer::Handle(format!("lazaret-secret:{slot}")));
    }
    let mut sent = None;
    broker.fetch(request, |outgoing| {
        sent = Some(outgoing);
        Ok(ok())
    })?;
    Ok(sent.expect("it was sent"))
}

fn refusal(asked: Result<Outgoing, Undone>) -> Refusal {
    match asked {
        Err(Undone::Cut(refusal)) => *refusal,
        Err(Undone::Failed(why)) => panic!("failed: {why}"),
        Err(Undone::TooLarge) => panic!("too large"),
        Ok(_) => panic!("it was sent"),
    }
}

fn header(sent: &Outgoing, name: &str) -> String {
    let (_, value) = sent.headers.iter().find(|(named, _)| named == name).expect("the header is there");
    String::from_utf8(value.to_vec()).unwrap()
}

#[test]
fn a_value_takes_the_place_of_its_handle() {
    let mut broker = broker(Safe::new());
    let sent = ask(&mut broker, request(URL, &[("authorization", "Bearer lazaret-secret:git")], "")).unwrap();
    assert_eq!((sent.url(), header(&sent, "authorization")), (URL, format!("Bearer {GIT}")));
    let sent = ask(&mut broker, request(URL, &[("authorization", "lazaret-secret:git")], "")).unwrap();
    assert_eq!(header(&sent, "authorization"), format!("Bearer {GIT}"), "the prefix is the binding's");

    for handle in ["lazaret-secret:maps", "lazaret-secret%3Amaps"] {
        let url = format!("{URL}?a=1&key={handle}&b=2");
        let sent = ask(&mut broker, request(&url, &[], "")).unwrap();
        assert_eq!(sent.url(), format!("{URL}?a=1&key=m4ps%2Fkey%3Fwith%3Dodd%26bytes&b=2"));
    }
    let basic = format!("Basic {}", STANDARD.encode(format!("ada:{MAIL}")));
    let wrapped = format!("Basic {}", STANDARD.encode("ada:lazaret-secret:mail"));
    for written in ["Basic lazaret-secret:mail", &wrapped] {
        let sent = ask(&mut broker, request(URL, &[("authorization", written)], "")).unwrap();
        assert_eq!(header(&sent, "authorization"), basic);
    }
    let both = request(
        &format!("{URL}?key=lazaret-secret:maps"),
        &[("accept-encoding", "gzip"), ("authorization", "Bearer lazaret-secret:git"), ("x-plain", "1")],
        "text",
    );
    let sent = ask(&mut broker, both).unwrap();
    let names: Vec<_> = sent.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["authorization", "x-plain"], "packed bytes can't be searched");
    assert_eq!(sent.body, b"text");
}

#[test]
fn a_use_is_for_one_request() {
    let mut broker = broker(Safe::new());
    let with_git = || request(URL, &[("authorization", "Bearer lazaret-secret:git")], "");
    let unasked = broker.fetch(with_git(), |_| panic!("sent")).unwrap_err();
    assert!(matches!(unasked, Undone::Cut(no) if no.code == Code::SecretNotBound));
    broker.admit("git", "GET", URL).unwrap();
    broker.fetch(with_git(), |_| Ok(ok())).unwrap();
    assert!(broker.fetch(with_git(), |_| panic!("sent twice for one use")).is_err());
    broker.admit("git", "POST", URL).unwrap();
    assert!(broker.fetch(with_git(), |_| panic!("sent by another method")).is_err());
    broker.admit("git", "GET", &format!("{URL}/2")).unwrap();
    assert!(broker.fetch(with_git(), |_| panic!("sent elsewhere")).is_err());
    // What was let pass before a crash still is.
    broker.recall("git", "GET", URL);
    broker.fetch(with_git(), |_| Ok(ok())).unwrap();
}

#[test]
fn what_is_not_bound_is_not_filled() {
    let safe = Safe::new();
    let mut broker = broker(safe.clone());
    let elsewhere = request("https://evil.example/x?q=1", &[("authorization", "Bearer lazaret-secret:git")], "");
    let no = refusal(ask(&mut broker, elsewhere));
    assert_eq!((no.code, no.layer), (Code::SecretNotBound, Layer::Secrets));
    assert_eq!(
        no.reason,
        "the secret for slot `git` goes only to api.example.org, and this is `GET https://evil.example:443/x`: another host"
    );
    assert!(no.remedy.contains("lazaret secret bind"), "{no}");
    let no = refusal(ask(&mut broker, request(URL, &[("authorization", "lazaret-secret:other")], "")));
    assert_eq!(no.reason, "no secret is bound to slot `other` of agent `clerk`");
    assert!(no.remedy.contains("--agent clerk --slot other --host api.example.org"), "{no}");
    assert_eq!(broker.admit("git", "", "").unwrap(), Answer::Handle("lazaret-secret:git".into()));
    assert!(broker.admit("none", "", "").is_err());
    assert!(broker.admit("No Slot", "", "").is_err());

    // Taken back between the use and the request.
    broker.admit("git", "GET", URL).unwrap();
    safe.slots.lock().unwrap().remove("git");
    let with_git = request(URL, &[("authorization", "Bearer lazaret-secret:git")], "");
    assert!(broker.fetch(with_git, |_| panic!("sent")).is_err());

    let mut other = Broker::new("other".parse().unwrap(), Safe::new());
    assert!(other.admit("git", "GET", URL).is_err());
    assert!(Broker::default().admit("git", "GET", URL).is_err());
}

#[test]
fn a_handle_in_the_wrong_place_is_refused() {
    for (asked, says) in [
        (request(URL, &[], "token=lazaret-secret:git"), "the body has the handle of slot `git`"),
        (request(URL, &[], "token=lazaret-secret%3Agit"), "the body has the handle of slot `git`"),
        (request("https://api.example.org/lazaret-secret:git", &[], ""), "the URL has the handle of slot `git`"),
        (request("https://api.example.org/lazaret-secret%3agit", &[], ""), "the URL has the handle"),
        (request(&format!("{URL}?lazaret-secret:git=1"), &[], ""), "the name of a query parameter has the handle"),
        (request(&format!("{URL}?lazaret-secret:git"), &[], ""), "the name of a query parameter has the handle"),
        (request(URL, &[("lazaret-secret:git", "1")], ""), "a header's name has the handle of slot `git`"),
        (request(URL, &[("x-token", "lazaret-secret:git")], ""), "elsewhere than in the header `authorization`"),
        (request(&format!("{URL}?key=lazaret-secret:git"), &[], ""), "elsewhere than in the header `authorization`"),
        (request(URL, &[("x-key", "lazaret-secret:maps")], ""), "the whole value of the query parameter `key`"),
        (request(&format!("{URL}?k=lazaret-secret:maps"), &[], ""), "the whole value of the query parameter `key`"),
        (request(&format!("{URL}?key=a-lazaret-secret:maps"), &[], ""), "the whole value of the query parameter"),
        (request(URL, &[("authorization", "lazaret-secret:git lazaret-secret:git")], ""), "another handle in it"),
        (request(URL, &[("authorization", "lazaret-secret:git lazaret-secret:mail")], ""), "another handle in it"),
    ] {
        let no = refusal(ask(&mut broker(Safe::new()), asked));
        assert_eq!((no.code, no.layer), (Code::SecretLeak, Layer::Secrets), "{no}");
        assert!(no.reason.contains(says), "{no} / {says}");
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Every form in which a value must not pass.
fn forms(value: &str) -> Vec<String> {
    vec![
        value.to_owned(),
        STANDARD.encode(value),
        STANDARD.encode(format!("x{value}")),
        STANDARD.encode(format!("xy{value}z")),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value),
        hex(value),
        hex(value).to_uppercase(),
        percent(value),
    ]
}

#[test]
fn a_value_is_not_sent_by_hand_in_any_form() {
    for form in forms(GIT) {
        let escaped = form.replace(['&', '+', '/'], "-");
        let in_query = if form == GIT { format!("{URL}?q={}", percent(GIT)) } else { format!("{URL}?q={escaped}") };
        let query_hides_it = form != GIT && escaped != form;
        let mut asked = vec![
            (request(URL, &[("x-note", &form)], ""), "the header `x-note`"),
            (request(URL, &[], &format!("{{\"note\":\"{form}\"}}")), "the body"),
        ];
        if !query_hides_it {
            asked.push((request(&in_query, &[], ""), "the URL"));
        }
        for (asked, place) in asked {
            let no = refusal(ask(&mut broker(Safe::new()), asked));
            assert_eq!(no.code, Code::SecretLeak, "{form}: {no}");
            assert!(no.reason.starts_with(place) && no.reason.contains("secret `git`"), "{form}: {no}");
            assert!(!no.to_string().contains(GIT) && !no.to_string().contains(&form), "{no}");
        }
    }
    // Its own host too: by the handle, or not at all.
    let by_hand = request(URL, &[("authorization", &format!("Bearer {GIT}"))], "");
    assert_eq!(refusal(ask(&mut broker(Safe::new()), by_hand)).code, Code::SecretLeak);
    let shape = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    let tangle = ["%25%32%35", "\\u0041", "&amp;amp;", "%5Cx41", "&#x25;41", "\\u0026"].concat().repeat(1_000);
    let no = refusal(ask(&mut Broker::default(), request(URL, &[("x-note", &tangle)], "")));
    assert!(no.code == Code::SecretLeak && no.reason.contains("can't be searched for credentials"), "{no}");
    let no = refusal(ask(&mut Broker::default(), request(URL, &[("authorization", &shape)], "")));
    assert!(no.reason.contains("the header `authorization` has something in it that looks like a credential"), "{no}");
    assert!(!no.reason.contains(&shape), "{no}");
}

#[test]
fn what_comes_back_has_no_value_in_it() {
    for form in forms(GIT) {
        let mut broker = broker(Safe::new());
        broker.admit("git", "GET", URL).unwrap();
        let asked = request(URL, &[("authorization", "Bearer lazaret-secret:git")], "");
        let headers = [("x-echo", format!("Bearer {form}")), (&*format!("x-{form}"), "1".to_owned())]
            .map(|(name, value)| Header { name: name.to_owned(), value });
        let body = format!("you sent {form}, and {MAIL} is somebody else's").into_bytes();
        let echo = Response { status: 200, headers: headers.to_vec(), body: body.into() };
        let response = broker.fetch(asked, |_| Ok(echo)).unwrap();
        let body = String::from_utf8(response.body.0).unwrap();
        assert!(body.starts_with("you sent ") && body.contains("[lazaret-secret:git]"), "{form}: {body}");
        assert!(body.ends_with("and [lazaret-secret:mail] is somebody else's"), "{body}");
        assert_eq!(response.headers.len(), 1, "{:?}", response.headers);
        assert!(response.headers[0].value.contains("[lazaret-secret:git]"), "{:?}", response.headers);
        assert!(!format!("{:?}{body}", response.headers).contains(&form));
    }
}

#[test]
fn a_failure_and_a_packed_answer_tell_nothing() {
    let mut broker = broker(Safe::new());
    let asked = || request(URL, &[("authorization", "Bearer lazaret-secret:git")], "");
    broker.admit("git", "GET", URL).unwrap();
    let why = broker.fetch(asked(), |_| Err(format!("no route with {GIT}").into())).unwrap_err();
    assert_eq!(why, Undone::Failed("no route with [lazaret-secret:git]".into()));
    broker.admit("git", "GET", URL).unwrap();
    let headers = vec![Header { name: "content-encoding".into(), value: "zstd".into() }];
    let packed = Response { status: 200, headers, body: "…".into() };
    let Undone::Failed(why) = broker.fetch(asked(), |_| Ok(packed.clone())).unwrap_err() else { panic!("no") };
    assert!(why.contains("withheld"), "{why}");
    assert_eq!(broker.fetch(request(URL, &[], ""), |_| Ok(packed.clone())).unwrap(), packed);
}

#[test]
fn a_value_that_changes_under_way_is_not_sent() {
    /// Gives out a value that its guard doesn't know.
    struct Torn(Arc<Safe>);
    impl Secrets for Torn {
        fn admits(&self, agent: &AgentId, slot: &Slot, errand: Option<&Errand>) -> Result<(), Unfilled> {
            self.0.admits(agent, slot, errand)
        }
        fn fill(&self, agent: &AgentId, slot: &Slot, errand: &Errand) -> Result<Filling, Unfilled> {
            let filling = self.0.fill(agent, slot, errand)?;
            Ok(Filling { value: Zeroizing::new(b"a-newer-value-of-it".to_vec()), ..filling })
        }
        fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
            self.0.guard()
        }
    }
    let mut broker = Broker::new("clerk".parse().unwrap(), Arc::new(Torn(Safe::new())));
    broker.admit("git", "GET", URL).unwrap();
    let asked = request(URL, &[("authorization", "Bearer lazaret-secret:git")], "");
    let Undone::Failed(why) = broker.fetch(asked, |_| panic!("sent")).unwrap_err() else { panic!("no") };
    assert!(why.contains("nothing was sent"), "{why}");
}
