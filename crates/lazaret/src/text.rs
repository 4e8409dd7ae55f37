//! Text that came from somewhere else, made safe to look at.

use std::fmt::Write as _;

/// Makes everything visible that a terminal would obey or hide: control characters, bidirectional overrides,
/// zero-width and tag characters. What is shown is what was said.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if hidden(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// The same, but line breaks and tabs stay.
pub(crate) fn visible_lines(text: &str) -> String {
    let part = |line: &str| line.split('\t').map(visible).collect::<Vec<_>>().join("\t");
    text.split('\n').map(part).collect::<Vec<_>>().join("\n")
}

fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Shortens to `most` characters, saying so.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{start}…")
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// 1 entry, 2 entries.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { more })
}

/// Takes the numbers away that the standard library puts after what the system said.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += part.split_once(')').map_or(part, |(_, after)| after);
    }
    out
}

/// Breaks text into lines of at most `width` characters at spaces.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    // What fits keeps its indent.
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let fits = |line: &String| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= width;
        match lines.last_mut() {
            Some(line) if fits(line) => {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Milliseconds since 1970 as a date and time in UTC.
pub(crate) fn date(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Civil date from a day count; eras of 400 years start on 1 March 0000.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides() {
        assert_eq!(visible("a\u{1b}[31mb\u{202e}c\u{200b}d\r\n"), "a\\u{1b}[31mb\\u{202e}c\\u{200b}d\\r\\n");
        assert_eq!(visible_lines("a\n\u{7}b\tc"), "a\n\\u{7}b\tc");
    }

    #[test]
    fn dates_and_numbers() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(1_709_210_096_000), "2024-02-29 12:34:56");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(counted(1, "entry", "entries"), "1 entry");
        assert_eq!(without_numbers("can't: Not found (os error 2); try"), "can't: Not found; try");
    }
}
