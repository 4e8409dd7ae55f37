//! What a manifest may declare, and what is said of one that can't stand.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use lazaret_gate::limits::{MAX_DECLARED_HOSTS, MAX_DECLARED_SLOTS, MAX_MANIFEST, MAX_PURPOSE};
use lazaret_gate::record::AgentCreated;
use lazaret_gate::slots::{BadSlots, Flaw, Slots};
use lazaret_gate::{Grant, canonical};
use proptest::prelude::*;
use serde_json::json;

const TWO: &str = r#"
# The keys of an assistant.
[[secrets]]
slot = "mail"
purpose = "reads your mail"

[[secrets]]
slot = "github"
purpose = "reads the issues of your repositories"
hosts = ["uploads.github.com:8443", "api.github.com", "http://127.0.0.1:8080"]
required = true
"#;

fn says(text: &str) -> String {
    Slots::read(text).unwrap_err().to_string()
}

fn one(rest: &str) -> String {
    format!("[[secrets]]\nslot = \"a\"\npurpose = \"b\"\n{rest}\n")
}

#[test]
fn a_manifest_declares_slots() {
    let slots = Slots::read(TWO).unwrap();
    let names: Vec<_> = slots.iter().map(|declared| declared.slot().as_str()).collect();
    assert_eq!(names, ["github", "mail"], "by name, however they are written");
    let github = slots.get("github").unwrap();
    assert_eq!(github.purpose(), "reads the issues of your repositories");
    assert_eq!(github.host_texts(), ["api.github.com", "uploads.github.com:8443", "http://127.0.0.1:8080"]);
    let mail = slots.get("mail").unwrap();
    assert!(github.is_required() && !mail.is_required() && mail.hosts().is_empty());
    let place = |text| lazaret_gate::grant::Origin::of_grant(text).unwrap();
    assert!(github.admits(&place("api.github.com:443")) && mail.admits(&place("anywhere.example")));
    for other in ["github.com", "api.github.com:8443", "http://api.github.com", "http://127.0.0.1", "127.0.0.1:8080"] {
        assert!(!github.admits(&place(other)), "{other}");
    }
    let grants: Vec<_> = slots.grants().map(|grant: Grant| grant.to_string()).collect();
    assert_eq!(grants, ["secret:github", "secret:mail"]);
    assert!(slots.get("other").is_none());
    assert!(Slots::read("").unwrap().is_empty() && Slots::read("# nothing\n").unwrap().is_empty());
}

#[test]
fn what_cannot_stand_is_named_with_its_line() {
    let many_slots: String =
        (0..=MAX_DECLARED_SLOTS).map(|at| format!("[[secrets]]\nslot = \"s{at}\"\npurpose = \"p\"\n")).collect();
    let many_hosts: Vec<String> = (0..=MAX_DECLARED_HOSTS).map(|at| format!("\"h{at}.example\"")).collect();
    let long = "x".repeat(MAX_PURPOSE + 1);
    for (text, expected) in [
        ("[[secrets]]\nslot = \"a\"\npurpose = \"b\"\nhost = \"c\"".to_owned(), "line 4: unknown field `host`"),
        ("name = \"x\"".to_owned(), "line 1: unknown field `name`"),
        ("[[secrets]]\nslot = \"a\"".to_owned(), "line 1: missing field `purpose`"),
        ("[[secrets]]\npurpose = \"a\"".to_owned(), "line 1: missing field `slot`"),
        ("[[secrets]\n".to_owned(), "line 1: "),
        ("\n\nthis is no TOML".to_owned(), "in `this is no TOML`; a manifest has `[[secrets]]` tables"),
        (
            one("required = \"yes\""),
            "line 4: invalid type: string \"yes\", expected a boolean, in `required = \"yes\"`",
        ),
        (one("hosts = \"api.example\""), "line 4: invalid type: string"),
        (one("hosts = [\n  \"ok.example\",\n  \"API.example\"]"), "line 6: slot `a` names the host `API.example`: "),
        (one("hosts = [\"a.example/x\"]"), "line 4: slot `a` names the host `a.example/x`: "),
        (one("hosts = [\"http://a.example\"]"), "`http://a.example`: it is plain http, over which anybody"),
        (one("hosts = [\"ftp://a.example\"]"), "line 4: slot `a` names the host `ftp://a.example`: "),
        (one("hosts = [\"\"]"), "line 4: slot `a` names the host ``: "),
        (one("hosts = [\"a.example\", \"a.example:443\"]"), "names the host `a.example:443`: it is named twice"),
        (one(&format!("hosts = [{}]", many_hosts.join(","))), "line 4: slot `a` names too many hosts; the most is 8"),
        (format!("{0}{0}", one("")), "line 6: slot `a` is declared twice"),
        (many_slots, "line 50: there are too many slots; the most is 16"),
        ("[[secrets]]\nslot = \"A\"\npurpose = \"b\"".to_owned(), "line 2: `A` is no name for a slot"),
        (
            "[[secrets]]\nslot = \"a\"\npurpose = \" \"".to_owned(),
            "line 3: slot `a` has the purpose `⟨U+0020⟩`: it says nothing",
        ),
        ("[[secrets]]\nslot = \"a\"\npurpose = \"b\\nc\"".to_owned(), ": it has a line break in it"),
        (format!("[[secrets]]\nslot = \"a\"\npurpose = \"{long}\""), "…`: it is too long; say in one line"),
    ] {
        let said = says(&text);
        assert!(said.contains(expected), "{text}\n{said}");
        assert!(said.len() < 600 && !said.contains('\n'), "{said}");
    }
    let large = "#".repeat(MAX_MANIFEST + 1);
    assert_eq!(Slots::read(&large), Err(BadSlots { line: None, flaw: Flaw::Large(MAX_MANIFEST + 1) }));
}

#[test]
fn what_is_quoted_is_visible() {
    let said = says("[[secrets]]\nslot = \"a\"\npurpose = \"b\"\nhosts = [\"a\\u001b[2Jb\\u202e\"]");
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    // A purpose may hold anything but a line break: whoever shows it makes it visible.
    let slots = Slots::read("[[secrets]]\nslot = \"a\"\npurpose = \"b\\u001b\\u202ec\"").unwrap();
    assert_eq!(slots.get("a").unwrap().purpose(), "b\u{1b}\u{202e}c");
}

#[test]
fn a_record_has_them_in_one_spelling() {
    let slots = Slots::read(TWO).unwrap();
    let bytes = canonical::encode(&slots).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.starts_with(r#"[{"hosts":["api.github.com","#), "{text}");
    assert_eq!(canonical::decode::<Slots>(&bytes).unwrap(), slots);
    for bad in [
        r#"[{"hosts":[],"purpose":"p","required":false,"slot":"b"},{"hosts":[],"purpose":"p","required":false,"slot":"a"}]"#,
        r#"[{"hosts":["b.example","a.example"],"purpose":"p","required":false,"slot":"a"}]"#,
        r#"[{"hosts":["a.example:443"],"purpose":"p","required":false,"slot":"a"}]"#,
        r#"[{"purpose":"p","required":false,"slot":"a"}]"#,
        r#"[{"hosts":[],"mood":1,"purpose":"p","required":false,"slot":"a"}]"#,
    ] {
        assert!(canonical::decode::<Slots>(bad.as_bytes()).is_err(), "{bad}");
    }
    // Whoever sends them may leave out what is usual, and has them in any order.
    let sent = r#"[{"slot":"mail","purpose":"reads your mail"}]"#;
    assert_eq!(serde_json::from_str::<Slots>(sent).unwrap().iter().count(), 1);
    assert!(serde_json::from_str::<Slots>(r#"[{"slot":"a","purpose":"p","hosts":["http://a.example"]}]"#).is_err());
}

/// Records from before slots were declared read, and are written, as they were.
#[test]
fn an_agent_without_slots_is_recorded_as_before() {
    let digest = "0".repeat(64);
    let caps = String::from_utf8(canonical::encode(&lazaret_gate::ledger::Caps::default()).unwrap()).unwrap();
    let budget = String::from_utf8(canonical::encode(&lazaret_gate::Budget::default()).unwrap()).unwrap();
    let old = format!(
        r#"{{"agent":"bo","budget":{budget},"caps":{caps},"component":"{digest}","engine":"{digest}","grants":["log"],"image":null,"world":"stateless"}}"#
    );
    let created: AgentCreated = canonical::decode(old.as_bytes()).unwrap();
    assert!(created.slots.is_empty());
    assert_eq!(canonical::encode(&created).unwrap(), old.as_bytes());
}

proptest! {
    /// Whatever a file holds, it is read or refused.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Slots::read(&text).map_err(|why| why.to_string());
    }

    /// The same of what is nearly a manifest; and what is read is written and read again as the same.
    #[test]
    fn near_manifests_too(
        slot in "[a-zA-Z0-9._\\u{0}-\\u{1f}\"-]{0,70}",
        purpose in "\\PC{0,210}",
        hosts in prop::collection::vec("(http://)?[a-z0-9.:\\[\\]%/-]{0,24}", 0..10),
        required in any::<bool>(),
        tail in "[\\PC\n]{0,20}",
    ) {
        // JSON's strings and lists are TOML's too.
        let (name, purpose, hosts) = (json!(slot), json!(purpose), json!(hosts));
        let lines = format!("slot = {name}\npurpose = {purpose}\nhosts = {hosts}\nrequired = {required}\n");
        if let Ok(slots) = Slots::read(&format!("[[secrets]]\n{lines}")) {
            prop_assert_eq!(slots.iter().next().unwrap().slot().as_str(), slot);
            let bytes = canonical::encode(&slots).unwrap();
            prop_assert_eq!(canonical::decode::<Slots>(&bytes).unwrap(), slots);
        }
        let _ = Slots::read(&format!("[[secrets]]\n{lines}{tail}")).map_err(|why| why.to_string());
    }
}
