//! What people are shown: nothing unseen, nothing out of place, no two things alike.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::approval::{Draft, Moment, Now, Question, Requester, Scope};
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::risk::{Around, Table};
use lazaret_gate::shown::{self, COLUMNS, MAX_LINES};
use lazaret_gate::{Bytes, Digest, Effect};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

fn asked(effect: Effect) -> Question {
    let risk = Table::shipped().weigh(&effect, &Around::default());
    let draft = Draft {
        id: "q-1".into(),
        agent: "mailer".parse().unwrap(),
        run: "run-7".into(),
        effect,
        policy: Digest::of(b"policy"),
        rule: "ask-before-sending".into(),
        reason: "Mail can't be taken back.".into(),
        risk,
        labels: vec!["private".into(), "untrusted".into()],
        nonce: "0123456789abcdef".into(),
        requester: Requester::Agent("mailer".parse().unwrap()),
    };
    let moment = Moment { wall_ms: 1_781_234_567_890, monotonic_ms: 5_000 };
    Question::ask(draft, &Now { moment, boot: "boot-1".into() }, 120_000).unwrap()
}

fn call(arguments: &str) -> Effect {
    Effect::ToolsCall { name: "mail.send".into(), arguments: arguments.into() }
}

/// Reads a rendering back; what this undoes can't have been lost.
fn unrender(shown: &str) -> String {
    let mut out = String::new();
    let mut rest = shown;
    while let Some(at) = rest.find('⟨') {
        out += &rest[..at];
        let end = rest.find('⟩').unwrap();
        let code = rest[at..end].strip_prefix("⟨U+").unwrap();
        out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        rest = &rest[end + '⟩'.len_utf8()..];
    }
    out + rest
}

/// Written on its own, from the Unicode charts: blocks that run right to left, and what takes no room or moves others.
fn is_safe(c: char) -> bool {
    let code = u32::from(c);
    let right_to_left =
        matches!(code, 0x590..=0x8ff | 0xfb1d..=0xfdff | 0xfe70..=0xfeff | 0x10800..=0x10fff | 0x1e800..=0x1efff);
    let moves = matches!(code, 0x61c | 0x200b..=0x200f | 0x2028..=0x202f | 0x2060..=0x206f | 0xfff0..=0xffff);
    let selects = matches!(code, 0xfe00..=0xfe0f | 0x180b..=0x180f | 0xe0000..=0xe0fff);
    let private = matches!(code, 0xe000..=0xf8ff | 0xf0000..=0x10ffff);
    let blank =
        c != ' ' && (c.is_whitespace() || matches!(code, 0xad | 0x34f | 0x115f | 0x1160 | 0x2800 | 0x3164 | 0xffa0));
    !(c.is_control() || right_to_left || moves || selects || private || blank)
}

#[test]
fn known_texts() {
    for (text, shown) in [
        ("plain text, 100% of it: <a href=\"x\">'$`\\", "plain text, 100% of it: <a href=\"x\">'$`\\"),
        ("a\u{202e}b", "a⟨U+202E⟩b"),
        ("\u{1b}[2Jgone", "⟨U+001B⟩[2Jgone"),
        ("tab\tline\nend\r", "tab⟨U+0009⟩line⟨U+000A⟩end⟨U+000D⟩"),
        ("\u{9b}31m", "⟨U+009B⟩31m"),
        ("ze\u{200b}ro\u{feff}", "ze⟨U+200B⟩ro⟨U+FEFF⟩"),
        ("tag\u{e0041}\u{e007f}", "tag⟨U+E0041⟩⟨U+E007F⟩"),
        ("x\u{fe0f}\u{e0100}", "x⟨U+FE0F⟩⟨U+E0100⟩"),
        ("\u{e000}\u{10fffd}", "⟨U+E000⟩⟨U+10FFFD⟩"),
        // Mixed scripts, whole words in another script, look-alike signs, wide forms, ligatures.
        ("p\u{430}ypal", "p⟨U+0430⟩ypal"),
        ("\u{430}\u{440}\u{440}\u{4cf}\u{435}", "⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩"),
        ("a\u{2215}b\u{ff0f}c\u{2024}d", "a⟨U+2215⟩b⟨U+FF0F⟩c⟨U+2024⟩d"),
        ("\u{ff41}\u{ff42}", "⟨U+FF41⟩⟨U+FF42⟩"),
        ("\u{fb01}le", "⟨U+FB01⟩le"),
        ("\u{131}nfo", "⟨U+0131⟩nfo"),
        ("\u{212a}elvin", "⟨U+212A⟩elvin"),
        // Other people's languages are text.
        ("Grüße aus Köln", "Grüße aus Köln"),
        ("Привет, мир", "Привет, мир"),
        ("日本語のテキスト。", "日本語のテキスト。"),
        ("한국어", "한국어"),
        ("हिंदी", "हिंदी"),
        ("Ελληνικά 5 € — ok", "Ελληνικά 5 € — ok"),
        // A second spelling of é, and marks without end.
        ("cafe\u{301}", "cafe⟨U+0301⟩"),
        ("a\u{300}\u{300}\u{300}", "a⟨U+0300⟩⟨U+0300⟩⟨U+0300⟩"),
        // From right to left: its neighbours would move.
        ("שלום 1", "⟨U+05E9⟩⟨U+05DC⟩⟨U+05D5⟩⟨U+05DD⟩ 1"),
        // Marks of our own can't be forged.
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟨U+27E9⟩"),
        ("│ ┆", "⟨U+2502⟩ ⟨U+2506⟩"),
        ("ends with a space ", "ends with a space⟨U+0020⟩"),
        ("no\u{a0}break", "no⟨U+00A0⟩break"),
        ("🙂", "⟨U+1F642⟩"),
        ("", ""),
    ] {
        assert_eq!(shown::text(text), shown, "{text:?}");
    }
}

/// Every character of the planes that have any, some of the others, alone and inside words.
#[test]
fn every_character() {
    let mut as_itself = 0;
    let empty = ('\u{20000}'..='\u{dffff}').step_by(101).chain(('\u{e1000}'..=char::MAX).step_by(101));
    for c in ('\0'..='\u{1ffff}').chain('\u{e0000}'..='\u{e0fff}').chain(empty) {
        let around = [c.to_string(), format!("क{c}"), format!("a{c}b"), format!("я{c}я")];
        // Beyond the first plane there is little that letters could be mixed with.
        for text in around.into_iter().take(if c <= '\u{ffff}' { 4 } else { 1 }) {
            let shown = shown::text(&text);
            assert_eq!(unrender(&shown), text);
            assert!(shown.chars().all(is_safe), "{text:?} gives {shown:?}");
        }
        as_itself += usize::from(shown::text(&c.to_string()) == c.to_string());
    }
    assert!(as_itself > 25_000, "only {as_itself} characters are shown as themselves");
}

#[test]
fn a_question_is_complete() {
    let effect = Effect::HttpFetch(Request {
        method: "POST".into(),
        url: "https://xn--pple-43d.com/v1".into(),
        headers: vec![Header { name: "x-note".into(), value: "v".repeat(100) }],
        body: "line one\nline two\u{202e}\n".into(),
    });
    let question = asked(effect);
    let shown = shown::question(&question).then(shown::scope(&Scope::Once));
    assert!(!shown.hidden);
    let text = shown.text();
    let expected = "\
question    q-1
agent       mailer
run         run-7
asked by    agent mailer
effect      http.fetch
  method    POST
  url       https://xn--pple-43d.com/v1
  header    x-note
    value   vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv
            ┆ vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv
  body      21 bytes
  │ line one
  │ line two⟨U+202E⟩
  │
host        xn--pple-43d.com
  ascii     xn--pple-43d.com
  reads     ⟨U+0430⟩pple.com
rule        ask-before-sending
reason      Mail can't be taken back.
risk        high, 1.000, leaves the host
            +0.300 request
            +0.200 request-writes
            +0.200 host-unknown
            +0.300 host-lookalike
            +0.200 unseen-characters
labels      private, untrusted
";
    let (head, tail) = text.split_at(text.find("arguments").unwrap());
    assert_eq!(head, expected);
    assert!(tail.starts_with(&format!("arguments   {}\n", question.arguments)), "{tail}");
    assert!(tail.contains("\nasked       2026-06-12T03:22:47.890Z\nexpires     2026-06-12T03:24:47.890Z\n"), "{tail}");
    assert!(tail.ends_with("scope       this effect, once\n"), "{tail}");
}

#[test]
fn what_is_too_long_is_said_and_hidden() {
    let fits = shown::question(&asked(call(&"x\n".repeat(MAX_LINES - 40))));
    assert!(!fits.hidden && fits.lines.len() <= MAX_LINES);
    let long = shown::question(&asked(call(&"x\n".repeat(MAX_LINES))));
    assert!(long.hidden && long.lines.len() == MAX_LINES + 1);
    assert!(long.lines.last().unwrap().ends_with("more lines are not shown: this can be denied, not approved"));
    // A million hosts to look at, in a text of a megabyte.
    assert!(shown::question(&asked(call(&(0..90_000).map(|n| format!("x@é{n:06} ")).collect::<String>()))).hidden);
    let binary = Effect::StorageSet { key: "k".into(), value: Bytes(vec![0xff, 0, 1]) };
    assert!(shown::question(&asked(binary)).text().contains("not text, in hexadecimal\n  │ ff0001\n"));
}

#[test]
fn a_write_is_a_diff() {
    let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    let new = old.replace("line 10\n", "line ten\u{200b}\n");
    let expected = "\
--- before
+++ after
@@ -7,7 +7,7 @@
 │ line 7
 │ line 8
 │ line 9
-│ line 10
+│ line ten⟨U+200B⟩
 │ line 11
 │ line 12
 │ line 13
";
    assert_eq!(shown::diff(&old, &new).text(), expected);
    let effect = Effect::StorageSet { key: "notes".into(), value: new.as_str().into() };
    let shown = shown::question_over(&asked(effect), &old);
    assert!(!shown.hidden && shown.text().contains(expected));
    let arguments = serde_json::json!({ "path": "notes", "content": new }).to_string();
    let shown = shown::question_over(&asked(call(&arguments)), &old);
    assert!(shown.text().contains(expected) && shown.text().contains("  arguments "), "both");
    assert_eq!(shown::diff(&old, &old).text(), "nothing changes\n");
    assert_eq!(shown::diff("a\n", "a").lines.last().unwrap(), "-│", "a line break that goes is seen");
    let long = shown::diff(&"x\n".repeat(3_000), &"y\n".repeat(3_000));
    assert!(long.hidden && long.lines.len() == 1);
}

/// Characters that attacks are made of, and others.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        "[ -~]{1,4}",
        "[\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}]",
        "[\u{400}-\u{45f}]{1,3}",
        "[\u{590}-\u{6ff}]{1,2}",
        "[\u{900}-\u{97f}]{1,3}",
        "[\u{300}-\u{36f}]",
        "[⟨⟩│┆\n\r\t\u{1b} U+02]{1,6}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_safe_and_its_own(text in hostile(), other in hostile()) {
        let shown = shown::text(&text);
        prop_assert!(shown.chars().all(is_safe), "{shown:?}");
        prop_assert_eq!(unrender(&shown), text.clone());
        prop_assert_eq!(shown == shown::text(&other), text == other);
    }

    /// Two questions that differ are shown differently, wherever the difference is, and fit the terminal.
    #[test]
    fn any_question_is_safe_and_its_own(one in hostile(), two in hostile(), places in (0_u8..5, 0_u8..5)) {
        let with = |text: &str, place: u8| {
            let mut question = asked(call("{}"));
            match place {
                0 => question.effect = call(text),
                1 => question.effect = Effect::ToolsCall { name: text.into(), arguments: "{}".into() },
                2 => question.effect = Effect::StorageSet { key: "k".into(), value: text.into() },
                3 => question.run = text.into(),
                _ => question.reason = text.into(),
            }
            question
        };
        let (first, second) = (with(&one, places.0), with(&two, places.1));
        let shown = shown::question(&first);
        for line in &shown.lines {
            prop_assert!(line.chars().all(is_safe), "{line:?}");
            prop_assert!(line.width() <= COLUMNS, "{line:?}");
        }
        // Times and digests are the same in both, so what differs is what stands in the text.
        prop_assert_eq!(shown == shown::question(&second), first == second);
    }

    /// A diff shows both texts: each can be read back out of it.
    #[test]
    fn any_diff_holds_the_change(old in prop::collection::vec("[ab\u{200b}]{0,2}", 0..6), new in prop::collection::vec("[ab\u{202e}]{0,2}", 0..6)) {
        let (old, new) = (old.join("\n"), new.join("\n"));
        let lines = shown::diff(&old, &new).lines;
        let side = |sign: char| {
            let lines = lines.iter().filter(|line| line.starts_with(' ') || line.starts_with(sign));
            let bare: Vec<String> = lines.filter_map(|line| line.split_once('│')).map(|(_, line)| unrender(line.trim_start_matches(' '))).collect();
            bare.join("\n")
        };
        if old == new {
            prop_assert_eq!(lines, vec!["nothing changes".to_owned()]);
        } else {
            prop_assert_eq!((side('-'), side('+')), (old, new));
        }
    }
}
