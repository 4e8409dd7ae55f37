//! How many at once, how long after a failure, how often before it is enough.

/// The supervisor's measures.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Turns at once. An agent that waits for a person or a server counts, so it is far more than there are processors.
    pub awake: usize,
    /// The pause after the first stopped turn, in milliseconds; it doubles with each in a row.
    pub pause_ms: u64,
    /// The longest pause.
    pub pause_most_ms: u64,
    /// So many stopped turns in a row, and the agent is quarantined.
    pub breaker: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { awake: 1_024, pause_ms: 500, pause_most_ms: 300_000, breaker: 8 }
    }
}

impl Pace {
    /// The pause after so many failures in a row, before anything is taken off.
    pub fn full_pause(&self, row: u32) -> u64 {
        let doubled = 1_u64.checked_shl(row.saturating_sub(1)).unwrap_or(u64::MAX);
        self.pause_ms.saturating_mul(doubled).min(self.pause_most_ms)
    }

    /// The pause. Up to half of it is taken off at random, so that those who failed together don't come back together.
    pub(crate) fn pause(&self, row: u32, dice: &mut Dice) -> u64 {
        let full = self.full_pause(row);
        full - dice.below(full / 2 + 1)
    }
}

/// Numbers that look random and follow from a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number: a counter, mixed (the finalizer of splitmix64).
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one; 0 below 0.
    pub fn below(&mut self, most: u64) -> u64 {
        self.roll().checked_rem(most).unwrap_or(0)
    }
}
