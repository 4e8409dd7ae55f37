//! The Merkle tree against RFC 6962's definitions, for every size and place up to 130.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use lazaret_gate::merkle::{Frontier, Hash, Prover, empty_root, leaf, root, verify_consistency, verify_inclusion};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

const MOST: usize = 130;

fn leaves(count: usize) -> Vec<Hash> {
    (0..count).map(|index| leaf(format!("leaf {index}").as_bytes())).collect()
}

/// RFC 6962, 2.1, as it is written there.
fn defined_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Sha256::digest([]).into(),
        [one] => *one,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            let (left, right) = (defined_root(&leaves[..split]), defined_root(&leaves[split..]));
            Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
        }
    }
}

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The leaves and roots that certificate transparency's implementations test themselves with.
#[test]
fn known_roots() {
    let inputs: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];
    let roots = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let leaves = inputs.map(leaf);
    for (size, expected) in roots.iter().enumerate() {
        assert_eq!(hex(&root(&leaves[..size])), *expected, "{size} leaves");
    }
    assert_eq!(hex(&empty_root()), roots[0]);
}

#[test]
fn frontier_and_prover_give_the_defined_root() {
    let leaves = leaves(MOST);
    let prover = Prover::new(leaves.clone());
    let mut frontier = Frontier::default();
    for size in 0..=MOST {
        let expected = defined_root(&leaves[..size]);
        assert_eq!(frontier.root(), expected, "{size}");
        assert_eq!(prover.root(size), Some(expected), "{size}");
        assert_eq!(frontier.peaks().len(), size.count_ones() as usize);
        // What is stored and taken up again goes on as if nothing had been.
        frontier = Frontier::restore(frontier.size(), frontier.peaks().to_vec()).unwrap();
        if size < MOST {
            frontier.push(leaves[size]);
        }
    }
    assert_eq!(prover.root(MOST + 1), None);
    assert_eq!(Frontier::restore(3, vec![[0; 32]]), None);
    assert_eq!(Prover::new(Vec::new()).root(0), Some(empty_root()));
}

#[test]
fn every_leaf_of_every_tree_is_proven() {
    let leaves = leaves(MOST);
    let prover = Prover::new(leaves.clone());
    for size in 1..=MOST {
        let root = prover.root(size).unwrap();
        for (index, own) in leaves[..size].iter().enumerate() {
            let proof = prover.inclusion(index, size).unwrap();
            let holds = |leaf: &Hash, index: usize, size: usize, proof: &[Hash], root: &Hash| {
                verify_inclusion(leaf, index as u64, size as u64, proof, root)
            };
            assert!(holds(own, index, size, &proof, &root), "{index} of {size}");
            assert!(!holds(&leaf(b"other"), index, size, &proof, &root));
            assert!(!holds(own, index, size, &proof, &[0; 32]));
            assert!(!holds(own, size, size, &proof, &root), "a leaf beyond the end");
            assert!(!holds(own, index, 2 * size, &proof, &root), "a larger tree of the same root");
            assert!(!holds(own, index, size, &[&proof[..], &[root]].concat(), &root), "a step too many");
            if let Some((_, fewer)) = proof.split_last() {
                assert!(!holds(own, index, size, fewer, &root), "a step too few");
                assert!(!holds(own, index ^ 1, size, &proof, &root), "the neighbour's place");
            }
        }
        assert_eq!(prover.inclusion(size, size), None);
    }
    assert_eq!(prover.inclusion(0, MOST + 1), None);
}

#[test]
fn every_tree_is_shown_to_extend_every_smaller_one() {
    let leaves = leaves(MOST);
    let prover = Prover::new(leaves);
    for size in 1..=MOST {
        let root = prover.root(size).unwrap();
        for old in 1..=size {
            let (old_root, proof) = (prover.root(old).unwrap(), prover.consistency(old, size).unwrap());
            let holds = |old: usize, old_root: &Hash, root: &Hash, proof: &[Hash]| {
                verify_consistency(old as u64, old_root, size as u64, root, proof)
            };
            assert!(holds(old, &old_root, &root, &proof), "{old} to {size}");
            assert!(!holds(old, &[0; 32], &root, &proof));
            assert!(!holds(old, &old_root, &[0; 32], &proof));
            assert!(!holds(old, &old_root, &root, &[&proof[..], &[root]].concat()), "a step too many");
            assert!(!holds(size + 1, &old_root, &root, &proof), "a larger tree before");
            if let Some((_, fewer)) = proof.split_last() {
                assert!(!holds(old, &old_root, &root, fewer), "a step too few");
            }
        }
        assert_eq!(prover.consistency(0, size), None);
        assert!(!verify_consistency(0, &empty_root(), size as u64, &root, &[]));
    }
}

#[test]
fn a_proof_longer_than_any_journal_needs_is_not_followed() {
    let steps = vec![[0; 32]; 65];
    assert!(!verify_inclusion(&[0; 32], 0, u64::MAX, &steps, &[0; 32]));
    assert!(!verify_consistency(1, &[0; 32], u64::MAX, &[0; 32], &steps));
}

/// Any number, and often one at an edge.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(0), Just(1), Just(1 << 63), Just(u64::MAX - 1), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn a_changed_proof_proves_nothing(size in 2_usize..2000, at in any::<prop::sample::Index>(), bit in 0_usize..256,
                                      step in any::<prop::sample::Index>(), old in any::<prop::sample::Index>()) {
        let leaves = leaves(size);
        let prover = Prover::new(leaves.clone());
        let (index, root) = (at.index(size), prover.root(size).unwrap());
        let mut proof = prover.inclusion(index, size).unwrap();
        prop_assert!(verify_inclusion(&leaves[index], index as u64, size as u64, &proof, &root));
        let step_at = step.index(proof.len());
        proof[step_at][bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify_inclusion(&leaves[index], index as u64, size as u64, &proof, &root));

        let old = 1 + old.index(size - 1);
        let (old_root, mut proof) = (prover.root(old).unwrap(), prover.consistency(old, size).unwrap());
        prop_assert!(verify_consistency(old as u64, &old_root, size as u64, &root, &proof));
        let step_at = step.index(proof.len());
        proof[step_at][bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify_consistency(old as u64, &old_root, size as u64, &root, &proof));
    }

    #[test]
    fn no_numbers_make_it_panic(index in number(), size in number(), old in number(), steps in prop::collection::vec(any::<[u8; 32]>(), 0..70)) {
        verify_inclusion(&[1; 32], index, size, &steps, &[2; 32]);
        verify_consistency(old, &[1; 32], size, &[2; 32], &steps);
    }
}
