//! Measuring two things side by side: in turns, so that a noisy neighbour hits both, and by median, so that it hardly
//! counts.

use std::time::{Duration, Instant};

/// How long it took.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Ours and the anchor.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) ours: Duration,
    pub(crate) anchor: Duration,
}

/// Medians of as many rounds, ours and the anchor's taken alternately. A tenth more is done first and not counted.
pub(crate) fn side_by_side(rounds: usize, mut ours: impl FnMut(), mut anchor: impl FnMut()) -> Pair {
    let (mut left, mut right) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for round in 0..rounds + rounds / 10 {
        let (one, other) = (time(&mut ours), time(&mut anchor));
        if round >= rounds / 10 {
            left.push(one);
            right.push(other);
        }
    }
    Pair { ours: median(left), anchor: median(right) }
}

/// A duration as people read it.
pub(crate) fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        0.0..10.0 => format!("{micros:.2} µs"),
        10.0..1_000.0 => format!("{micros:.0} µs"),
        1_000.0..1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

impl Pair {
    pub(crate) fn ratio(self) -> f64 {
        self.ours.as_secs_f64() / self.anchor.as_secs_f64()
    }

    /// Both figures and their ratio on one line.
    pub(crate) fn print(self, what: &str, anchor: &str, target: &str) {
        let (ours, theirs) = (show(self.ours), show(self.anchor));
        println!("{what:<34} lazaret {ours:>9}   {anchor} {theirs:>9}   ratio {:.2}{target}", self.ratio());
    }
}
