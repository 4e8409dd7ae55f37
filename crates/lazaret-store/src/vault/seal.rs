//! Keys, and what is sealed with them: XChaCha20-Poly1305 with a random nonce for each seal.

use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use super::error::VaultError;

const NONCE: usize = 24;
const TAG: usize = 16;

/// What a seal adds to what is sealed.
pub(super) const OVERHEAD: usize = NONCE + TAG;

/// 32 secret bytes, wiped when dropped.
pub(super) struct Key(Zeroizing<[u8; 32]>);

impl Key {
    /// A new one.
    pub(super) fn random() -> Result<Self, VaultError> {
        let mut key = Self(Zeroizing::new([0; 32]));
        getrandom::fill(&mut key.0[..]).map_err(VaultError::random)?;
        Ok(key)
    }

    /// None unless there are exactly 32.
    pub(super) fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut key = Self(Zeroizing::new([0; 32]));
        (bytes.len() == key.0.len()).then(|| key.0.copy_from_slice(bytes))?;
        Some(key)
    }

    /// Another key for one purpose, which says nothing about this one.
    pub(super) fn derive(&self, purpose: &'static str, of: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(&self.0[..]);
        hasher.update(of);
        let mut key = Self(Zeroizing::new([0; 32]));
        let mut output = hasher.finalize_xof();
        output.fill(&mut key.0[..]);
        // Both hold what went in.
        output.zeroize();
        hasher.zeroize();
        key
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn room(&mut self) -> &mut [u8; 32] {
        &mut self.0
    }

    /// In constant time.
    pub(super) fn is(&self, other: &[u8; 32]) -> bool {
        self.0.ct_eq(other).into()
    }

    /// Nonce, ciphertext and tag.
    pub(super) fn seal(&self, about: &About, plain: &[u8]) -> Result<Vec<u8>, VaultError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(VaultError::random)?;
        // All of the room from the start: a buffer that grows leaves what was in it behind.
        let mut buffer = Vec::with_capacity(OVERHEAD + plain.len());
        buffer.extend_from_slice(plain);
        let cipher = XChaCha20Poly1305::new((&*self.0).into());
        // It fails only for more than 256 GiB.
        cipher.encrypt_in_place(&XNonce::from(nonce), &about.0, &mut buffer).map_err(|_| VaultError::Full)?;
        buffer.splice(..0, nonce);
        Ok(buffer)
    }

    /// What was sealed with this key, about just this; none if it wasn't.
    pub(super) fn open(&self, about: &About, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        let mut buffer = Zeroizing::new(sealed.to_vec());
        let cipher = XChaCha20Poly1305::new((&*self.0).into());
        cipher.decrypt_in_place(&XNonce::from(*nonce), &about.0, &mut *buffer).ok()?;
        Some(buffer)
    }
}

/// What a seal is about: associated data in which no two lists of parts give the same bytes.
pub(super) struct About(Vec<u8>);

impl About {
    pub(super) fn new(what: &str) -> Self {
        Self(Vec::new()).with(what.as_bytes())
    }

    /// The part's length, then the part.
    pub(super) fn with(mut self, part: &[u8]) -> Self {
        self.0.extend_from_slice(&(part.len() as u64).to_le_bytes());
        self.0.extend_from_slice(part);
        self
    }

    pub(super) fn with_number(self, number: u64) -> Self {
        self.with(&number.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_dont_run_into_each_other() {
        let lists: [&[&str]; 6] = [&[], &[""], &["ab"], &["a", "b"], &["", "ab"], &["ab", ""]];
        let made = lists.map(|list| list.iter().fold(About::new("x"), |about, part| about.with(part.as_bytes())).0);
        for (at, one) in made.iter().enumerate() {
            assert!(!made[..at].contains(one), "{:?}", lists[at]);
        }
    }

    #[test]
    fn what_is_sealed_opens_about_the_same_and_nothing_else() {
        let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
        let about = || About::new("x").with(b"name").with_number(1);
        for len in [0, 1, 31, 4096] {
            let plain: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let sealed = key.seal(&about(), &plain).unwrap();
            assert_eq!(sealed.len(), len + OVERHEAD);
            assert_eq!(key.open(&about(), &sealed).unwrap().as_slice(), plain);
            assert!(other.open(&about(), &sealed).is_none());
            assert!(key.open(&About::new("x").with(b"name").with_number(2), &sealed).is_none());
            assert!((0..sealed.len()).all(|cut| key.open(&about(), &sealed[..cut]).is_none()));
        }
        assert_ne!(key.seal(&about(), b"same").unwrap(), key.seal(&about(), b"same").unwrap(), "nonces are random");
    }
}
