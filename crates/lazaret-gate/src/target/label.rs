//! One label of a host name: its length, its hyphens, and what an `xn--` label says to whoever reads it.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use unicode_security::{RestrictionLevel, RestrictionLevelDetection as _, skeleton};

use super::{BadTarget, quoted};
use crate::limits::MAX_LABEL;

/// How an internationalised label starts.
const PREFIX: &str = "xn--";

/// A label of lower-case letters, digits and hyphens.
pub(super) fn check(label: &str) -> Result<(), BadTarget> {
    if label.len() > MAX_LABEL {
        return Err(BadTarget::LongLabel(quoted(label)));
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(BadTarget::Hyphen(quoted(label)));
    }
    if label.starts_with(PREFIX) { international(label) } else { Ok(()) }
}

/// What would be looked up for a name beyond ASCII, for a message.
pub(super) fn to_ascii(host: &str) -> Option<String> {
    let ascii = Uts46::new().to_ascii(host.as_bytes(), AsciiDenyList::STD3, Hyphens::Check, DnsLength::Verify).ok()?;
    // Only what would then be taken is worth a hint.
    ascii.split('.').all(|label| check(label).is_ok()).then(|| ascii.into_owned())
}

/// A label must be the one that stands for what it decodes to, and that must be written in one script (or a mix that
/// people do write) and not look like plain ASCII.
fn international(label: &str) -> Result<(), BadTarget> {
    let idna = Uts46::new();
    let (decoded, lawful) = idna.to_unicode(label.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast);
    let back = idna.to_ascii(decoded.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify);
    if lawful.is_err() || decoded.is_ascii() || back.ok().as_deref() != Some(label) {
        return Err(BadTarget::Idna(quoted(label)));
    }
    if !decoded.as_ref().check_restriction_level(RestrictionLevel::HighlyRestrictive) {
        return Err(BadTarget::MixedScript { label: quoted(label), decoded: quoted(&decoded) });
    }
    let looks: String = skeleton(&decoded).collect();
    if looks.is_ascii() {
        return Err(BadTarget::Confusable { label: quoted(label), decoded: quoted(&decoded), looks: quoted(&looks) });
    }
    Ok(())
}
