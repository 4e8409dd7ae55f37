//! The use of a secret, as the gate sees it: a slot, and where its value would go.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use lazaret_gate::approval::Pattern;
use lazaret_gate::effect::{Header, Request as Fetch};
use lazaret_gate::limits::MAX_HANDLES;
use lazaret_gate::policy::{BadRequest, Facts, Kind, Request, Uid, Who};
use lazaret_gate::refusal::Code;
use lazaret_gate::risk::{Around, Table};
use lazaret_gate::{Effect, Grants, Refusal, stages};

fn using(slot: &str, method: &str, url: &str) -> Effect {
    Effect::SecretUse { slot: slot.into(), method: method.into(), url: url.into() }
}

fn of(effect: &Effect) -> Result<Request, BadRequest> {
    let risk = Table::shipped().weigh(effect, &Around::default());
    let facts = Facts { run: "r".into(), tier: "A".into(), ..Facts::default() };
    Request::of(effect, &Who::new(Kind::Agent, "clerk"), &facts, &risk)
}

fn grants(names: &[&str]) -> Grants {
    Grants::new(names.iter().map(|name| name.parse().unwrap()).collect())
}

fn asked(effect: Effect, grants: &Grants) -> Result<(), Refusal> {
    stages::form(effect).and_then(|formed| stages::declared(formed, grants)).map(drop)
}

#[test]
fn rules_see_where_it_would_go() {
    let request = of(&using("token", "POST", "https://api.example.com:8443/v1/%61?q=1")).unwrap();
    let context = &request.context;
    assert_eq!((request.action.as_str(), &request.resource), ("secret.use", &Uid::new(Kind::Secret, "token")));
    assert_eq!((context.host.as_deref(), context.method.as_deref()), (Some("api.example.com"), Some("POST")));
    assert_eq!((context.scheme.as_deref(), context.port), (Some("https"), Some(8443)));
    assert_eq!(context.path.as_deref(), Some("/v1/a"));
    assert!(matches!(of(&using("token", "POST", "https://example.com/a/../b")), Err(BadRequest::Url(_))));
    // Only its name: then there is nothing to see, and no half of it either.
    let named = of(&using("token", "", "")).unwrap().context;
    assert_eq!((named.host, named.method, named.scheme, named.port, named.path), (None, None, None, None, None));
}

#[test]
fn a_slot_is_granted_by_name() {
    let granted = grants(&["http:api.example.com", "secret:github"]);
    assert_eq!(asked(using("github", "", ""), &granted), Ok(()));
    assert_eq!(asked(using("github", "GET", "https://anywhere.example/"), &granted), Ok(()), "the binding says where");
    let no = asked(using("mail", "", ""), &granted).unwrap_err();
    assert_eq!(no.code, Code::NotGranted);
    assert_eq!(no.reason, "`secret.use` needs `secret:mail`; the nearest grant is `secret:github`: the slot differs");
    for odd in [using("No Slot", "", ""), using("github", "GET", ""), using("github", "", "https://a.example/")] {
        assert_eq!(asked(odd.clone(), &granted).unwrap_err().code, Code::BadAsk, "{odd:?}");
    }
}

#[test]
fn a_request_has_so_many_secrets_and_no_more() {
    let with = |count: usize| {
        let header = |at| Header { name: format!("x-{at}"), value: format!("lazaret-secret:s{at}") };
        let headers = (0..count).map(header).collect();
        let (method, url) = ("GET".into(), "https://api.example.com/".into());
        Effect::HttpFetch(Fetch { method, url, headers, body: "".into() })
    };
    let granted = grants(&["http:api.example.com"]);
    assert_eq!(asked(with(MAX_HANDLES), &granted), Ok(()));
    let no = asked(with(MAX_HANDLES + 1), &granted).unwrap_err();
    assert_eq!(no.reason, "`http.fetch`: the number of secrets in it is 9, the most is 8");
}

#[test]
fn a_wider_approval_names_the_slot() {
    let pattern = Pattern::of(&using("github", "GET", "https://api.example.com/")).unwrap();
    assert_eq!(pattern.to_string(), "secret.use github");
    assert!(pattern.matches(&using("github", "POST", "https://api.example.org/")));
    assert!(!pattern.matches(&using("mail", "GET", "https://api.example.com/")));
    assert!("secret.use git*".parse::<Pattern>().is_err(), "no half of a name");
}
