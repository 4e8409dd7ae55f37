//! Lines that fit a terminal of 80 columns, in which a wrapped line can't pass for two.

use unicode_width::UnicodeWidthChar as _;

use super::mark::{CLOSE, OPEN, render};

/// What every surface can show, with a margin of its own of up to four.
pub const COLUMNS: usize = 76;

/// Where values begin.
const INDENT: usize = 12;

/// Stands before a line of a text; no text can contain it.
const BAR: &str = "│ ";
/// Stands before the rest of a line that was too long.
const WRAPPED: &str = "┆ ";

/// A name, and a value in one line, wrapped as often as needed.
pub(super) fn field(lines: &mut Vec<String>, name: &str, value: &str) {
    let start = format!("{name:<INDENT$}");
    wrap(lines, &start, &format!("{:INDENT$}{WRAPPED}", ""), &render(value));
}

/// A text line by line, each behind a bar. A text that ends with a line break ends with an empty line here.
pub(super) fn block(lines: &mut Vec<String>, text: &str) {
    for line in text.split('\n') {
        marked(lines, "  ", line);
    }
}

/// One line of a text, with a sign before the bar.
pub(super) fn marked(lines: &mut Vec<String>, sign: &str, line: &str) {
    wrap(lines, &format!("{sign}{BAR}"), &format!("{sign}{WRAPPED}"), &render(line));
}

/// Puts a rendered line under `first`, and what doesn't fit under `next`, in full.
fn wrap(lines: &mut Vec<String>, first: &str, next: &str, rendered: &str) {
    if rendered.is_empty() {
        lines.push(first.trim_end().to_owned());
        return;
    }
    let mut line = first.to_owned();
    let mut column = width(first);
    for unit in units(rendered) {
        let wide = width(unit);
        if column + wide > COLUMNS {
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            column = width(next);
        }
        line.push_str(unit);
        column += wide;
    }
    lines.push(line);
}

fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Characters and whole escapes.
fn units(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match first {
            OPEN => rest.find(CLOSE).map_or(rest.len(), |at| at + CLOSE.len_utf8()),
            _ => first.len_utf8(),
        };
        let (unit, after) = rest.split_at(end);
        rest = after;
        Some(unit)
    })
}
