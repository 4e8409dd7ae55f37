//! The leak guard in figures: ten thousand values in every form, and how often it is wrong about the text of this
//! repository. `cargo test -p lazaret-gate --test leak_figures` prints them, with fewer values; `LAZARET_LEAK_CANARIES=10000` takes
//! as many.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]
#![expect(clippy::disallowed_methods, reason = "a test reads the repository and prints its figures past the capture")]

use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lazaret_gate::leak::{Guard, Redactor, Shapes};

/// How many values.
fn canaries() -> usize {
    std::env::var("LAZARET_LEAK_CANARIES").map_or(1_000, |many| many.parse().unwrap())
}

fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit
    }

    fn text(&mut self, alphabet: &[u8], len: usize) -> Vec<u8> {
        (0..len).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const SIGNS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// Tokens, some with a prefix that a thousand share, passwords with signs, and keys of plain bytes.
fn canary(dice: &mut Dice, n: usize) -> Vec<u8> {
    let len = 8 + dice.below(56);
    match n % 4 {
        0 => dice.text(LETTERS, len),
        1 => [b"sk_canary_".to_vec(), dice.text(LETTERS, len)].concat(),
        2 => dice.text(SIGNS, len),
        _ => (0..len.max(16)).map(|_| dice.next().to_le_bytes()[0]).collect(),
    }
}

fn percent(bytes: &[u8], keeps: impl Fn(u8) -> bool) -> Vec<u8> {
    bytes.iter().flat_map(|b| if keeps(*b) { vec![*b] } else { format!("%{b:02X}").into_bytes() }).collect()
}

fn json(value: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(value);
    let quoted = serde_json::to_string(&text).unwrap();
    quoted.as_bytes()[1..quoted.len() - 1].to_vec()
}

type Write = fn(&[u8]) -> Vec<u8>;

/// The forms, by name.
const FORMS: [(&str, Write); 13] = [
    ("raw", <[u8]>::to_vec),
    ("base64", |value| STANDARD.encode(value).into_bytes()),
    ("base64, 1 before", |value| STANDARD.encode([b"k", value, b"!"].concat()).into_bytes()),
    ("base64, 2 before", |value| STANDARD.encode([b"k:", value, b"!"].concat()).into_bytes()),
    ("base64url", |value| URL_SAFE_NO_PAD.encode(value).into_bytes()),
    ("base64 in a query", |value| percent(STANDARD.encode(value).as_bytes(), |byte| byte.is_ascii_alphanumeric())),
    ("hex", |value| value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()),
    ("HEX", |value| value.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect()),
    ("percent, all", |value| percent(value, |_| false)),
    ("percent, reserved", |value| percent(value, |byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))),
    ("json", json),
    ("json in json", |value| json(&json(value))),
    ("html", |value| {
        let text = String::from_utf8_lossy(value).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', "&quot;").replace('\'', "&#39;").into_bytes()
    }),
];

#[test]
fn canaries_in_every_form() {
    let mut dice = Dice(5);
    let canaries: Vec<Vec<u8>> = (0..canaries()).map(|n| canary(&mut dice, n)).collect();
    let fit = canaries.iter().enumerate().filter(|(_, value)| lazaret_gate::leak::fit(value).is_ok());
    let guard = Guard::new(fit.clone().map(|(n, value)| (format!("c{n}"), value))).unwrap();
    let (mut written, mut found, mut left, mut bytes) = (0, 0, 0, 0);
    for (name, write) in FORMS {
        let mut text = Vec::new();
        let mut places = Vec::new();
        for (n, value) in fit.clone() {
            // JSON and HTML are of text.
            if matches!(name, "json" | "json in json" | "html") && std::str::from_utf8(value).is_err() {
                continue;
            }
            text.extend(dice.text(SIGNS, 5));
            text.extend(b"\n <");
            let form = write(value);
            let hit = guard.scan(&form);
            assert_eq!(hit.map(|hit| hit.slot), Some(format!("c{n}").as_str()), "{name}");
            text.extend(&form);
            text.extend(b"> \n");
            places.push(form);
        }
        let mut clean = Vec::new();
        let mut redactor = Redactor::new(&guard);
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(1 + dice.below(20_000)));
            redactor.push(piece, &mut clean);
            rest = more;
        }
        redactor.finish(&mut clean);
        assert_eq!(clean, &guard.redact(&text)[..], "{name}: cut or whole");
        written += places.len();
        bytes += text.len();
        found += clean
            .windows(18)
            .filter(|part| part == b"[lazaret-secret:c1" || part.starts_with(b"[lazaret-secret:c"))
            .count();
        left += usize::from(guard.scan(&clean).is_some());
    }
    say(&format!(
        "leak: {} canaries, {written} times in {} forms, {bytes} bytes: {found} found, {left} left",
        fit.count(),
        FORMS.len()
    ));
    assert_eq!((found, left), (written, 0));
}

/// What of the repository is ours; the rest is built, fetched or somebody's notes.
const FOLDERS: [&str; 12] =
    ["crates", "decisions", "dist", "docs", "examples", "fuzz", "guests", "policy", "tests", "tools", "wit", "xtask"];

/// Every text file below a folder, but what is built there.
fn texts(folder: &Path, each: &mut impl FnMut(&Path, &[u8])) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_symlink() || ["target", "node_modules", "build", ".git"].contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            texts(&path, each);
        } else if let Ok(bytes) = std::fs::read(&path)
            && std::str::from_utf8(&bytes).is_ok()
        {
            each(&path, &bytes);
        }
    }
}

#[test]
fn the_repository_has_no_false_alarm() {
    let mut dice = Dice(7);
    let many = canaries();
    let values: Vec<Vec<u8>> = (0..many).map(|n| canary(&mut dice, n)).collect();
    let fit = values.iter().filter(|value| lazaret_gate::leak::fit(value).is_ok());
    let guard = Guard::new(fit.enumerate().map(|(n, value)| (format!("c{n}"), value))).unwrap();
    let shapes = Shapes::shipped().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.starts_with("[workspace]"), "{} is not the repository", root.display());
    let (mut files, mut bytes, mut values, mut likenesses) = (0, 0, 0, Vec::new());
    let mut look = |path: &Path, text: &[u8]| {
        // It is nothing but examples.
        if path.ends_with("policy/shapes.toml") {
            return;
        }
        files += 1;
        bytes += text.len();
        values += usize::from(guard.scan(text).is_some());
        let found = shapes.scan(text).map(|found| (path.display().to_string(), found.shape, found.offset));
        likenesses.extend(found);
    };
    for folder in FOLDERS.iter().map(|name| root.join(name)).filter(|folder| folder.is_dir()) {
        texts(&folder, &mut look);
    }
    say(&format!(
        "leak: {files} files of this repository, {bytes} bytes: {values} with a value of {many}, {} with a shape",
        likenesses.len()
    ));
    for likeness in &likenesses {
        say(&format!("leak: {likeness:?}"));
    }
    assert_eq!(values, 0);
    assert_eq!(likenesses, []);
}
