//! How fast leaks are looked for: 64 MiB under the eyes of a guard with 1,000 secrets, beside `memchr` over the same bytes
//! and beside an automaton over the values as they are. `cargo bench --bench leak` prints megabytes per second of
//! processor time.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and has nobody to report errors to"
)]

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazaret_gate::leak::{Form, Guard, Redactor, Shapes};

const SIZE: usize = 64 << 20;
const SECRETS: usize = 1_000;
const ROUNDS: usize = 5;
const ENOUGH: Duration = Duration::from_secs(2);

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) >> 16
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.next()).unwrap() % from.len()]
    }
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Processor time of this thread, as the kernel counts it: neighbours that share the processor don't matter. Elsewhere,
/// the clock.
fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = counted.and_then(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos);
    nanos.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed())
}

/// The middle of some rounds; one round of what takes seconds says enough.
fn time<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = Vec::new();
    while times.len() < ROUNDS && times.iter().sum::<Duration>() < ENOUGH {
        let start = now();
        black_box(work());
        times.push(now().saturating_sub(start));
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn rate(took: Duration) -> f64 {
    SIZE as f64 / 1e6 / took.as_secs_f64()
}

/// Tokens of the usual lengths; every fourth begins like many others.
fn secrets(dice: &mut Dice) -> Vec<Vec<u8>> {
    let token = |n: usize| {
        let head: &[u8] = if n.is_multiple_of(4) { b"sk_live_" } else { b"" };
        let tail = (0..16 + n % 48).map(|_| *dice.pick(LETTERS));
        head.iter().copied().chain(tail).collect()
    };
    (0..SECRETS).map(token).collect()
}

/// Filled up by what `next` gives.
fn fill(mut next: impl FnMut() -> Vec<u8>) -> Vec<u8> {
    let mut text = Vec::with_capacity(SIZE + 4096);
    while text.len() < SIZE {
        text.extend(next());
    }
    text.truncate(SIZE);
    text
}

/// What bodies are made of.
fn texts(dice: &mut Dice) -> Vec<(&'static str, Vec<u8>)> {
    let words: Vec<&str> = include_str!("../src/stages.rs").split_whitespace().collect();
    let prose = fill(|| format!("{} ", dice.pick(&words)).replace(['%', '&', '\\'], "").into_bytes());
    let json = fill(|| {
        let value: Vec<&str> = (0..12).map(|_| *dice.pick(&words)).collect();
        serde_json::to_vec(&serde_json::json!({"id": dice.next(), "text": value.join(" "), "line": "a\nb"})).unwrap()
    });
    let base = fill(|| STANDARD.encode(dice.next().to_le_bytes()).into_bytes());
    let hex = fill(|| format!("{:012x}", dice.next()).into_bytes());
    let bytes = fill(|| dice.next().to_le_bytes()[..6].to_vec());
    let percent = fill(|| format!("%{:02X}", dice.next() & 255).into_bytes());
    let mixed = fill(|| {
        dice.pick(&["%25%32%35", "\\\\\\u0041", "&amp;amp;", "%5Cx41", "&#x25;41", "\\u0026"]).as_bytes().to_vec()
    });
    vec![
        ("words", prose),
        ("json, with escapes", json),
        ("base64", base),
        ("hex", hex),
        ("bytes", bytes),
        ("percent escapes", percent),
        ("escapes of all kinds", mixed),
        ("zeros", vec![0; SIZE]),
    ]
}

fn main() {
    let mut dice = Dice(1);
    let secrets = secrets(&mut dice);
    let named = || secrets.iter().enumerate().map(|(n, value)| (format!("s{n}"), value));
    let built = time(|| Guard::new(named()).unwrap());
    let guard = Guard::new(named()).unwrap();
    let shapes = Shapes::shipped().unwrap();
    let automaton = AhoCorasick::new(&secrets).unwrap();
    println!("a guard over {SECRETS} secrets is built in {:.1} ms", built.as_secs_f64() * 1e3);
    println!(
        "64 MiB of                  scan   redacted in pieces     shapes   memchr   automaton, values only   (MB/s; scan at least 500)"
    );
    for (name, text) in texts(&mut dice) {
        // What was made to take long is refused; how long that takes, and what is let through, is what counts.
        let refused = guard.scan(&text).is_some_and(|hit| hit.form == Form::Tangled);
        assert!(refused || guard.scan(&text).is_none());
        let scan = time(|| guard.scan(black_box(&text)).is_some());
        let redacted = time(|| {
            let (mut out, mut total) = (Vec::new(), 0);
            let mut redactor = Redactor::new(&guard);
            for piece in text.chunks(16 << 10) {
                redactor.push(piece, &mut out);
                total += out.len();
                out.clear();
            }
            redactor.finish(&mut out);
            assert!(refused || total + out.len() == SIZE);
        });
        let shape = time(|| shapes.scan(black_box(&text)).is_some());
        let memchr = time(|| memchr::memchr_iter(0x9d, black_box(&text)).count());
        let other = time(|| automaton.find_iter(black_box(&text)).count());
        println!(
            "{name:<22} {:>8.0} {:>20.0} {:>10.0} {:>8.0} {:>24.0}{}",
            rate(scan),
            rate(redacted),
            rate(shape),
            rate(memchr),
            rate(other),
            if refused { "   (refused after the first piece)" } else { "" }
        );
    }
}
