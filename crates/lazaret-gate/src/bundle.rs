//! The evidence bundle: one file that a stranger checks offline. `docs/bundle.md` describes it for other implementations.
//!
//! Everything but re-execution is checked here. Every line is canonical JSON, lines come in one order, every blob is
//! asked for by something else, and the checkpoint is signed: there is no byte whose change goes unseen.

mod build;
mod check;
mod lives;
mod seen;

pub use build::Builder;
pub use check::{Checked, check};
pub use lives::Descent;

use serde::{Deserialize, Serialize};

use crate::canonical::{Bytes, Digest};
use crate::entry::Entry;

/// The format's name, in the first line.
pub const FORMAT: &str = "lazaret-bundle/1";

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    bundle: String,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct CheckpointLine {
    checkpoint: String,
    consistency: Vec<Bytes>,
}

#[derive(Serialize, Deserialize)]
struct EntryLine {
    entry: Entry,
    inclusion: Vec<Bytes>,
}

#[derive(Serialize, Deserialize)]
struct BlobLine {
    blob: Bytes,
}

#[derive(Serialize, Deserialize)]
struct EndLine {
    end: Digest,
}

/// Why a bundle can't be believed.
#[derive(Debug, thiserror::Error)]
pub enum BadBundle {
    /// A line is not what has to stand there.
    #[error("line {line}: {why}")]
    Line {
        /// Counts from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The whole is wrong.
    #[error("{0}")]
    Whole(String),
}

/// What an image in a bundle must bring along.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The image and its nodes: enough to say which page differs.
    Names,
    /// Its pages too: enough to wake from.
    Pages,
}
