//! One byte sequence per value: canonical JSON (RFC 8785), and the digests over it.

mod compare;
mod write;

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A BLAKE3 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a value's canonical form.
    pub fn of_value<T: Serialize>(value: &T) -> Result<Self, NotCanonical> {
        Ok(Self::of(&encode(value)?))
    }

    /// The first twelve hex digits: enough to tell things apart on a screen.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// Reads 64 lower-case hex digits; anything else is `None`, so that a digest has one spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let text: &[u8; 64] = text.as_bytes().try_into().ok()?;
        let mut out = [0; 32];
        // All of it and only then a look: records have many digests, and nearly all of them are some.
        let mut bad = 0;
        for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            bad |= (high | low) & NO_DIGIT;
            *byte = high << 4 | low & 0xf;
        }
        (bad == 0).then_some(Self(out))
    }
}

const NO_DIGIT: u8 = 0x80;

/// What each byte is worth as a hex digit.
const NIBBLES: [u8; 256] = {
    let mut worth = [NO_DIGIT; 256];
    let digits = *b"0123456789abcdef";
    let mut value = 0;
    while value < digits.len() {
        worth[digits[value] as usize] = value as u8;
        value += 1;
    }
    worth
};

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("64 lower-case hex digits", Self::parse))
    }
}

/// Bytes, written as padded standard base64.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// Reads padded standard base64 in its one canonical spelling.
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok().map(Self)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if self.0.len() <= 80 => write!(f, "{text:?}"),
            _ => write!(f, "<{} bytes>", self.0.len()),
        }
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("base64", Self::parse))
    }
}

/// A whole number written as a decimal string, because a JSON number can't hold all of them exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exact(pub u64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("a whole number", |text| text.parse().ok().map(Self)))
    }
}

/// Reads a value that is written as text, from where the text lies.
pub(crate) struct Spelled<T>(PhantomData<T>);

impl<T> Spelled<T> {
    /// For [`Deserializer::deserialize_str`].
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Spelled<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Records a type as the text that it is displayed as, and reads it as it is parsed, with no copy in between.
macro_rules! spelled {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::canonical::Spelled::new())
            }
        }
    };
}
pub(crate) use spelled;

/// Reads a value from a text where it lies, without a copy of it; says what it should be, and how to read it.
struct Text<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        const SHOWN: usize = 100;
        self.1(text).ok_or_else(|| {
            let (start, rest): (String, _) = (text.chars().take(SHOWN).collect(), text.chars().nth(SHOWN));
            E::custom(format_args!("`{start}{}` is not {}", rest.map_or("", |_| "…"), self.0))
        })
    }
}

/// A value that has no canonical form, or bytes that aren't in it.
#[derive(Debug, thiserror::Error)]
pub enum NotCanonical {
    /// The value can't be written.
    #[error("can't be written as canonical JSON: {0}")]
    Unwritable(String),
    /// The bytes aren't JSON of the expected shape.
    #[error("not the expected JSON: {0}")]
    Unreadable(String),
    /// The bytes say the right thing in another spelling (spaces, key order, escapes, unknown keys).
    #[error("JSON, but not in canonical form")]
    OtherSpelling,
}

/// The canonical bytes of a value. A number that canonical JSON would round is refused: two values must never share
/// their bytes.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, NotCanonical> {
    encode_into(Vec::with_capacity(512), value)
}

fn encode_into<T: Serialize>(mut bytes: Vec<u8>, value: &T) -> Result<Vec<u8>, NotCanonical> {
    write::write(&mut bytes, value).map_err(|why| NotCanonical::Unwritable(why.to_string()))?;
    Ok(bytes)
}

/// Reads a value and insists that these bytes are its canonical form, so that no byte can change unseen.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, NotCanonical> {
    // Text that is known to be some is read faster.
    let read = match str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    };
    let value: T = read.map_err(|why| NotCanonical::Unreadable(why.to_string()))?;
    if compare::is_form_of(bytes, &value) || encode_into(Vec::with_capacity(bytes.len()), &value)? == bytes {
        Ok(value)
    } else {
        Err(NotCanonical::OtherSpelling)
    }
}
