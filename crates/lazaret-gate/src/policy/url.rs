//! What a rule sees of a URL: the origin, by the gate's one parser, and the path in one spelling.

use super::request::BadRequest;
use crate::grant::Origin;
use crate::target::Target;

/// The origin, and the path without the query.
pub(super) fn parts(url: &str) -> Result<(Origin, String), BadRequest> {
    let target = Target::parse(url).map_err(|why| BadRequest::Url(why.to_string()))?;
    let path = target.path_and_query().split('?').next().unwrap_or_default();
    Ok((Origin::of(&target), one_spelling(path)))
}

/// Undoes escapes that nobody needs and writes the others in upper case, so that a rule about `/admin` also sees
/// `/%61dmin`. Dot segments were refused: servers disagree on where they lead.
fn one_spelling(path: &str) -> String {
    let mut spelled = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        spelled.push_str(before);
        let Some(byte) = escape.get(1..3).and_then(|pair| u8::from_str_radix(pair, 16).ok()) else {
            // The reader of URLs lets none of these pass.
            rest = escape;
            break;
        };
        match char::from(byte) {
            plain @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~') => spelled.push(plain),
            _ => spelled.push_str(&format!("%{byte:02X}")),
        }
        rest = &escape[3..];
    }
    spelled.push_str(rest);
    spelled
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
