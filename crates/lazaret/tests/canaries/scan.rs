//! The search. It shares no code with what is searched for: it knows that all canaries begin alike, and how that beginning
//! looks in each form.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use lazaret_gate::Digest;
use lazaret_store::Store;

/// How every canary begins, and nothing else does.
pub(crate) const MARK: &str = "c4n4ry?Zq7~";

/// What was found, and how much was looked at.
#[derive(Default)]
pub(crate) struct Found {
    /// Where, and in which form.
    pub(crate) hits: Vec<(String, &'static str)>,
    pub(crate) files: usize,
    pub(crate) bytes: usize,
    forms: Vec<(&'static str, Vec<u8>)>,
}

fn percent(text: &str, all: bool, upper: bool) -> String {
    let one = |byte: u8| match (all || !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)), upper) {
        (false, _) => char::from(byte).to_string(),
        (true, true) => format!("%{byte:02X}"),
        (true, false) => format!("%{byte:02x}"),
    };
    text.bytes().map(one).collect()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A canary in each form, as somebody would write it.
pub(crate) fn written(canary: &str) -> Vec<(&'static str, String)> {
    vec![
        ("raw", canary.to_owned()),
        ("base64", STANDARD.encode(canary)),
        ("base64-one-in", STANDARD.encode(format!("a{canary}"))),
        ("base64-two-in", STANDARD.encode(format!("ab{canary}"))),
        ("base64-url", URL_SAFE.encode(canary)),
        ("hex", hex(canary)),
        ("hex-upper", hex(canary).to_uppercase()),
        ("url", percent(canary, false, true)),
        ("url-lower", percent(canary, false, false)),
        ("url-all", percent(canary, true, true)),
        ("url-all-lower", percent(canary, true, false)),
    ]
}

/// What every canary has in common in each form.
pub(crate) fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let canaries = [format!("{MARK}0123456789"), format!("{MARK}zyxwvutsrq")];
    let both = written(&canaries[0]).into_iter().zip(written(&canaries[1]));
    let common = |(form, one): (&'static str, String), (_, two): (_, String)| {
        let same: Vec<u8> = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
        // The first of base64 letters may be partly of what stands before.
        let skip = if form.starts_with("base64-") && form != "base64-url" { 4 } else { 0 };
        (form, same[skip..].to_vec())
    };
    both.map(|(one, two)| common(one, two)).collect()
}

impl Found {
    pub(crate) fn new() -> Self {
        Self { forms: forms(), ..Self::default() }
    }

    /// Looks at bytes, and at what every long word of base64 in them stands for.
    pub(crate) fn add(&mut self, place: &str, bytes: &[u8]) {
        self.files += 1;
        self.bytes += bytes.len();
        self.look(place, bytes);
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        for word in bytes.split(|byte| !letter(byte)).filter(|word| word.len() >= 16) {
            if let Ok(inner) = STANDARD.decode(word) {
                self.look(place, &inner);
            }
        }
    }

    fn look(&mut self, place: &str, bytes: &[u8]) {
        for (form, wanted) in &self.forms {
            if contains(bytes, wanted) {
                self.hits.push((place.to_owned(), form));
            }
        }
    }

    fn walk(&mut self, dir: &Path) {
        for entry in std::fs::read_dir(dir).expect("it can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.walk(&path);
            } else if path.is_file() {
                self.add(&path.display().to_string(), &std::fs::read(&path).expect("it can be read"));
            }
        }
    }
}

/// Whether bytes are in bytes: by the first of them, which the compiler's library finds fast.
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    let Some((first, rest)) = wanted.split_first() else { return false };
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| byte == first) {
        from += at + 1;
        if bytes[from..].starts_with(rest) {
            return true;
        }
    }
    false
}

/// Every file of a data root, and every blob in it unpacked: images, rulebooks, judgements.
pub(crate) fn scan(root: &Path) -> Found {
    let mut found = Found::new();
    found.walk(root);
    let digests: Vec<Vec<u8>> = {
        let conn = rusqlite::Connection::open(root.join("lazaret.db")).expect("the database");
        let mut all = conn.prepare("SELECT digest FROM blobs").expect("a table of blobs");
        let rows = all.query_map([], |row| row.get(0)).expect("rows");
        rows.map(|row| row.expect("a digest")).collect()
    };
    let store = Store::open(root, || 0).expect("the data root opens");
    for digest in digests {
        let digest = Digest(digest.try_into().expect("32 bytes"));
        found.add(&format!("blob {digest}"), &store.blob(&digest).expect("a blob"));
    }
    found
}
