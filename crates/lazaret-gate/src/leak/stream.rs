//! The same over the pieces of a stream.

use std::ops::Deref;

use zeroize::Zeroizing;

use super::escapes::AtEnd;
use super::guard::{Find, Guard, Hit, merge};
use super::limits::WINDOW;

/// What of a stream isn't settled yet.
struct Held<G> {
    guard: G,
    bytes: Zeroizing<Vec<u8>>,
    /// How many bytes came before.
    gone: usize,
}

impl<G: Deref<Target = Guard>> Held<G> {
    fn new(guard: G) -> Self {
        Self { guard, bytes: Zeroizing::default(), gone: 0 }
    }

    /// Lets go of the first bytes. Memory is kept, so that less of it is left behind.
    fn release(&mut self, count: usize) {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        self.gone += count;
    }
}

/// Looks for values in a stream, piece by piece. A value that two pieces share is found with the second.
pub struct Scanner<G> {
    held: Held<G>,
}

impl<G: Deref<Target = Guard>> Scanner<G> {
    /// At the beginning of a stream.
    pub fn new(guard: G) -> Self {
        Self { held: Held::new(guard) }
    }

    /// Takes the next piece. A hit's offset counts from the beginning of the stream. It is for the caller to stop then: the
    /// same hit may be reported again.
    pub fn push(&mut self, piece: &[u8]) -> Option<Hit<'_>> {
        let mut first: Option<(Find, usize)> = None;
        for piece in piece.chunks(WINDOW) {
            let held = &mut self.held;
            held.bytes.extend_from_slice(piece);
            let (finds, settled) = held.guard.window(&held.bytes, AtEnd::Open);
            first = first.or(merge(finds).first().map(|find| (*find, held.gone)));
            held.release(settled);
        }
        first.map(|(find, gone)| self.held.guard.hit(&find, gone))
    }

    /// How many bytes of the stream can be passed on: none of them is part of a value, whatever comes. Without a hit so
    /// far, that is.
    pub fn clear(&self) -> usize {
        self.held.gone
    }
}

/// Takes values out of a stream, piece by piece. What could be the beginning of a value is held back until it is known;
/// together, what comes out is what [`Guard::redact`] would make of the whole.
pub struct Redactor<G> {
    held: Held<G>,
    /// How many of the bytes held belong to a value whose placeholder is out already.
    covered: usize,
    /// Nobody can look at what comes, so nothing of it comes out.
    shut: bool,
}

impl<G: Deref<Target = Guard>> Redactor<G> {
    /// At the beginning of a stream.
    pub fn new(guard: G) -> Self {
        Self { held: Held::new(guard), covered: 0, shut: false }
    }

    /// Takes the next piece, and appends what is known to be free of values. After escapes within escapes that nobody could
    /// look under, nothing more comes out.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for piece in piece.chunks(WINDOW) {
            if self.shut {
                return;
            }
            self.held.bytes.extend_from_slice(piece);
            let (mut finds, settled) = self.held.guard.window(&self.held.bytes, AtEnd::Open);
            // What begins later will be found again, with what follows it.
            finds.retain(|find| find.start < settled);
            self.emit(finds, settled, out);
        }
    }

    /// Ends the stream: appends what was held back.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        if self.shut {
            return;
        }
        let (finds, _) = self.held.guard.window(&self.held.bytes, AtEnd::Final);
        self.emit(finds, self.held.bytes.len(), out);
    }

    fn emit(&mut self, finds: Vec<Find>, settled: usize, out: &mut Vec<u8>) {
        let mut covered = self.covered;
        for find in merge(finds) {
            if find.start >= covered {
                out.extend(self.held.bytes.get(covered..find.start).unwrap_or_default());
                out.extend(self.held.guard.placeholder(&find).bytes());
            }
            covered = covered.max(find.end);
            self.shut = self.shut || find.is_tangled();
        }
        out.extend(self.held.bytes.get(covered..settled).unwrap_or_default());
        self.covered = covered.saturating_sub(settled);
        self.held.release(settled);
    }
}
