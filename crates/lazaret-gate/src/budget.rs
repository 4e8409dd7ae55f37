//! What a turn may cost.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_EXACT, MAX_WALL_MS};

/// The caps of one turn. Recorded with it, because what was allowed decides what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Bytes across all asks and answers.
    pub bytes: u64,
    /// Asks, refused ones included.
    pub effects: u32,
    /// Deterministic work: instructions, and a price for each host call, byte and page.
    pub fuel: u64,
    /// Bytes of all linear memories together.
    pub memory: u64,
    /// Milliseconds by the clock on the wall; the backstop behind fuel.
    pub wall_ms: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { fuel: 2_000_000_000, memory: 128 << 20, wall_ms: 30_000, effects: 1_000, bytes: 16 << 20 }
    }
}

/// A budget that can't be kept.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a budget's {what} can be at most {most}, not {asked}")]
pub struct BadBudget {
    what: &'static str,
    most: u64,
    asked: u64,
}

impl Budget {
    /// Largest values that the engine and the record can keep exactly.
    pub fn check(&self) -> Result<(), BadBudget> {
        let at_most = |what, asked, most| if asked <= most { Ok(()) } else { Err(BadBudget { what, most, asked }) };
        at_most("fuel", self.fuel, MAX_EXACT)?;
        at_most("memory", self.memory, 4 << 30)?;
        at_most("wall_ms", self.wall_ms, MAX_WALL_MS)?;
        at_most("effects", u64::from(self.effects), 100_000)?;
        at_most("bytes", self.bytes, 64 << 20)
    }
}

/// What a turn has used so far of the things the gate counts. Fuel, memory and time are counted by the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Asks so far.
    pub effects: u32,
    /// Bytes so far.
    pub bytes: u64,
    /// Questions whose yes was for once and is used up. A question is bound to its run, so no other turn can use it.
    used: BTreeSet<String>,
}

impl Meter {
    /// Uses up a yes that was for once. Says whether it was still there.
    pub(crate) fn use_up(&mut self, question: &str) -> bool {
        self.used.insert(question.to_owned())
    }
}
