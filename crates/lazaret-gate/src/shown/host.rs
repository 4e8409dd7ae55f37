//! Host names inside texts: what a resolver would be asked for, and what an `xn--` name would look like.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

/// A host that has two faces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoFaced {
    /// As it stands in the text.
    pub written: String,
    /// In ASCII, with `xn--` labels; `None` if no name in ASCII stands for it.
    pub ascii: Option<String>,
    /// With its `xn--` labels decoded.
    pub unicode: String,
}

/// The hosts of URLs and of addresses with `@` in a text that aren't plain ASCII names, in order, each once.
pub fn two_faced(text: &str) -> Vec<TwoFaced> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for host in hosts(text) {
        let decodes = host.split('.').any(|label| label.to_ascii_lowercase().starts_with("xn--"));
        if (host.is_ascii() && !decodes) || !seen.insert(host) {
            continue;
        }
        found.push(TwoFaced { written: host.to_owned(), ascii: to_ascii(host), unicode: to_unicode(host) });
    }
    found
}

/// What stands where a host would: behind `://` and behind `@`.
fn hosts(text: &str) -> impl Iterator<Item = &str> {
    let after_scheme = text.match_indices("://").map(|(at, _)| {
        let rest = &text[at + 3..];
        let end = rest.find(|c: char| matches!(c, '/' | '?' | '#' | '\\') || ends_host(c)).unwrap_or(rest.len());
        let authority = &rest[..end];
        authority.rfind('@').map_or(authority, |at| &authority[at + 1..])
    });
    let after_at = text.match_indices('@').map(|(at, _)| {
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "-.。．｡".contains(c))).unwrap_or(rest.len());
        &rest[..end]
    });
    after_scheme.chain(after_at).map(|host| host.split(':').next().unwrap_or(host)).filter(|host| !host.is_empty())
}

fn ends_host(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '(' | ')' | '`' | ',' | ';')
}

/// Lower case, compatibility forms folded, then Punycode label by label.
fn to_ascii(host: &str) -> Option<String> {
    let folded: String = host.nfkc().flat_map(char::to_lowercase).nfc().collect();
    let labels: Option<Vec<String>> = folded
        .split(['.', '。'])
        .map(|label| {
            let ascii = if label.is_ascii() { label.to_owned() } else { format!("xn--{}", encode(label)?) };
            (ascii.len() <= 63).then_some(ascii)
        })
        .collect();
    labels.map(|labels| labels.join(".")).filter(|name| name.len() <= 253)
}

fn to_unicode(host: &str) -> String {
    let labels = host.split('.').map(|label| {
        let lower = label.to_ascii_lowercase();
        lower.strip_prefix("xn--").and_then(decode).unwrap_or_else(|| label.to_owned())
    });
    labels.collect::<Vec<_>>().join(".")
}

// RFC 3492, section 5.
const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;

/// The longest label that is worth encoding: a DNS label has at most 63 bytes, and the work grows with the square.
const MAX_LABEL: usize = 63;

fn adapt(delta: u32, points: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / points;
    let mut k = 0;
    while delta > (BASE - T_MIN) * T_MAX / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE - T_MIN + 1) * delta / (delta + 38)
}

fn threshold(k: u32, bias: u32) -> u32 {
    k.saturating_sub(bias).clamp(T_MIN, T_MAX)
}

fn digit(value: u32) -> char {
    // Always below 36: the callers divide by 36 - t with t of at least 1.
    char::from_digit(if value < 26 { value + 10 } else { value - 26 }, BASE).unwrap_or('0')
}

fn encode(label: &str) -> Option<String> {
    let input: Vec<u32> = label.chars().map(u32::from).collect();
    if input.len() > MAX_LABEL {
        return None;
    }
    let mut out: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(out.len()).ok()?;
    if basic > 0 {
        out.push('-');
    }
    let (mut n, mut delta, mut bias, mut done) = (128_u32, 0_u32, 72_u32, basic);
    while (done as usize) < input.len() {
        let next = *input.iter().filter(|c| **c >= n).min()?;
        delta = delta.checked_add((next - n).checked_mul(done + 1)?)?;
        n = next;
        for c in &input {
            if *c < n {
                delta = delta.checked_add(1)?;
            }
            if *c != n {
                continue;
            }
            let (mut q, mut k) = (delta, BASE);
            loop {
                let t = threshold(k, bias);
                if q < t {
                    break;
                }
                out.push(digit(t + (q - t) % (BASE - t)));
                q = (q - t) / (BASE - t);
                k += BASE;
            }
            out.push(digit(q));
            bias = adapt(delta, done + 1, done == basic);
            delta = 0;
            done += 1;
        }
        delta = delta.checked_add(1)?;
        n += 1;
    }
    Some(out)
}

fn decode(label: &str) -> Option<String> {
    if label.len() > MAX_LABEL {
        return None;
    }
    let (basic, tail) = label.rfind('-').map_or(("", label), |at| (&label[..at], &label[at + 1..]));
    let mut out: Vec<char> = basic.chars().collect();
    let (mut n, mut i, mut bias) = (128_u32, 0_u32, 72_u32);
    let mut digits = tail.bytes();
    while digits.len() > 0 {
        let before = i;
        let (mut weight, mut k) = (1_u32, BASE);
        loop {
            let value = match digits.next()? {
                c @ b'a'..=b'z' => u32::from(c - b'a'),
                c @ b'0'..=b'9' => u32::from(c - b'0') + 26,
                _ => return None,
            };
            i = i.checked_add(value.checked_mul(weight)?)?;
            let t = threshold(k, bias);
            if value < t {
                break;
            }
            weight = weight.checked_mul(BASE - t)?;
            k += BASE;
        }
        let points = u32::try_from(out.len()).ok()? + 1;
        bias = adapt(i - before, points, before == 0);
        n = n.checked_add(i / points)?;
        i %= points;
        out.insert(i as usize, char::from_u32(n)?);
        i += 1;
    }
    Some(out.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, two_faced};

    /// RFC 3492, section 7.1, and names in use.
    #[test]
    fn punycode_samples() {
        for (unicode, ascii) in [
            ("bücher", "bcher-kva"),
            ("他们为什么不说中文", "ihqwcrb4cv8a8dqg056pqjye"),
            ("なぜみんな日本語を話してくれないのか", "n8jok5ay5dzabd5bym9f0cm5685rrjetr6pdxa"),
            ("почемужеонинеговорятпорусски", "b1abfaaepdrnnbgefbadotcwatmq2g4l"),
            ("аpple", "pple-43d"),
        ] {
            assert_eq!(encode(unicode).as_deref(), Some(ascii));
            assert_eq!(decode(ascii).as_deref(), Some(unicode));
        }
    }

    #[test]
    fn hosts_in_texts() {
        let found = two_faced("see https://me@аpple.com:8443/x?y, http://plain.example and mail Bob@BÜCHER.example.");
        let faces: Vec<_> = found.iter().map(|host| (host.written.as_str(), host.ascii.as_deref())).collect();
        assert_eq!(
            faces,
            [("аpple.com", Some("xn--pple-43d.com")), ("BÜCHER.example.", Some("xn--bcher-kva.example."))]
        );
        let found = two_faced("https://xn--pple-43d.com/");
        assert_eq!(found[0].unicode, "аpple.com");
    }
}
