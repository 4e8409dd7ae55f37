//! A first look at a text of rules: where each one stands, whether it is of a size that can be parsed, and where its
//! clauses are. Cedar's parser says what they mean; it doesn't say where they stand, and it recurses.

use std::ops::Range;

use super::{MAX_NESTING, MAX_OPERATORS};

/// A word, a literal or a sign, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    at: Range<usize>,
    sort: Sort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Word,
    Text,
    Sign,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) what: String,
    pub(super) hint: String,
}

fn fault(at: usize, what: impl Into<String>, hint: impl Into<String>) -> Fault {
    Fault { at, what: what.into(), hint: hint.into() }
}

/// The next token at or after `from`: comments and spaces are none.
fn next(text: &str, from: usize) -> Result<Option<Token>, Fault> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'/') if bytes.get(at + 1) == Some(&b'/') => {
                at = text[at..].find('\n').map_or(bytes.len(), |end| at + end);
            }
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            Some(b'"') => return string(text, at).map(Some),
            Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => {
                let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
                let end = at + bytes[at..].iter().take_while(|b| word(b)).count();
                return Ok(Some(Token { at: at..end, sort: Sort::Word }));
            }
            Some(byte) => {
                let pair = matches!(bytes.get(at..at + 2), Some(b"&&" | b"||" | b"::" | b"==" | b"!=" | b"<=" | b">="));
                let len = if pair {
                    2
                } else if byte.is_ascii() {
                    1
                } else {
                    text[at..].chars().next().map_or(1, char::len_utf8)
                };
                return Ok(Some(Token { at: at..at + len, sort: Sort::Sign }));
            }
        }
    }
}

fn string(text: &str, start: usize) -> Result<Token, Fault> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(start + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Ok(Token { at: start..at + 1, sort: Sort::Text }),
            _ => {}
        }
    }
    Err(fault(start, "a text that does not end", "close it with `\"`"))
}

/// Cuts a text into its rules, each up to and with its `;`, and refuses what is too deep to parse.
pub(super) fn rules(text: &str, most: usize) -> Result<Vec<Range<usize>>, Fault> {
    let mut found = Vec::new();
    let mut start = None;
    let (mut depth, mut ifs, mut operators) = (0_usize, 0_usize, 0_usize);
    let mut from = 0;
    while let Some(token) = next(text, from)? {
        from = token.at.end;
        let begin = *start.get_or_insert(token.at.start);
        match &text[token.at.clone()] {
            "(" | "[" | "{" if token.sort == Sort::Sign => depth += 1,
            ")" | "]" | "}" if token.sort == Sort::Sign => depth = depth.saturating_sub(1),
            "if" if token.sort == Sort::Word => ifs += 1,
            "&&" | "||" | "." | "!" | "+" | "-" | "*" => operators += 1,
            ";" if token.sort == Sort::Sign => {
                found.push(begin..from);
                (start, depth, ifs, operators) = (None, 0, 0, 0);
                if found.len() > most {
                    let what = format!("more than {most} rules");
                    return Err(fault(begin, what, "name a group or a list in one rule instead of one rule for each"));
                }
            }
            _ => {}
        }
        if depth + ifs > MAX_NESTING {
            let what = format!("more than {MAX_NESTING} brackets and `if`s inside one another");
            return Err(fault(token.at.start, what, "split the rule in two"));
        }
        if operators > MAX_OPERATORS {
            let what = format!("more than {MAX_OPERATORS} operators in one rule");
            return Err(fault(token.at.start, what, "split the rule in two, or use a set and `contains`"));
        }
    }
    match start {
        None => Ok(found),
        Some(begin) => Err(fault(begin, "a rule that does not end", "put `;` behind it")),
    }
}

/// A `when` or `unless` of a rule, cut into what has to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// Whether it is an `unless`: its pieces must all be false.
    pub(super) unless: bool,
    pub(super) pieces: Vec<Range<usize>>,
}

/// The clauses of one rule that Cedar has accepted.
pub(super) fn clauses(rule: &str) -> Vec<Clause> {
    let mut tokens = Vec::new();
    let mut from = 0;
    while let Ok(Some(token)) = next(rule, from) {
        from = token.at.end;
        tokens.push(token);
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut index = 0;
    while index < tokens.len() {
        match &rule[tokens[index].at.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            word @ ("when" | "unless") if depth == 0 && tokens[index].sort == Sort::Word => {
                // The annotations' names stand behind `@`, and could be called so.
                let behind_at = index > 0 && &rule[tokens[index - 1].at.clone()] == "@";
                let body = body(rule, &tokens[index + 1..]);
                if let (false, Some(body)) = (behind_at, body) {
                    index += body.len() + 2;
                    found.push(Clause { unless: word == "unless", pieces: pieces(rule, body, word == "unless") });
                }
            }
            _ => {}
        }
        index += 1;
    }
    found
}

/// The tokens between the braces that follow.
fn body<'a>(rule: &str, tokens: &'a [Token]) -> Option<&'a [Token]> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match &rule[token.at.clone()] {
            "(" | "[" | "{" if token.sort == Sort::Sign => depth += 1,
            ")" | "]" | "}" if token.sort == Sort::Sign => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return tokens.get(1..index);
        }
    }
    None
}

/// Cuts at `&&` what must all be true, at `||` what must all be false, as far as they are the outermost operators.
fn pieces(rule: &str, body: &[Token], unless: bool) -> Vec<Range<usize>> {
    let (Some(first), Some(last)) = (body.first(), body.last()) else { return Vec::new() };
    let whole = first.at.start..last.at.end;
    let cut = if unless { "||" } else { "&&" };
    let mut found = Vec::new();
    let (mut depth, mut start) = (0_usize, whole.start);
    for token in body {
        match &rule[token.at.clone()] {
            "(" | "[" | "{" if token.sort == Sort::Sign => depth += 1,
            ")" | "]" | "}" if token.sort == Sort::Sign => depth = depth.saturating_sub(1),
            // `&&` binds tighter than `||`, and both tighter than `if`.
            "||" if depth == 0 && !unless => return vec![whole],
            "if" if depth == 0 && token.sort == Sort::Word => return vec![whole],
            sign if depth == 0 && sign == cut => {
                found.push(start..token.at.start);
                start = token.at.end;
            }
            _ => {}
        }
    }
    found.push(start..whole.end);
    found
}

/// One rule that Cedar has accepted, for anybody, anything and any action.
pub(super) fn headless(rule: &str) -> Option<String> {
    let (mut from, mut depth, mut effect) = (0, 0_usize, false);
    let mut head = None;
    while let Some(token) = next(rule, from).ok()? {
        from = token.at.end;
        match (&rule[token.at.clone()], token.sort) {
            ("permit" | "forbid", Sort::Word) if depth == 0 && !rule[..token.at.start].trim_end().ends_with('@') => {
                effect = true;
            }
            ("(" | "[", Sort::Sign) => {
                depth += 1;
                if effect && head.is_none() {
                    head = Some(token.at.end);
                }
            }
            (")" | "]", Sort::Sign) => {
                depth = depth.checked_sub(1)?;
                if let (0, Some(start)) = (depth, head) {
                    return Some(format!("{}principal, action, resource{}", &rule[..start], &rule[token.at.start..]));
                }
            }
            _ => {}
        }
    }
    None
}

/// A piece of source on one line: comments dropped, spaces squeezed.
pub(super) fn squeeze(source: &str) -> String {
    let mut line = String::new();
    let (mut from, mut end) = (0, 0);
    while let Ok(Some(token)) = next(source, from) {
        if !line.is_empty() && token.at.start > end {
            line.push(' ');
        }
        line.push_str(&source[token.at.clone()]);
        from = token.at.end;
        end = from;
    }
    line
}

/// Line and column, both from 1, of an offset.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(rule: &str) -> Vec<(bool, Vec<String>)> {
        let text = |range: &Range<usize>| squeeze(&rule[range.clone()]);
        clauses(rule).iter().map(|c| (c.unless, c.pieces.iter().map(text).collect())).collect()
    }

    #[test]
    fn clauses_are_cut_where_they_may_be() {
        let rule = r#"@when("when { a && b }") permit (principal, action in [Action::"when"], resource) // when { x }
            when { a == "&& }" && // why
                   (b || c)   && d.contains("{") } unless { e || f && g } when { h && i || j };"#;
        let expected: Vec<(bool, Vec<String>)> = vec![
            (false, vec![r#"a == "&& }""#.into(), "(b || c)".into(), r#"d.contains("{")"#.into()]),
            (true, vec!["e".into(), "f && g".into()]),
            (false, vec!["h && i || j".into()]),
        ];
        assert_eq!(cut(rule), expected);
        assert_eq!(cut("permit (principal, action, resource);"), vec![]);
        assert_eq!(
            cut("permit (p, a, r) when { if a && b then c else d && e };"),
            vec![(false, vec!["if a && b then c else d && e".into()])]
        );
    }

    #[test]
    fn a_head_is_found_behind_the_annotations() {
        let rule = r#"@permit("permit (") @id("a)") // forbid (
            forbid ( // )
                principal in App::")", action in [Action::"("], resource) when { (context.run == "(") };"#;
        let bare = squeeze(&headless(rule).unwrap());
        let expected =
            r#"@permit("permit (") @id("a)") forbid (principal, action, resource) when { (context.run == "(") };"#;
        assert_eq!(bare, expected);
        assert_eq!(headless("permit (principal").as_deref(), None);
    }

    #[test]
    fn rules_are_cut_at_semicolons_outside_of_texts() {
        let text = "// one;\n@id(\"a;b\") permit (x);\n\n forbid (y); // end";
        let found: Vec<_> = rules(text, 9).unwrap().into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["@id(\"a;b\") permit (x);", "forbid (y);"]);
        assert_eq!(rules("permit (x)", 9).unwrap_err().what, "a rule that does not end");
        assert_eq!(rules("permit (\"x);", 9).unwrap_err().what, "a text that does not end");
        assert!(rules("a;a;a;", 2).is_err());
    }
}
