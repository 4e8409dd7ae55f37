//! The journal as a Merkle tree, RFC 6962 (SHA-256): roots, inclusion and consistency proofs.
//!
//! Written here rather than taken from a crate because the writer needs the tree's right edge only ([`Frontier`]), in a
//! form that can be stored, and proofs come from a list of leaf hashes read from disk.

use sha2::{Digest as _, Sha256};

use crate::limits::MAX_PROOF;

/// A node of the tree.
pub type Hash = [u8; 32];

/// The hash of an entry as a leaf.
pub fn leaf(bytes: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(bytes).finalize().into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The root of a tree without leaves.
pub fn empty_root() -> Hash {
    Sha256::digest([]).into()
}

/// The right edge of a growing tree: one hash per set bit of its size, largest subtree first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Hash>,
}

impl Frontier {
    /// Puts back together what was stored; `None` if the two don't fit.
    pub fn restore(size: u64, peaks: Vec<Hash>) -> Option<Self> {
        (peaks.len() == size.count_ones() as usize).then_some(Self { size, peaks })
    }

    /// How many leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What to store.
    pub fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Adds a leaf.
    pub fn push(&mut self, leaf: Hash) {
        let mut hash = leaf;
        let mut rest = self.size;
        while rest & 1 == 1 {
            // INVARIANT: there is one peak per set bit of `size`.
            let Some(left) = self.peaks.pop() else { break };
            hash = node(&left, &hash);
            rest >>= 1;
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// The root over all leaves so far.
    pub fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return empty_root() };
        peaks.fold(*last, |right, left| node(left, &right))
    }
}

/// The root over these leaves.
pub fn root(leaves: &[Hash]) -> Hash {
    let mut frontier = Frontier::default();
    leaves.iter().for_each(|leaf| frontier.push(*leaf));
    frontier.root()
}

/// Largest power of two below `n`, for `n` > 1.
fn split(n: usize) -> usize {
    1 << (usize::BITS - 1 - (n - 1).leading_zeros())
}

/// Proofs for many leaves at once. Subtree roots are shared, so a thousand proofs cost little more than one.
pub struct Prover {
    /// `levels[k][i]` is the root of the complete subtree of 2^k leaves that starts at leaf i·2^k.
    levels: Vec<Vec<Hash>>,
}

impl Prover {
    /// Hashes every complete subtree once.
    pub fn new(leaves: Vec<Hash>) -> Self {
        let mut levels = vec![leaves];
        while let Some(below) = levels.last()
            && below.len() > 1
        {
            let above = below.chunks_exact(2).map(|pair| node(&pair[0], &pair[1])).collect();
            levels.push(above);
        }
        Self { levels }
    }

    /// How many leaves.
    pub fn size(&self) -> usize {
        self.levels[0].len()
    }

    /// The root of leaves `from..to`, where `from` is a multiple of the largest power of two below the length.
    fn range_root(&self, from: usize, to: usize) -> Hash {
        let len = to - from;
        if len.is_power_of_two() {
            return self.levels[len.trailing_zeros() as usize][from >> len.trailing_zeros()];
        }
        let middle = from + split(len);
        node(&self.range_root(from, middle), &self.range_root(middle, to))
    }

    /// The root of the first `size` leaves.
    pub fn root(&self, size: usize) -> Option<Hash> {
        match size {
            0 => Some(empty_root()),
            _ => (size <= self.size()).then(|| self.range_root(0, size)),
        }
    }

    /// Proof that leaf `index` is in the tree of the first `size` leaves.
    pub fn inclusion(&self, index: usize, size: usize) -> Option<Vec<Hash>> {
        if index >= size || size > self.size() {
            return None;
        }
        let (mut from, mut to, mut proof) = (0, size, Vec::new());
        while to - from > 1 {
            let middle = from + split(to - from);
            if index < middle {
                proof.push(self.range_root(middle, to));
                to = middle;
            } else {
                proof.push(self.range_root(from, middle));
                from = middle;
            }
        }
        proof.reverse();
        Some(proof)
    }

    /// Proof that the tree of the first `size` leaves is one that the tree of the first `old` leaves grew into.
    pub fn consistency(&self, old: usize, size: usize) -> Option<Vec<Hash>> {
        if old == 0 || old > size || size > self.size() {
            return None;
        }
        let (mut from, mut to, mut proof, mut whole) = (0, size, Vec::new(), true);
        while old != to {
            let middle = from + split(to - from);
            if old <= middle {
                proof.push(self.range_root(middle, to));
                to = middle;
            } else {
                proof.push(self.range_root(from, middle));
                from = middle;
                whole = false;
            }
        }
        if !whole {
            proof.push(self.range_root(from, to));
        }
        proof.reverse();
        Some(proof)
    }
}

/// Whether `proof` shows that `leaf` stands at `index` in the tree of `size` leaves with this root (RFC 9162, 2.1.3.2).
pub fn verify_inclusion(leaf: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size || proof.len() > MAX_PROOF {
        return false;
    }
    let (mut place, mut last, mut hash) = (index, size - 1, *leaf);
    for step in proof {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            hash = node(step, &hash);
            if place & 1 == 0 {
                let shift = place.trailing_zeros();
                place = place.checked_shr(shift).unwrap_or(0);
                last = last.checked_shr(shift).unwrap_or(0);
            }
        } else {
            hash = node(&hash, step);
        }
        place >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

/// Whether `proof` shows that the tree of `size` leaves extends the one of `old` leaves (RFC 9162, 2.1.4.2).
pub fn verify_consistency(old: u64, old_root: &Hash, size: u64, root: &Hash, proof: &[Hash]) -> bool {
    if old == 0 || old > size || proof.len() > MAX_PROOF {
        return false;
    }
    if old == size {
        return proof.is_empty() && old_root == root;
    }
    let mut steps = proof.iter();
    let first = if old.is_power_of_two() { Some(old_root) } else { steps.next() };
    let Some(first) = first else { return false };
    let shift = (old - 1).trailing_ones();
    let mut place = (old - 1).checked_shr(shift).unwrap_or(0);
    let mut last = (size - 1).checked_shr(shift).unwrap_or(0);
    let (mut small, mut large) = (*first, *first);
    for step in steps {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            small = node(step, &small);
            large = node(step, &large);
            if place & 1 == 0 {
                let shift = place.trailing_zeros();
                place = place.checked_shr(shift).unwrap_or(0);
                last = last.checked_shr(shift).unwrap_or(0);
            }
        } else {
            large = node(&large, step);
        }
        place >>= 1;
        last >>= 1;
    }
    last == 0 && small == *old_root && large == *root
}
