//! Wycheproof: the cipher that seals values, and the signature that the journal and approvals are checked with.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests print, and one that can't go on has failed"
)]

use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ed25519_dalek::{Signature, VerifyingKey};
use wycheproof::TestResult;

#[test]
fn xchacha20_poly1305() {
    use wycheproof::aead::{TestName, TestSet};
    let set = TestSet::load(TestName::XChaCha20Poly1305).unwrap();
    let (mut valid, mut invalid, mut other_nonces) = (0, 0, 0);
    for group in &set.test_groups {
        for test in &group.tests {
            let expected = test.result == TestResult::Valid;
            // A nonce of another length can't even be written down here.
            let Ok(nonce) = <[u8; 24]>::try_from(test.nonce.as_slice()) else {
                assert!(!expected, "{}", test.tc_id);
                other_nonces += 1;
                continue;
            };
            let cipher = XChaCha20Poly1305::new_from_slice(&test.key).unwrap();
            let nonce = XNonce::from(nonce);
            let sealed = [test.ct.as_slice(), &test.tag].concat();
            let mut opened = sealed.clone();
            let opens = cipher.decrypt_in_place(&nonce, &test.aad, &mut opened).is_ok();
            assert_eq!(opens, expected, "test {}: {}", test.tc_id, test.comment);
            if expected {
                assert_eq!(opened, test.pt.as_slice(), "test {}", test.tc_id);
                let mut again = test.pt.to_vec();
                cipher.encrypt_in_place(&nonce, &test.aad, &mut again).unwrap();
                assert_eq!(again, sealed, "test {}", test.tc_id);
            }
            *(if expected { &mut valid } else { &mut invalid }) += 1;
        }
    }
    println!(
        "wycheproof: XChaCha20-Poly1305: {valid} valid, {invalid} refused, {other_nonces} with a nonce of another length"
    );
    assert_eq!(valid + invalid + other_nonces, set.number_of_tests);
    assert!(valid > 50 && invalid > 50);
}

#[test]
fn ed25519_verified_strictly() {
    use wycheproof::eddsa::{TestName, TestSet};
    let set = TestSet::load(TestName::Ed25519).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for group in &set.test_groups {
        let key = VerifyingKey::try_from(group.key.pk.as_slice()).unwrap();
        for test in &group.tests {
            let signature = Signature::from_slice(&test.sig);
            let verified = signature.is_ok_and(|signature| key.verify_strict(&test.msg, &signature).is_ok());
            let expected = test.result == TestResult::Valid;
            assert_eq!(verified, expected, "test {}: {}", test.tc_id, test.comment);
            *(if expected { &mut valid } else { &mut invalid }) += 1;
        }
    }
    println!("wycheproof: Ed25519, strict: {valid} valid, {invalid} refused");
    assert_eq!(valid + invalid, set.number_of_tests);
    assert!(valid > 50 && invalid > 40);
}

/// What strict adds to what the vectors ask for: a key of small order, under which one signature fits every message.
#[test]
fn a_key_of_small_order_verifies_nothing() {
    // The neutral element: y = 1. With R the same and S = 0 the equation holds for any message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let key = VerifyingKey::from_bytes(&neutral).unwrap();
    assert!(key.is_weak());
    let signature = Signature::from_components(neutral, [0; 32]);
    use ed25519_dalek::Verifier as _;
    assert!(key.verify(b"any message", &signature).is_ok(), "this is why strict is needed");
    assert!(key.verify_strict(b"any message", &signature).is_err());
}
