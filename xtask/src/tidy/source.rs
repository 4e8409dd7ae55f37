//! Code and comments apart, for rules that must not trip over the words in a string or a comment.

/// A source text twice, line by line: once with everything but code blanked, once with everything but comments. Columns
/// stay where they were. Quotation marks count as code, what is between them as neither.
pub(super) struct Source {
    pub(super) code: Vec<String>,
    pub(super) comments: Vec<String>,
}

enum Within {
    Code,
    LineComment,
    /// Rust's block comments nest.
    BlockComment(usize),
    Text,
    RawText {
        hashes: usize,
    },
}

/// What one step of the reader goes to.
#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Neither,
}

pub(super) fn split(text: &str) -> Source {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::with_capacity(text.len()), String::new());
    let mut within = Within::Code;
    let mut at = 0;
    while at < chars.len() {
        let (count, kind, next) = step(&chars, at, &within);
        for &char in chars[at..].iter().take(count) {
            let blank = if char == '\n' { '\n' } else { ' ' };
            code.push(if matches!(kind, Kind::Code) { char } else { blank });
            comments.push(if matches!(kind, Kind::Comment) { char } else { blank });
        }
        at += count;
        within = next;
    }
    let lines = |text: &str| text.lines().map(str::to_string).collect();
    Source { code: lines(&code), comments: lines(&comments) }
}

/// How many characters to take from here, as what, and where that leaves us.
fn step(chars: &[char], at: usize, within: &Within) -> (usize, Kind, Within) {
    let char = chars[at];
    let next = chars.get(at + 1).copied();
    match within {
        Within::Code => code(chars, at),
        Within::LineComment if char == '\n' => (1, Kind::Comment, Within::Code),
        Within::LineComment => (1, Kind::Comment, Within::LineComment),
        Within::BlockComment(depth) => match (char, next) {
            ('*', Some('/')) if *depth == 1 => (2, Kind::Comment, Within::Code),
            ('*', Some('/')) => (2, Kind::Comment, Within::BlockComment(depth - 1)),
            ('/', Some('*')) => (2, Kind::Comment, Within::BlockComment(depth + 1)),
            _ => (1, Kind::Comment, Within::BlockComment(*depth)),
        },
        Within::Text => match char {
            '\\' => (2, Kind::Neither, Within::Text),
            '"' => (1, Kind::Code, Within::Code),
            _ => (1, Kind::Neither, Within::Text),
        },
        Within::RawText { hashes } => {
            let closes = char == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= *hashes;
            match closes {
                true => (1 + hashes, Kind::Code, Within::Code),
                false => (1, Kind::Neither, Within::RawText { hashes: *hashes }),
            }
        }
    }
}

fn code(chars: &[char], at: usize) -> (usize, Kind, Within) {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => (2, Kind::Comment, Within::LineComment),
        '/' if next == Some('*') => (2, Kind::Comment, Within::BlockComment(1)),
        '"' => (1, Kind::Code, Within::Text),
        '\'' => (character(chars, at), Kind::Neither, Within::Code),
        'r' | 'b' | 'c' if at == 0 || !is_word(chars[at - 1]) => match raw_prefix(&chars[at..]) {
            Some((length, hashes)) => (length, Kind::Code, Within::RawText { hashes }),
            None => (1, Kind::Code, Within::Code),
        },
        _ => (1, Kind::Code, Within::Code),
    }
}

/// The length of the character literal that begins here; 1 for the mark of a lifetime.
fn character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => match chars[at + 3..].iter().position(|&char| char == '\'') {
            Some(rest) => rest + 4,
            None => 1,
        },
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

/// Whether `r"`, `br##"` and the like begin here: the prefix's length and its number of `#`.
fn raw_prefix(chars: &[char]) -> Option<(usize, usize)> {
    let letters = if matches!(chars, ['b' | 'c', 'r', ..]) { 2 } else { 1 };
    if chars[letters - 1] != 'r' {
        return None;
    }
    let hashes = chars[letters..].iter().take_while(|&&char| char == '#').count();
    (chars.get(letters + hashes) == Some(&'"')).then_some((letters + hashes + 1, hashes))
}

/// Part of a name in Rust.
pub(super) fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Where `word` stands on its own in `line`, as byte offsets.
pub(super) fn occurrences<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether `word` stands on its own in `line`.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    occurrences(line, word).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str, comments: &str) {
        let source = split(text);
        assert_eq!(source.code.join("\n"), code);
        assert_eq!(source.comments.join("\n"), comments);
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        check("a // b", "a     ", "  // b");
        check("/* x /* y */ z */ a", "                  a", "/* x /* y */ z */  ");
        check("a(\"// \\\" {\") b", "a(\"       \") b", "              ");
        check("r#\"a \" b\"# c", "r#\"     \"# c", "            ");
        check("br\"a\\\" c", "br\"  \" c", "        ");
    }

    #[test]
    fn lifetimes_are_not_characters() {
        check("&'a str '{' '\\'' b'\\u{7b}' 'b", "& a str          b          b", &" ".repeat(29));
    }

    #[test]
    fn a_name_may_end_in_a_prefix_letter() {
        check("bar\"x\"", "bar\" \"", "      ");
        check("r#fn x", "r#fn x", "      ");
    }
}
