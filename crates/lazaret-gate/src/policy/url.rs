//! What a rule sees of a URL: the origin, by the gate's one parser, and the path in one spelling.

use super::request::BadRequest;
use crate::grant::Origin;

/// The origin, and the path without the query.
pub(super) fn parts(url: &str) -> Result<(Origin, String), BadRequest> {
    let origin = Origin::of_url(url).map_err(|why| BadRequest::Url(why.to_string()))?;
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    let path = rest.split('?').next().unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    Ok((origin, one_spelling(path)?))
}

/// Undoes escapes that nobody needs and writes the others in upper case, so that a rule about `/admin` also sees
/// `/%61dmin`. Dot segments are refused: servers disagree on where they lead.
fn one_spelling(path: &str) -> Result<String, BadRequest> {
    let mut spelled = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        spelled.push_str(&rest[..at]);
        let byte = rest
            .get(at + 1..at + 3)
            .and_then(hex)
            .ok_or_else(|| BadRequest::Url("the path has a `%` that is not followed by two hex digits".to_owned()))?;
        match char::from(byte) {
            plain @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~') => spelled.push(plain),
            _ => spelled.push_str(&format!("%{byte:02X}")),
        }
        rest = &rest[at + 3..];
    }
    spelled.push_str(rest);
    // Some servers take an escaped slash for a slash.
    let slashes = spelled.replace("%2F", "/").replace("%5C", "/");
    if slashes.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(BadRequest::Url("the path has a `.` or `..` segment: write where it leads".to_owned()));
    }
    Ok(spelled)
}

fn hex(pair: &str) -> Option<u8> {
    pair.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok()).flatten()
}

/// A content type in lower case and without its parameters.
pub(super) fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        let path = |url: &str| parts(url).map(|(_, path)| path);
        assert_eq!(path("https://a.example").unwrap(), "/");
        assert_eq!(path("https://a.example?q=/x").unwrap(), "/");
        assert_eq!(path("https://a.example/v1/x?y=1").unwrap(), "/v1/x");
        assert_eq!(path("https://a.example/%61dmin/%2fx%C3%a9").unwrap(), "/admin/%2Fx%C3%A9");
        for bad in ["/a/../b", "/.", "/%2e%2E/b", "/a%2f..%2fb", "/a%5c..", "/%zz", "/%4", "/%+1"] {
            assert!(path(&format!("https://a.example{bad}")).is_err(), "{bad}");
        }
        assert_eq!(essence(" Text/HTML ; charset=utf-8"), "text/html");
    }
}
