//! Frames that nobody would send, many of them: nothing panics, and nobody who has not shown the token is answered anything
//! but pings and health.
//!
//! `LAZARET_FRAMES=1000000` tries more, `LAZARET_SEED=7` others. `fuzz/` has the same as a target of cargo-fuzz.

#![expect(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "a test says what it expects")]

use std::path::Path;

use lazaret_link::{Reply, Said, Session, Step, Token};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// A seed: good frames, and JSON as bad as it gets. The fuzzer starts from these too. Their names say what comes of them
/// where the token was shown: `y_REQUEST_…` is asked, `n_CODE_…` is refused, and of `i_…` nothing is said.
struct Seed {
    name: String,
    bytes: Vec<u8>,
}

impl Seed {
    /// Its parts, without what only tells it from others.
    fn meaning(&self) -> (&str, &str) {
        let name = self.name.strip_suffix(".frame").expect("a seed is a .frame");
        let (kind, rest) = name.split_once('_').expect("a kind");
        (kind, rest.split('_').next().unwrap_or_default())
    }
}

fn corpus() -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/session");
    let files = std::fs::read_dir(&folder).expect("fuzz/corpus/session is there").map(|file| file.expect("an entry"));
    let name = |file: &std::fs::DirEntry| file.file_name().into_string().expect("a name in UTF-8");
    let read = |file: std::fs::DirEntry| Seed { name: name(&file), bytes: std::fs::read(file.path()).expect("a seed") };
    let mut seeds: Vec<_> = files.map(read).collect();
    seeds.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(seeds.len() >= 100, "{} seeds", seeds.len());
    seeds
}

fn stranger() -> Session {
    Session::new(Token::parse(TOKEN).expect("a token"))
}

/// Somebody who may ask.
fn acquaintance() -> Session {
    let mut session = stranger();
    let hello = format!("{{\"id\":0,\"hello\":{{\"versions\":[1],\"token\":\"{TOKEN}\"}}}}\n");
    session.take(hello.as_bytes(), 0);
    assert!(session.is_known());
    session
}

fn mutate(dice: &mut Dice, seeds: &[Seed]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].bytes.clone();
    for _ in 0..dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, dice.next() as u8),
            3 => bytes.insert(at, *b"{}[]\":,\\\n\0\x1b\xff0e-".get(dice.below(17)).unwrap_or(&b'x')),
            4 if at < bytes.len() => drop(bytes.remove(at)),
            5 => {
                let other = &seeds[dice.below(seeds.len())].bytes;
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                let part = bytes[at..].to_vec();
                bytes.extend(part.iter().copied().take(500));
            }
            _ => bytes.extend(std::iter::repeat_n(b"[{ 9"[dice.below(4)], dice.below(200))),
        }
    }
    bytes
}

/// Feeds bytes in pieces, and says what they led to.
fn feed(session: &mut Session, bytes: &[u8], dice: &mut Dice, now_ms: u64) -> Vec<Step> {
    let (mut steps, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + dice.below(rest.len()));
        steps.extend(session.take(piece, now_ms));
        rest = after;
    }
    steps
}

/// Only errors are said, and only what is open is asked.
fn check_stranger(session: &Session, steps: &[Step], bytes: &[u8]) -> (u64, u64) {
    let shown = String::from_utf8_lossy(bytes);
    assert!(!session.is_known(), "known without a token: {shown}");
    let (mut open, mut errors) = (0, 0);
    for step in steps {
        match step {
            Step::Ask(ask) if ask.request.is_open() => open += 1,
            Step::Ask(ask) => panic!("{:?} was let through: {shown}", ask.request),
            Step::Say(line) => {
                assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "{shown}");
                let json = serde_json::from_slice::<Said>(line);
                let refused = line.starts_with(b"ERROR ") || json.is_ok_and(|said| said.ok.is_none());
                assert!(refused, "{} to {shown}", String::from_utf8_lossy(line));
                errors += 1;
            }
            Step::Close => {}
        }
    }
    (open, errors)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn no_frame_panics_and_none_gets_past_the_token() {
    let (seeds, frames, seed) = (corpus(), number("LAZARET_FRAMES", 100_000), number("LAZARET_SEED", 1));
    let mut dice = Dice(seed);
    let (mut open, mut errors, mut known, mut asked) = (0, 0, 0_u64, 0_u64);
    for number in 0..frames {
        let mut bytes = mutate(&mut dice, &seeds);
        if number % 4 == 3 {
            // Somebody who may ask says nonsense too.
            let mut session = acquaintance();
            bytes.push(b'\n');
            let steps = feed(&mut session, &bytes, &mut dice, number);
            asked += steps.iter().filter(|step| matches!(step, Step::Ask(_))).count() as u64;
            known += 1;
        } else {
            let mut session = stranger();
            bytes.push(b'\n');
            let mut steps = feed(&mut session, &bytes, &mut dice, number);
            steps.extend(session.end(number % 2 == 0));
            let (one, other) = check_stranger(&session, &steps, &bytes);
            (open, errors) = (open + one, errors + other);
        }
    }
    let line = format!(
        "{frames} frames (seed {seed}): {open} pings and healths, {errors} refused, 0 answered to strangers; {known} of \
         somebody known, {asked} understood\n"
    );
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    assert!(open > 0 && errors > frames / 4 && asked > frames / 100, "{line}");
}

/// The code of a refusal, in either language.
fn code(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).expect("text");
    if let Some(plain) = text.strip_prefix("ERROR ") {
        return plain.split(' ').next().map(str::to_owned);
    }
    serde_json::from_str::<Said>(text).expect("a line of JSON").error.map(|fault| fault.code)
}

#[test]
fn what_comes_of_every_seed_is_what_its_name_says() {
    for seed in corpus() {
        let (kind, what) = seed.meaning();
        let mut session = acquaintance();
        let mut steps = session.take(&seed.bytes, 0);
        steps.extend(session.end(false));
        let asked = steps.iter().find_map(|step| if let Step::Ask(ask) = step { Some(ask) } else { None });
        let refused = steps.iter().find_map(|step| if let Step::Say(line) = step { code(line) } else { None });
        match kind {
            "y" => assert!(
                asked.is_some_and(|ask| ask.request.name() == what) && refused.is_none(),
                "{}: {steps:?}",
                seed.name
            ),
            "n" => assert!(asked.is_none() && refused.as_deref() == Some(what), "{}: {steps:?}", seed.name),
            "i" => assert!(steps.is_empty(), "{}: {steps:?}", seed.name),
            _ => panic!("`{}` is of no kind", seed.name),
        }
        if let Some(ask) = asked {
            assert!(!ask.ticket.say(Ok(Reply::Pong)).is_empty());
        }
        // And nothing of it where the token wasn't shown.
        let mut session = stranger();
        let mut steps = session.take(&seed.bytes, 0);
        steps.extend(session.end(false));
        let (open, _) = check_stranger(&session, &steps, &seed.bytes);
        assert!(open == 0 || kind == "y" && matches!(what, "ping" | "health"), "{}: {steps:?}", seed.name);
    }
}

#[test]
fn everything_that_can_be_asked_has_a_seed() {
    let sources = [include_str!("../src/request.rs"), include_str!("../src/vault.rs")].concat();
    // As the functions that name requests write them.
    let named =
        sources.lines().filter_map(|line| line.trim().strip_suffix("\",")?.split_once(" => \"").map(|(_, name)| name));
    let (named, seeds): (std::collections::BTreeSet<_>, _) = (named.collect(), corpus());
    let meant: std::collections::BTreeSet<_> =
        seeds.iter().map(Seed::meaning).filter(|(kind, _)| *kind == "y").map(|(_, what)| what).collect();
    assert!(named.len() > 40, "{named:?}");
    assert_eq!(named, meant);
}
