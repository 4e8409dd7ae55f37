//! The shapes of credentials, as `policy/shapes.toml` has them: its own examples, and what can be wrong with such a file.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::leak::limits::{MAX_SHAPES, WINDOW};
use lazaret_gate::leak::{BadShapes, Shapes, Sniffer};

const FILE: &str = include_str!("../../../policy/shapes.toml");

/// An example with its `{kind count}` spelled out.
fn spelled(example: &str) -> String {
    let mut out = String::new();
    let mut rest = example;
    while let Some(open) = rest.find('{') {
        let (before, inner) = rest.split_at(open);
        out += before;
        let close = inner.find('}').unwrap();
        let (kind, count) = inner[1..close].rsplit_once(' ').unwrap_or(("", &inner[1..close]));
        let alphabet: &[u8] = match kind {
            "hex" => b"0f1e2d3c4b5a69788796a5b4",
            "up" => b"Q7WXE2RTYU3IOPL4KJH5GFD6SAZ",
            "num" => b"4820917356",
            "letters" => b"qWxErTyUiOpLkJhGfDsAzCvBnM",
            "bech" => b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
            _ => b"a7Bq9Zk3Xw1Lm5Vt0Rd8Nc2Hs6Yj4Gf",
        };
        match count.parse() {
            Ok(count) => out.extend(alphabet.iter().cycle().take(count).map(|byte| char::from(*byte))),
            // Braces of the example's own.
            Err(_) => out += &inner[..=close],
        }
        rest = &inner[close + 1..];
    }
    out + rest
}

/// Each shape's name, and its examples of one kind.
fn examples(key: &str) -> Vec<(String, String)> {
    let file: toml::Table = FILE.parse().unwrap();
    let rows = file["shape"].as_array().unwrap().iter();
    rows.flat_map(|row| {
        let name = row["name"].as_str().unwrap().to_owned();
        let examples = row[key].as_array().unwrap().iter();
        examples.map(move |example| (name.clone(), spelled(example.as_str().unwrap()))).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn what_must_match_does_wherever_it_stands() {
    let shapes = Shapes::shipped().unwrap();
    for (name, example) in examples("matches") {
        let json = serde_json::to_string(&format!("line\n{example}\n")).unwrap();
        let percent: String = format!("q={example}").bytes().map(|byte| format!("%{byte:02X}")).collect();
        for text in [example.clone(), format!("a {example} b"), json, percent] {
            let found = shapes.scan(text.as_bytes()).map(|found| found.shape);
            assert_eq!(found, Some(name.as_str()), "{text}");
            for size in [1, 3, 7, 16, 64] {
                let mut sniffer = Sniffer::new(shapes);
                let found = text.as_bytes().chunks(size).find_map(|piece| sniffer.push(piece));
                assert_eq!(
                    found.or(sniffer.finish()).map(|found| found.shape),
                    Some(name.as_str()),
                    "{text} by {size}"
                );
            }
        }
        assert!(!shapes.reason(&name).unwrap().is_empty());
    }
}

#[test]
fn what_must_not_match_does_not() {
    let shapes = Shapes::shipped().unwrap();
    for (name, example) in examples("misses") {
        for text in [example.clone(), format!("a {example} b")] {
            assert_eq!(shapes.scan(text.as_bytes()), None, "{name}: {text}");
        }
    }
}

#[test]
fn every_start_is_shown_to_work() {
    let file: toml::Table = FILE.parse().unwrap();
    let rows = file["shape"].as_array().unwrap();
    assert!(rows.len() >= 30, "{}", rows.len());
    let shapes = Shapes::shipped().unwrap();
    assert_eq!(shapes.names().count(), rows.len());
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let starts: Vec<&str> = row["starts"].as_array().unwrap().iter().map(|start| start.as_str().unwrap()).collect();
        let example = spelled(row["matches"][0].as_str().unwrap());
        let used = starts.iter().find(|start| example.contains(**start)).unwrap();
        for start in &starts {
            let text = example.replacen(used, start, 1);
            assert_eq!(shapes.scan(text.as_bytes()).map(|found| found.shape), Some(name), "{text}");
        }
    }
}

/// The offset is where it begins, also far into a text and across the border of what is looked at in one go.
#[test]
fn it_says_where() {
    let shapes = Shapes::shipped().unwrap();
    let token = spelled("ghp_{36}");
    for at in [0, 5, 1_000, WINDOW - 20, WINDOW - 1, WINDOW, 2 * WINDOW + 7] {
        let text = [vec![b'.'; at], token.clone().into_bytes(), vec![b'.'; 3 * WINDOW - at]].concat();
        let found = shapes.scan(&text).unwrap();
        assert_eq!((found.shape, found.offset), ("github-token", at));
    }
    let found = shapes.scan(format!("{{\"a\\n\": \"\\n{token}\"}}").as_bytes()).unwrap();
    assert_eq!(found.offset, 11);
}

/// What an attacker would write to make it slow: nothing but beginnings.
#[test]
fn a_text_of_beginnings_is_read_in_one_go() {
    let shapes = Shapes::shipped().unwrap();
    for start in ["eyJ", "-eyJ", "sk-ant-", ".eyJ", "-----BEGIN ", "postgres://", "SG.SG.", "eyJ."] {
        let text = start.repeat((1 << 20) / start.len());
        assert_eq!(shapes.scan(text.as_bytes()), None, "{start}");
    }
}

#[test]
fn a_bad_file_is_refused_whole() {
    let row = |name: &str, starts: &str, then: &str, reason: &str, matches: &str| {
        format!(
            "[[shape]]\nname = '{name}'\nstarts = [{starts}]\nthen = '{then}'\nreason = '{reason}'\nmatches = [{matches}]\nmisses = ['x']\n"
        )
    };
    let good = row("a", "'abc'", "[0-9]{4}", "why", "'abc1234'");
    assert!(Shapes::parse(&good).unwrap().scan(b"abc1234").is_some());
    let why = |text: String| Shapes::parse(&text).err().unwrap().to_string();
    assert_eq!(
        why(row("A", "'abc'", "x", "why", "'x'")),
        "shape `A`: a name is 1 to 80 lower-case letters, digits and `-`"
    );
    assert_eq!(why(row("a", "", "x", "why", "'x'")), "shape `a`: it has no `starts`");
    assert_eq!(
        why(row("a", "'ab'", "x", "why", "'x'")),
        "shape `a`: the start `ab` is shorter than 3 bytes and would be found everywhere"
    );
    assert_eq!(why(row("a", "'abc'", "x", " ", "'x'")), "shape `a`: it gives no reason");
    assert_eq!(
        why(row("a", "'abc'", "x", "why", "")),
        "shape `a`: it needs examples of what matches and of what misses"
    );
    assert_eq!(why(good.clone() + &good), "shape `a`: there is another of this name");
    assert!(why(row("a", "'abc'", "(", "why", "'x'")).starts_with("shape `a`: regex parse error"));
    assert!(why(row("a", "'abc'", "x)|(y", "why", "'x'")).starts_with("shape `a`: regex parse error"));
    assert!(why(row("a", "'abc'", "(a{1000}){1000}", "why", "'x'")).starts_with("shape `a`:"));
    assert!(why("[[shape]]\nnome = 'a'\n".into()).starts_with("the shapes can't be read"));
    let many: String = (0..=MAX_SHAPES).map(|n| row(&format!("a{n}"), "'abc'", "x", "why", "'x'")).collect();
    assert_eq!(
        Shapes::parse(&many).err(),
        Some(BadShapes::Size { what: "shapes", found: MAX_SHAPES + 1, limit: MAX_SHAPES })
    );
}

/// What was made to take long is not looked at for long, and isn't taken for clean either.
#[test]
fn escapes_nested_without_end_are_no_way_past() {
    let shapes = Shapes::shipped().unwrap();
    let tokens = ["%25%32%35", "\\\\\\u0041", "&amp;amp;", "%5Cx41", "&#x25;41", "\\u0026"];
    for count in [6_000, 40_000] {
        let text: String = tokens.iter().cycle().take(count).copied().collect();
        assert_eq!(shapes.scan(text.as_bytes()).map(|found| found.shape), Some(Shapes::TANGLED), "{count}");
    }
}
