//! Bytes on their way to the vault.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// A passphrase or a secret's value in a request: written as base64 on the socket and nowhere else, wiped when dropped, and
/// never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Zeroizing<Vec<u8>>);

impl Hidden {
    /// Takes a copy.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// The bytes, for whoever wipes them from here on.
    pub fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(STANDARD.encode(&*self.0)))
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Base64)
    }
}

/// Reads it where it lies. What is wrong with it isn't quoted.
struct Base64;

impl Visitor<'_> for Base64 {
    type Value = Hidden;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Hidden, E> {
        STANDARD.decode(text).map(|bytes| Hidden(Zeroizing::new(bytes))).map_err(|_| E::custom("not base64"))
    }
}
