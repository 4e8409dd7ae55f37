//! Which characters show as themselves, and which are written out.
//!
//! An allow-list: a character is shown only if it is known to be seen, to stay in its place and to look like nothing
//! else. What Unicode adds tomorrow is written out until somebody allows it.

use unicode_normalization::char::{compose, is_combining_mark};
use unicode_normalization::{IsNormalized, is_nfc_quick};
use unicode_script::UnicodeScript as _;
use unicode_security::confusable_detection::skeleton;
use unicode_security::{GeneralSecurityProfile as _, MixedScript as _};
use unicode_width::UnicodeWidthChar as _;

/// Begins a character that is written out. It never stands for itself, so nothing can be mistaken for an escape.
pub(super) const OPEN: char = '⟨';
/// Ends it.
pub(super) const CLOSE: char = '⟩';

/// Why a character would be missed by whoever reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Moves the cursor, rings, starts an ANSI sequence.
    Control,
    /// Changes the order in which neighbours are shown.
    Bidi,
    /// Takes no room.
    ZeroWidth,
    /// A copy of ASCII that no font shows.
    Tag,
    /// Picks another glyph of its neighbour.
    VariationSelector,
    /// Means what its font's maker likes.
    PrivateUse,
}

/// Whether a character is one that a reader can't see as itself, whatever stands around it.
pub fn unseen(c: char) -> Option<Unseen> {
    Some(match c {
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => Unseen::Control,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Unseen::Bidi,
        '\u{e0100}'..='\u{e01ef}' | '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            Unseen::VariationSelector
        }
        '\u{e0000}'..='\u{e0fff}' => Unseen::Tag,
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}' => Unseen::ZeroWidth,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => Unseen::PrivateUse,
        _ => return None,
    })
}

/// The blocks whose characters are written from right to left, assigned or not. One of them turns its neighbours round
/// without any control character.
fn is_right_to_left(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Signs beyond ASCII that are common in plain text and look like nothing else. Lines and boxes are left out: frames
/// are the renderer's own.
fn is_known_sign(c: char) -> bool {
    matches!(c,
        '¡'..='§' | '©' | '«' | '®' | '°'..='³' | '¶' | '»' | '¿' | '×' | '÷' | '—' | '†' | '‡' | '•' | '‰' | '€' | '₹'
        | '←'..='↔' | '⇒' | '≈' | '≠' | '≤' | '≥' | '∞' | '√' | '∑' | '、' | '。' | '「'..='】')
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

/// A word that mixes scripts, or that looks like an ASCII word without being one.
fn is_deceptive(word: &str) -> bool {
    if word.is_ascii() {
        return false;
    }
    if !word.is_single_script() {
        return true;
    }
    let latin = word.chars().all(|c| c.is_ascii() || c.script() == unicode_script::Script::Latin);
    skeleton(word).filter(|c| latin || !is_combining_mark(*c)).all(|c| c.is_ascii())
}

/// Marks that one letter can carry before the next is written out: a vowel sign and a nasal, as in हिंदी.
const MAX_MARKS: u32 = 2;

/// What a mark can lean on: a shown letter, what stands between, and how many marks it has.
#[derive(Clone, Copy)]
struct Base {
    letter: char,
    last: char,
    marks: u32,
}

/// Whether a character of an honest word is shown.
fn shows_in_word(c: char, base: Option<Base>) -> bool {
    let one_spelling = is_nfc_quick(std::iter::once(c)) != IsNormalized::No;
    if unseen(c).is_some() || is_right_to_left(c) || !c.identifier_allowed() || !one_spelling {
        return false;
    }
    if is_combining_mark(c) {
        // A mark of its letter's own script belongs there (क + ि); one from everywhere (U+0301) can pile up on anything.
        // Where a single character means the same, the pair would be a second spelling.
        return base.is_some_and(|base| {
            let own = base.letter.script() == c.script() && base.marks < MAX_MARKS;
            own && compose(base.letter, c).is_none() && compose(base.last, c).is_none()
        });
    }
    c.width().is_some_and(|width| width > 0)
}

fn shows_alone(c: char) -> bool {
    is_known_sign(c) && !skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii())
}

/// Writes a character out.
fn escape(out: &mut String, c: char) {
    use std::fmt::Write as _;
    // Writing to a string can't fail.
    let _ = write!(out, "{OPEN}U+{:04X}{CLOSE}", u32::from(c));
}

/// Renders a text in one line.
pub(super) fn render(text: &str) -> String {
    let plain = |b: u8| (0x20..0x7f).contains(&b);
    if text.bytes().all(plain) && !text.ends_with(' ') {
        return text.to_owned();
    }
    // A space at the end can't be seen.
    let (text, last) = text.strip_suffix(' ').map_or((text, false), |text| (text, true));
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if is_word_part(first) {
            let end = rest.find(|c| !is_word_part(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            render_word(&mut out, word);
            rest = after;
        } else {
            if matches!(first, ' '..='~') || shows_alone(first) {
                out.push(first)
            } else {
                escape(&mut out, first)
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    if last {
        escape(&mut out, ' ');
    }
    out
}

fn render_word(out: &mut String, word: &str) {
    let honest = !is_deceptive(word);
    let mut base: Option<Base> = None;
    for c in word.chars() {
        let shown = c.is_ascii() || (honest && shows_in_word(c, base));
        if shown {
            out.push(c)
        } else {
            escape(out, c)
        }
        base = match base {
            _ if !shown => None,
            Some(base) if is_combining_mark(c) => Some(Base { last: c, marks: base.marks + 1, ..base }),
            _ => Some(Base { letter: c, last: c, marks: 0 }),
        };
    }
}
