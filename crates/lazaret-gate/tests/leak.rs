//! The leak guard: whatever a value is, however it is written, wherever it stands and however the text is cut, it is found;
//! and what is left after redaction has no trace of it.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use lazaret_gate::leak::limits::{MAX_SECRET, MAX_SLOT, MIN_SECRET};
use lazaret_gate::leak::{Form, Guard, Misfit, Redactor, Scanner, Unfit, fit};
use proptest::prelude::*;

/// Values of all sorts: tokens, passphrases, bytes, and those that encoders trip over.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let text = |pattern: &str| proptest::string::string_regex(pattern).unwrap().prop_map(String::into_bytes);
    prop_oneof![
        4 => text("[A-Za-z0-9_-]{8,60}"),
        2 => text("[ -~]{8,40}"),
        2 => text("[a-c%\\\\&\"/+ =#;x0-9]{8,30}"),
        2 => proptest::collection::vec(any::<u8>(), 8..80),
        1 => text("[a-zà-ÿα-ω😀-😎 ]{8,20}"),
    ]
    .prop_filter("guardable", |value| fit(value).is_ok())
}

/// What surrounds it: words, escapes, encoded bytes, anything.
fn around() -> impl Strategy<Value = Vec<u8>> {
    let text = |pattern: &str| proptest::string::string_regex(pattern).unwrap().prop_map(String::into_bytes);
    prop_oneof![
        3 => text("[A-Za-z0-9 .,\n]{0,60}"),
        2 => text("[%\\\\&a-f0-9u;#]{0,40}"),
        2 => text("[A-Za-z0-9+/]{0,40}"),
        1 => proptest::collection::vec(any::<u8>(), 0..60),
    ]
}

fn hex(bytes: &[u8], upper: bool) -> Vec<u8> {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if upper { text.to_uppercase().into_bytes() } else { text.into_bytes() }
}

fn percent(bytes: &[u8], upper: bool, keeps: impl Fn(u8) -> bool) -> Vec<u8> {
    let byte = |byte: u8| match (keeps(byte), upper) {
        (true, _) => vec![byte],
        (_, true) => format!("%{byte:02X}").into_bytes(),
        (_, false) => format!("%{byte:02x}").into_bytes(),
    };
    bytes.iter().flat_map(|b| byte(*b)).collect()
}

fn entities(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".into(),
            '<' => "&lt;".into(),
            '>' => "&gt;".into(),
            '"' => "&quot;".into(),
            '\'' => "&#39;".into(),
            c if c.is_ascii() => c.to_string(),
            c => format!("&#x{:x};", u32::from(c)),
        })
        .collect()
}

/// JSON with nothing but ASCII in it, as Python writes it.
fn ascii_json(text: &str) -> String {
    let inner = serde_json::to_string(text).unwrap();
    let units = |c: char| {
        let mut units = [0; 2];
        c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
    };
    inner[1..inner.len() - 1].chars().map(|c| if c.is_ascii() { c.to_string() } else { units(c) }).collect()
}

fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// The value in every form that is promised, each with its name.
fn forms(value: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = vec![
        ("raw", value.to_vec()),
        ("hex", hex(value, false)),
        ("HEX", hex(value, true)),
        ("percent, all", percent(value, true, |_| false)),
        ("percent, all, small", percent(value, false, |_| false)),
        ("percent, reserved", percent(value, true, unreserved)),
        ("percent, reserved, small", percent(value, false, unreserved)),
        ("percent, twice", percent(&percent(value, true, unreserved), true, unreserved)),
        (
            "form",
            percent(value, true, |byte| unreserved(byte) || byte == b' ')
                .iter()
                .map(|b| if *b == b' ' { b'+' } else { *b })
                .collect(),
        ),
    ];
    for engine in [&STANDARD, &URL_SAFE] {
        forms.push(("base64", engine.encode(value).into_bytes()));
        for prefix in [&b"a"[..], b"ab", b"user:"] {
            forms.push(("base64, inside", engine.encode([prefix, value, b"tail"].concat()).into_bytes()));
        }
        forms.push(("base64, percent", percent(engine.encode(value).as_bytes(), true, unreserved)));
    }
    if let Ok(text) = std::str::from_utf8(value) {
        let json = serde_json::to_string(text).unwrap();
        let json = &json[1..json.len() - 1];
        let twice = serde_json::to_string(json).unwrap();
        forms.push(("json", json.as_bytes().to_vec()));
        forms.push(("json, twice", twice.as_bytes()[1..twice.len() - 1].to_vec()));
        forms.push(("json, percent", percent(json.as_bytes(), true, unreserved)));
        forms.push(("json, solidus", json.replace('/', "\\/").into_bytes()));
        forms.push(("json, ascii", ascii_json(text).into_bytes()));
        forms.push(("html", entities(text).into_bytes()));
    }
    forms
}

/// A text cut at these places, as many as there are.
fn pieces<'t>(text: &'t [u8], cuts: &[prop::sample::Index]) -> Vec<&'t [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
}

fn streamed(guard: &Guard, pieces: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut redactor = Redactor::new(guard);
    pieces.iter().for_each(|piece| redactor.push(piece, &mut out));
    redactor.finish(&mut out);
    out
}

fn guard(value: &[u8]) -> Guard {
    Guard::new([("mail/key", value)]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_form_is_found_wherever_it_stands(value in value(), before in around(), after in around()) {
        let guard = guard(&value);
        for (name, form) in forms(&value) {
            // What an encoder wrote does not begin in the middle of an escape that somebody else left open.
            let text = [&before[..], b" ", &form, b" ", &after].concat();
            let hit = guard.scan(&text);
            prop_assert!(hit.is_some(), "{name}: {:?}", String::from_utf8_lossy(&text));
            prop_assert_eq!(hit.unwrap().slot, "mail/key");
            let clean = guard.redact(&text);
            prop_assert!(guard.scan(&clean).is_none(), "{name}: {:?}", String::from_utf8_lossy(&clean));
            prop_assert!(clean.windows(16).any(|window| window == b"[lazaret-secret:"));
            prop_assert!(!clean.windows(form.len()).any(|window| window == form), "{name} is still there");
        }
    }

    #[test]
    fn cuts_make_no_difference(
        value in value(), before in around(), after in around(), which in any::<prop::sample::Index>(),
        again in any::<prop::sample::Index>(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let guard = guard(&value);
        let forms = forms(&value);
        let (one, two) = (&which.get(&forms).1, &again.get(&forms).1);
        for text in [[&before[..], b" ", one, &after, two].concat(), [&before[..], one, two, &after].concat()] {
            let cut = pieces(&text, &cuts);
            let whole = guard.redact(&text);
            prop_assert_eq!(streamed(&guard, &cut), &whole[..], "{:?}", cut);
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(streamed(&guard, &bytes), &whole[..], "byte by byte");
            let mut scanner = Scanner::new(&guard);
            let found = cut.iter().filter_map(|piece| scanner.push(piece).map(|hit| hit.slot.to_owned())).next();
            prop_assert_eq!(found.is_some(), guard.scan(&text).is_some());
        }
    }

    #[test]
    fn other_text_is_left_alone(value in value(), text in around(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let guard = guard(&value);
        prop_assume!(!text.windows(4).any(|part| value.windows(4).any(|other| part == other)));
        prop_assert!(matches!(guard.redact(&text), std::borrow::Cow::Borrowed(_)));
        prop_assert_eq!(streamed(&guard, &pieces(&text, &cuts)), text);
    }

    #[test]
    fn many_values_overlapping(
        seed in proptest::collection::vec(proptest::sample::select(&b"abcd"[..]), 8..40),
        spans in proptest::collection::vec((any::<prop::sample::Index>(), 8usize..20), 1..6),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let text = seed.repeat(4);
        let spans = spans.iter().map(|(at, len)| { let at = at.index(seed.len()); text[at..at + len].to_vec() });
        let values: Vec<Vec<u8>> = spans.filter(|value| fit(value).is_ok()).collect();
        let named = values.iter().enumerate().map(|(n, value)| (format!("s{n}"), value));
        let guard = Guard::new(named).unwrap();
        let clean = guard.redact(&text);
        for value in &values {
            prop_assert!(!clean.windows(value.len()).any(|window| window == value));
        }
        prop_assert_eq!(streamed(&guard, &pieces(&text, &cuts)), &clean[..]);
    }
}

#[test]
fn a_hit_says_whose_and_where_and_how() {
    let guard = Guard::new([("stripe", "rk-4f9a\"b7c1 d2"), ("mail", "correct horse battery")]).unwrap();
    let found = |text: &str| guard.scan(text.as_bytes()).map(|hit| (hit.slot.to_owned(), hit.form, hit.offset));
    assert_eq!(found("x=rk-4f9a\"b7c1 d2;"), Some(("stripe".into(), Form::Raw, 2)));
    assert_eq!(found(r#"{"x":"rk-4f9a\"b7c1 d2"}"#), Some(("stripe".into(), Form::Escaped, 6)));
    assert_eq!(found("q=correct+horse+battery"), Some(("mail".into(), Form::Escaped, 2)));
    assert_eq!(found("q=correct%20horse%20battery"), Some(("mail".into(), Form::Escaped, 2)));
    let basic = format!("Basic {}", STANDARD.encode("me:correct horse battery"));
    assert_eq!(found(&basic), Some(("mail".into(), Form::Base64, 10)));
    assert_eq!(found("636f727265637420686F727365206261747465727900"), Some(("mail".into(), Form::Hex, 0)));
    assert_eq!(found("correct horse batterie"), None);
    let hit = guard.scan(b"correct horse battery").unwrap();
    assert_eq!(hit.to_string(), "the value for slot `mail`, as it is, at byte 0");
    assert_eq!(
        String::from_utf8_lossy(&guard.redact(format!("{basic}, rk-4f9a\"b7c1 d2!").as_bytes())),
        "Basic bWU6[lazaret-secret:mail], [lazaret-secret:stripe]!"
    );
}

/// The character of base64 that has the last bits of a value in it goes too, and the one with the first.
#[test]
fn no_bits_are_left_at_the_edges_of_base64() {
    let value = b"0123456789abcdefXYZ";
    let guard = guard(value);
    for ahead in 0..3 {
        let encoded = STANDARD_NO_PAD.encode([&b"\xff\xff\xff"[..ahead], value, b"\xff\xff\xff"].concat());
        let clean = guard.redact(encoded.as_bytes()).into_owned();
        let text = String::from_utf8(clean).unwrap();
        let (left, right) = (text.find('[').unwrap(), text.len() - text.find(']').unwrap() - 1);
        // Whole characters of what isn't the value.
        assert_eq!(left, ahead * 8 / 6, "{text}");
        assert!(right <= 24 / 6, "{text}");
    }
}

#[test]
fn what_cannot_be_guarded_is_refused_with_the_reason() {
    assert_eq!(fit(b"1234567"), Err(Misfit::Short { found: 7 }));
    assert_eq!(fit(b"12345678"), Ok(()));
    assert_eq!(fit(b"1111222233"), Err(Misfit::Uniform { found: 3 }));
    assert_eq!(fit(&b"abcdefgh".repeat(MAX_SECRET / 8)), Ok(()));
    assert_eq!(fit(&b"abcdefgh".repeat(MAX_SECRET / 8 + 1)), Err(Misfit::Long { found: MAX_SECRET + 8 }));
    let refused = |slot: &str, value: &str| Guard::new([(slot, value)]).unwrap_err().to_string();
    assert_eq!(
        refused("pin", "1234"),
        "the value for slot `pin` can't be guarded: it has 4 bytes; below 8 it would be found in texts that have nothing to do with it"
    );
    assert!(refused("", "a-good-value").starts_with("`` is no name for a slot: write 1 to 128"));
    assert!(refused("a]b", "a-good-value").starts_with("`a]b` is no name"));
    assert!(refused(&"a".repeat(MAX_SLOT + 1), "a-good-value").contains("is no name"));
    let named = Guard::new([("other", "something else"), ("my-password", "my-password")]).unwrap_err();
    assert_eq!(named, Unfit::Placeholder { nth: 2 });
    assert!(!named.to_string().contains("my-password"), "{named}");
    const { assert!(MIN_SECRET == 8) };
}

/// Nothing that can be printed has the value in it.
#[test]
fn nothing_prints_a_value() {
    let value = "hunter2-hunter2-hunter2";
    let guard = guard(value.as_bytes());
    let text = format!("a {value} b");
    let printed = format!("{guard:?} {:?} {:?}", guard.scan(text.as_bytes()), Guard::new([("a", &value[..7])]));
    assert!(!printed.contains("hunter"), "{printed}");
}

#[test]
fn an_empty_guard_changes_nothing() {
    let guard = Guard::new(std::iter::empty::<(&str, &[u8])>()).unwrap();
    assert_eq!(guard.scan(b"anything at all %41 \\u0041"), None);
    assert_eq!(streamed(&guard, &[b"any", b"thing"]), b"anything");
}

/// A stream is not held back for longer than it takes: what can't become a value comes out at once.
#[test]
fn only_what_could_be_a_value_is_held_back() {
    let guard = guard(b"abcdefgh-12345678");
    let mut out = Vec::new();
    let mut redactor = Redactor::new(&guard);
    let mut said = |piece: &str| {
        out.clear();
        redactor.push(piece.as_bytes(), &mut out);
        String::from_utf8(out.clone()).unwrap()
    };
    assert_eq!(said("data: hello\n\n"), "data: hello\n\n");
    assert_eq!(said("data: abcdefgh-1234"), "data:");
    assert_eq!(said("5678\n"), " [lazaret-secret:mail/key]\n");
    assert_eq!(said("data: abcdefgh-1234"), "data:");
    assert_eq!(said("x\n"), " abcdefgh-1234x\n");
    assert_eq!(said("data: abcdefgh%2"), "data:");
    assert_eq!(said("D12345678."), " [lazaret-secret:mail/key].");
}

/// A value that repeats itself, in a stream of nothing else: one placeholder, and memory that doesn't grow.
#[test]
fn an_endless_overlap_is_one_placeholder() {
    let guard = guard(b"abcdabcdabcd");
    let text = b"abcd".repeat(50_000);
    let clean = guard.redact(&text);
    assert_eq!(&clean[..], b"[lazaret-secret:mail/key]");
    let cut: Vec<&[u8]> = text.chunks(1_013).collect();
    assert_eq!(streamed(&guard, &cut), &clean[..]);
}

/// Texts larger than what is looked at in one go, with a value across the border in every way.
#[test]
fn windows_share_what_lies_between_them() {
    let value = b"s3cr3t/with \"quotes\" & more";
    let guard = guard(value);
    let forms = forms(value);
    for (name, form) in &forms {
        for back in [1, form.len() / 2, form.len()] {
            let mut text = b"lorem ipsum dolor sit %41 amet \\n ".repeat(300_000 / 34);
            let at = lazaret_gate::leak::limits::WINDOW - back;
            text.splice(at..at, [b" ", &form[..], b" "].concat());
            let clean = guard.redact(&text);
            assert_eq!(clean.windows(16).filter(|part| part == b"[lazaret-secret:").count(), 1, "{name}, {back}");
            assert!(guard.scan(&clean).is_none(), "{name}, {back}");
        }
    }
}

/// The longest value there is, in the longest form.
#[test]
fn the_longest_value_is_found_across_pieces() {
    let value: Vec<u8> = (0..MAX_SECRET).map(|n| (n * 7 + n / 256) as u8).collect();
    let guard = guard(&value);
    let text = [b"<", &percent(&percent(&value, true, |_| false), true, unreserved)[..], b">"].concat();
    let cut: Vec<&[u8]> = text.chunks(1_400).collect();
    assert_eq!(streamed(&guard, &cut), b"<[lazaret-secret:mail/key]>");
    let base = URL_SAFE_NO_PAD.encode(&value);
    assert_eq!(guard.scan(base.as_bytes()).unwrap().form, Form::Base64);
}

/// What was made to take long is not looked at for long: it is refused, and nothing of it passes.
#[test]
fn escapes_nested_without_end_are_refused() {
    let guard = Guard::new([("github", "rk-4f9a-b7c1-d2e3")]).unwrap();
    let tokens = ["%25%32%35", "\\\\\\u0041", "&amp;amp;", "%5Cx41", "&#x25;41", "\\u0026"];
    let text: String = tokens.iter().cycle().take(40_000).copied().collect();
    let hit = guard.scan(text.as_bytes()).unwrap();
    assert_eq!((hit.slot, hit.form), ("", Form::Tangled));
    assert!(hit.to_string().contains("more escapes than can be undone"), "{hit}");
    let clean = guard.redact(text.as_bytes());
    assert!(clean.starts_with(b"[lazaret: too many escapes") && clean.len() < 100, "{}", clean.len());
    let mut streamed = Vec::new();
    let mut redactor = Redactor::new(&guard);
    text.as_bytes().chunks(50_000).for_each(|piece| redactor.push(piece, &mut streamed));
    redactor.finish(&mut streamed);
    assert!(streamed.starts_with(b"[lazaret: too many escapes") && streamed.len() < 100, "{}", streamed.len());
    // What people send is nothing of the kind: a page with addresses in it, in JSON, in JSON.
    let page = "<a href=\"/x?q=a%20b&amp;c=%2Fd\">a &lt; b</a>\n".repeat(5_000);
    let json = serde_json::to_string(&serde_json::to_string(&page).unwrap()).unwrap();
    assert_eq!(guard.scan(json.as_bytes()), None);
}
