//! Bytes that are kept under their name.

use std::sync::Arc;

use crate::canonical::{self, Digest, NotCanonical};
use serde::Serialize;

/// Bytes and the digest that names them. It is made by hashing and in no other way, so nobody has to hash them again to
/// believe it. Cheap to clone.
#[derive(Debug, PartialEq, Eq)]
pub struct Blob<T: ?Sized = [u8]> {
    digest: Digest,
    bytes: Arc<T>,
}

impl<T: ?Sized> Clone for Blob<T> {
    fn clone(&self) -> Self {
        Self { digest: self.digest, bytes: Arc::clone(&self.bytes) }
    }
}

impl<T: ?Sized + AsRef<[u8]>> Blob<T> {
    /// Names these bytes.
    pub fn of(bytes: impl Into<Arc<T>>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of((*bytes).as_ref()), bytes }
    }

    /// Their name.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The bytes.
    pub fn bytes(&self) -> &T {
        &self.bytes
    }
}

impl Blob {
    /// A value's canonical form.
    pub fn of_value<V: Serialize>(value: &V) -> Result<Self, NotCanonical> {
        Ok(Self::of(canonical::encode(value)?))
    }
}

impl<const N: usize> From<Blob<[u8; N]>> for Blob {
    fn from(blob: Blob<[u8; N]>) -> Self {
        Self { digest: blob.digest, bytes: blob.bytes }
    }
}
