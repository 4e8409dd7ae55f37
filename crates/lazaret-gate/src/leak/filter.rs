//! Finds thousands of patterns at the speed of reading.
//!
//! An automaton over this many patterns doesn't fit into a processor's cache and makes a step per byte. This looks only at
//! every fourth byte: from each pattern, one window of eight bytes is chosen, and the four runs of five bytes in it are
//! put into a table. Wherever the pattern occurs, one of these runs begins at a place that is looked at. A bit per
//! run says "nothing here" for almost all of a text; what passes is compared in full.

use zeroize::Zeroizing;

use super::limits::MIN_SECRET;

/// Places looked at: every so many bytes.
const STEP: usize = 4;

/// A window that is looked for.
const SPAN: usize = 8;

/// The bytes that are hashed: all of a window but those before the place.
const GRAM_SHIFT: u32 = 8 * (STEP as u32 - 1);

/// Letters of both cases are alike here; what passes is told apart later. It costs a few other characters their difference.
const FOLD: u64 = 0x2020_2020_2020_2020;

/// An odd constant whose multiples spread well in their upper bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bits of the table per entry: the more, the fewer places pass.
const BITS_PER_ENTRY: usize = 32;

/// Windows of one pattern among which the best is chosen.
const CHOICES: usize = 64;

const _: () = assert!(SPAN == MIN_SECRET, "every pattern has a window");

/// Places that are looked at side by side, and the bytes that this takes.
const PLACES: usize = 4;
const PART: usize = (PLACES - 1) * STEP + SPAN;

/// The hash at a place. The three bytes before it only fill the window, so that reading never goes past the end.
fn gram(text: &[u8], place: usize) -> u64 {
    // INVARIANT: whoever asks has a window's bytes there.
    text.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |window| hash(*window))
}

fn hash(window: [u8; SPAN]) -> u64 {
    ((u64::from_le_bytes(window) | FOLD) >> GRAM_SHIFT).wrapping_mul(SPREAD)
}

/// Two bits of a word.
fn bits(hash: u64) -> u64 {
    1 << (hash >> 34 & 63) | 1 << (hash >> 40 & 63)
}

/// Where to look closer: a run of bytes was seen that this pattern has at this place.
#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u32,
    pattern: u32,
    /// Of the end of the run.
    end: u32,
}

/// The table.
pub(super) struct Filter {
    words: Zeroizing<Vec<u64>>,
    word_shift: u32,
    /// The entries of bucket `n` are those from `buckets[n]` to `buckets[n + 1]`.
    buckets: Vec<u32>,
    bucket_shift: u32,
    entries: Vec<Entry>,
}

impl Filter {
    /// A table over patterns, each of at least [`MIN_SECRET`] bytes. Their order is their number.
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p [u8]> + Clone) -> Self {
        let shared = Shared::count(patterns.clone());
        let mut found = Vec::new();
        for (pattern, bytes) in (0u32..).zip(patterns) {
            let Some(window) = shared.rarest(bytes) else { continue };
            for (end, gram) in grams(bytes).skip(window).take(STEP) {
                let end = u32::try_from(end).unwrap_or(u32::MAX);
                found.push((gram, Entry { tag: tag(gram), pattern, end }));
            }
        }
        let size = found.len().max(1).next_power_of_two();
        let (word_shift, bucket_shift) = (64 - (size * BITS_PER_ENTRY / 64).max(2).ilog2(), 64 - (2 * size).ilog2());
        found.sort_by_key(|(gram, entry)| (gram >> bucket_shift, entry.pattern, entry.end));
        let mut words = Zeroizing::new(vec![0; 1 << (64 - word_shift)]);
        let mut buckets = vec![0; (2 * size) + 1];
        for (gram, _) in &found {
            words[index(*gram, word_shift)] |= bits(*gram);
            buckets[index(*gram, bucket_shift) + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut buckets {
            sum += *count;
            *count = sum;
        }
        Self { words, word_shift, buckets, bucket_shift, entries: found.into_iter().map(|(_, entry)| entry).collect() }
    }

    /// Calls `each` with a pattern's number and where it may begin, for every place that passes. The pattern's window is
    /// there, or something that looks like it; nothing else is known.
    pub(super) fn look(&self, text: &[u8], mut each: impl FnMut(u32, usize)) {
        // Four places at a time, which the processor looks at side by side; nearly always there is nothing at any of them.
        let mut done = 0;
        while let Some(part) = text.get(done..).and_then(|rest| rest.first_chunk::<PART>()) {
            let grams = [0, 1, 2, 3].map(|place| gram(part, place * STEP));
            let passes = grams.map(|gram| self.passes(gram));
            if passes[0] | passes[1] | passes[2] | passes[3] {
                let places = grams.into_iter().zip(passes).zip((done + SPAN..).step_by(STEP));
                places
                    .filter(|((_, passes), _)| *passes)
                    .for_each(|((gram, _), end)| self.closer(gram, end, &mut each));
            }
            done += PLACES * STEP;
        }
        let rest = text.get(done..).unwrap_or_default();
        for (window, end) in rest.windows(SPAN).step_by(STEP).zip((done + SPAN..).step_by(STEP)) {
            let gram = gram(window, 0);
            if self.passes(gram) {
                self.closer(gram, end, &mut each);
            }
        }
    }

    fn passes(&self, gram: u64) -> bool {
        let (word, wanted) = (self.words.get(index(gram, self.word_shift)).copied().unwrap_or(0), bits(gram));
        word & wanted == wanted
    }

    #[cold]
    fn closer(&self, gram: u64, end: usize, each: &mut impl FnMut(u32, usize)) {
        let bucket = index(gram, self.bucket_shift);
        let (Some(from), Some(to)) = (self.buckets.get(bucket), self.buckets.get(bucket + 1)) else { return };
        let entries = self.entries.get(*from as usize..*to as usize).unwrap_or_default();
        for entry in entries.iter().filter(|entry| entry.tag == tag(gram)) {
            if let Some(start) = end.checked_sub(entry.end as usize) {
                each(entry.pattern, start);
            }
        }
    }
}

fn index(hash: u64, shift: u32) -> usize {
    (hash >> shift) as usize
}

/// What the bucket doesn't tell: bits from the middle, because the lowest know only the first bytes.
fn tag(hash: u64) -> u32 {
    (hash >> 8 & u64::from(u32::MAX)) as u32
}

/// The run that ends with each byte from the fifth on, and where that is. What fills the window before it isn't hashed.
fn grams(pattern: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    pattern.windows(SPAN + 1 - STEP).zip(SPAN + 1 - STEP..).map(|(run, end)| {
        let mut window = [0; SPAN];
        window[STEP - 1..].copy_from_slice(run);
        (end, hash(window))
    })
}

/// How often runs of bytes occur among the patterns, roughly: many keys begin alike, and a run that a thousand of them
/// share would be compared a thousand times wherever it stands.
struct Shared {
    counts: Vec<u16>,
    shift: u32,
}

impl Shared {
    fn count<'p>(patterns: impl Iterator<Item = &'p [u8]> + Clone) -> Self {
        let some = |pattern: &'p [u8]| grams(pattern).take(CHOICES + STEP).map(|(_, gram)| gram);
        let size = patterns.clone().map(|pattern| pattern.len().min(CHOICES)).sum::<usize>().max(2).next_power_of_two();
        let mut shared = Self { counts: vec![0; size], shift: 64 - size.ilog2() };
        for gram in patterns.flat_map(some) {
            let count = &mut shared.counts[index(gram, shared.shift)];
            *count = count.saturating_add(1);
        }
        shared
    }

    /// Where the window begins that shares least; among equals, the one with the most different bytes, because texts are
    /// full of runs of one.
    fn rarest(&self, pattern: &[u8]) -> Option<usize> {
        let counts = grams(pattern).take(CHOICES + STEP).map(|(_, gram)| self.counts[index(gram, self.shift)]);
        let counts: Vec<u16> = counts.collect();
        let windows = counts.windows(STEP).zip(pattern.windows(SPAN)).enumerate();
        let cost = |counts: &[u16], bytes: &[u8]| (counts.iter().max().copied(), repeats(bytes));
        windows.min_by_key(|(_, (counts, bytes))| cost(counts, bytes)).map(|(window, _)| window)
    }
}

/// How many bytes of a window are in it before.
fn repeats(window: &[u8]) -> usize {
    (1..window.len()).filter(|at| window[..*at].contains(&window[*at])).count()
}

/// How patterns begin: what can't be the beginning of one, said quickly.
pub(super) struct Heads {
    words: Zeroizing<Vec<u64>>,
    shift: u32,
}

impl Heads {
    const LEN: usize = 4;

    fn hash(text: &[u8]) -> Option<u64> {
        let head = u32::from_le_bytes(*text.first_chunk::<{ Self::LEN }>()?);
        Some((u64::from(head) | FOLD & u64::from(u32::MAX)).wrapping_mul(SPREAD))
    }

    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p [u8]> + Clone) -> Self {
        let size = (patterns.clone().count() * BITS_PER_ENTRY / 64).max(2).next_power_of_two();
        let shift = 64 - size.ilog2();
        let mut words = Zeroizing::new(vec![0; size]);
        for hash in patterns.filter_map(Self::hash) {
            words[index(hash, shift)] |= bits(hash);
        }
        Self { words, shift }
    }

    /// False if no pattern begins with this text, or with the first bytes of it.
    pub(super) fn may_begin(&self, text: &[u8]) -> bool {
        Self::hash(text).is_none_or(|hash| {
            let word = self.words.get(index(hash, self.shift)).copied().unwrap_or(0);
            word & bits(hash) == bits(hash)
        })
    }
}
