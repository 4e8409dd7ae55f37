//! The forms that a value takes, as patterns to look for.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::limits::{MAX_SECRET, MIN_DISTINCT, MIN_SECRET};

/// How a value was written where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// As it is.
    Raw,
    /// With percent, JSON or HTML escapes, or `+` for spaces.
    Escaped,
    /// In base64 of either alphabet, alone or inside of more.
    Base64,
    /// In hexadecimal of either case.
    Hex,
    /// Nobody knows: escapes are nested in each other so densely that looking under all of them would take too long. It
    /// belongs to no slot.
    Tangled,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "as it is",
            Self::Escaped => "escaped",
            Self::Base64 => "in base64",
            Self::Hex => "in hex",
            Self::Tangled => "under more escapes than can be undone",
        })
    }
}

/// Why a value can't be guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It would be found by chance.
    #[error("it has {found} bytes; below {MIN_SECRET} it would be found in texts that have nothing to do with it")]
    Short {
        /// How long it is.
        found: usize,
    },
    /// It is longer than a stream can hold back.
    #[error("it has {found} bytes; at most {MAX_SECRET} can be looked for")]
    Long {
        /// How long it is.
        found: usize,
    },
    /// It is the same few bytes over and over.
    #[error(
        "it has {found} different bytes; with fewer than {MIN_DISTINCT} it would be found in texts that have nothing to do with it"
    )]
    Uniform {
        /// How many different ones.
        found: usize,
    },
}

/// Whether a value can be guarded. Ask when it is set: a value that isn't looked for isn't protected.
pub fn fit(value: &[u8]) -> Result<(), Misfit> {
    let found = value.len();
    if found < MIN_SECRET {
        return Err(Misfit::Short { found });
    }
    if found > MAX_SECRET {
        return Err(Misfit::Long { found });
    }
    let mut seen = [false; 256];
    value.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    match seen.iter().filter(|seen| **seen).count() {
        found if found < MIN_DISTINCT => Err(Misfit::Uniform { found }),
        _ => Ok(()),
    }
}

/// One pattern.
pub(super) struct Draft {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) form: Form,
    /// Letters match in either case; the pattern has the small ones.
    pub(super) folded: bool,
    /// The character before or after has bits of the value too.
    pub(super) before: bool,
    pub(super) after: bool,
}

/// Every pattern that a value is looked for by. Escapes of it are not among them: they are undone in the text, because
/// encoders don't agree on what they escape.
pub(super) fn drafts(value: &[u8]) -> Vec<Draft> {
    let exact =
        |bytes: Vec<u8>, form| Draft { bytes: Zeroizing::new(bytes), form, folded: false, before: false, after: false };
    let mut drafts = vec![exact(value.to_vec(), Form::Raw)];
    if value.contains(&b' ') {
        let spaced = value.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte });
        drafts.push(exact(spaced.collect(), Form::Escaped));
    }
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    let hex = value.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    drafts.push(Draft { folded: true, ..exact(hex.collect(), Form::Hex) });
    for ahead in 0..3 {
        drafts.extend(base64(value, ahead).map(|bytes| Draft {
            before: ahead > 0,
            after: !(ahead + value.len()).is_multiple_of(3),
            ..exact(bytes, Form::Base64)
        }));
    }
    drafts.sort_by(|a, b| (a.folded, &*a.bytes, a.form).cmp(&(b.folded, &*b.bytes, b.form)));
    drafts.dedup_by(|later, first| later.folded == first.folded && later.bytes == first.bytes);
    drafts
}

/// The characters that a value alone decides when `ahead` other bytes come before it in its group of three.
fn base64(value: &[u8], ahead: usize) -> [Vec<u8>; 2] {
    let mut group = Zeroizing::new(Vec::with_capacity(value.len() + ahead));
    group.resize(ahead, 0);
    group.extend(value);
    let (first, end) = ((ahead * 8).div_ceil(6), group.len() * 8 / 6);
    [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD].map(|alphabet| {
        let whole = Zeroizing::new(alphabet.encode(&*group).into_bytes());
        whole.get(first..end).unwrap_or_default().to_vec()
    })
}

/// Whether a byte can be part of base64 of either alphabet.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}
