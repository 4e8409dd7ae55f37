//! Escapes undone: what `%2F`, `\"`, `\u00e9` and `&amp;` stand for, and where it stood.

use std::cell::Cell;

use memchr::{memchr, memchr3};

use super::limits::{ESCAPE_WORK, FREE_WORK, MAX_WORK};

/// The longest escape: two surrogates, `\ud83d\ude00`.
pub(super) const LONGEST: usize = 12;

/// Who wrote an escape. Kinds are undone one at a time: undoing what one encoder wrote gives back exactly what it was
/// given, even if that had escapes of another kind in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Percent,
    Backslash,
    Entity,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Percent, Self::Backslash, Self::Entity];

    /// What each of its escapes begins with.
    fn mark(self) -> u8 {
        match self {
            Self::Percent => b'%',
            Self::Backslash => b'\\',
            Self::Entity => b'&',
        }
    }

    /// Whether a byte can be part of one of its escapes.
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte == b'%' || byte.is_ascii_hexdigit(),
            Self::Backslash => byte.is_ascii_alphanumeric() || matches!(byte, b'\\' | b'"' | b'\'' | b'/'),
            Self::Entity => byte.is_ascii_alphanumeric() || matches!(byte, b'&' | b'#' | b';'),
        }
    }
}

/// What an encoder of HTML writes by name; the rest it writes by number.
const NAMES: [(&[u8], u8); 5] = [(b"amp;", b'&'), (b"lt;", b'<'), (b"gt;", b'>'), (b"quot;", b'"'), (b"apos;", b'\'')];

/// Why what begins like an escape isn't one.
enum Miss {
    /// The text ends before it could be told.
    Open,
    Not,
}

/// An escape: how many bytes it takes, and which it stands for.
struct Escape {
    len: usize,
    bytes: [u8; 4],
    count: usize,
}

impl Escape {
    fn byte(len: usize, byte: u8) -> Self {
        Self { len, bytes: [byte, 0, 0, 0], count: 1 }
    }

    fn char(len: usize, code: u32) -> Result<Self, Miss> {
        let mut bytes = [0; 4];
        let count = char::from_u32(code).ok_or(Miss::Not)?.encode_utf8(&mut bytes).len();
        Ok(Self { len, bytes, count })
    }

    /// Reads the one that `text` begins with, whose mark was seen.
    fn read(text: &[u8], kind: Kind) -> Result<Self, Miss> {
        match kind {
            Kind::Percent => Ok(Self::byte(3, low(hex(text, 1, 2)?))),
            Kind::Backslash => Self::backslash(text),
            Kind::Entity => Self::entity(text),
        }
    }

    fn backslash(text: &[u8]) -> Result<Self, Miss> {
        let byte = match at(text, 1)? {
            b'u' => return Self::unit(text),
            b'x' => return Ok(Self::byte(4, low(hex(text, 2, 2)?))),
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            itself @ (b'"' | b'\\' | b'/' | b'\'') => itself,
            _ => return Err(Miss::Not),
        };
        Ok(Self::byte(2, byte))
    }

    /// `\u` and four digits, or two of these for what needs two.
    fn unit(text: &[u8]) -> Result<Self, Miss> {
        let high = hex(text, 2, 4)?;
        if !(0xd800..0xdc00).contains(&high) {
            return Self::char(6, high);
        }
        if at(text, 6)? != b'\\' || at(text, 7)? != b'u' {
            return Err(Miss::Not);
        }
        let low = hex(text, 8, 4)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(Miss::Not);
        }
        Self::char(12, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn entity(text: &[u8]) -> Result<Self, Miss> {
        if at(text, 1)? != b'#' {
            let rest = text.get(1..).unwrap_or_default();
            if let Some((name, byte)) = NAMES.iter().find(|(name, _)| rest.starts_with(name)) {
                return Ok(Self::byte(name.len() + 1, *byte));
            }
            let open = NAMES.iter().any(|(name, _)| name.starts_with(rest));
            return Err(if open { Miss::Open } else { Miss::Not });
        }
        let (base, first) = if matches!(at(text, 2)?, b'x' | b'X') { (16, 3) } else { (10, 2) };
        let mut code = 0;
        for place in first..first + 8 {
            match char::from(at(text, place)?).to_digit(base) {
                // Seven digits of either base fit.
                Some(digit) if place < first + 7 => code = code * base + digit,
                None if text.get(place) == Some(&b';') && place > first => return Self::char(place + 1, code),
                _ => break,
            }
        }
        Err(Miss::Not)
    }
}

fn at(text: &[u8], place: usize) -> Result<u8, Miss> {
    text.get(place).copied().ok_or(Miss::Open)
}

/// What each byte is worth as a digit of base 16; 255 if it isn't one. Texts of nothing but escapes read two of these for
/// every byte that comes out.
const DIGITS: [u8; 256] = {
    let (mut digits, mut byte) = ([255; 256], 0);
    while byte < 256 {
        digits[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => 255,
        };
        byte += 1;
    }
    digits
};

fn hex(text: &[u8], from: usize, count: usize) -> Result<u32, Miss> {
    let mut sum = 0;
    for place in from..from + count {
        let digit = DIGITS[usize::from(at(text, place)?)];
        if digit == 255 {
            return Err(Miss::Not);
        }
        sum = sum << 4 | u32::from(digit);
    }
    Ok(sum)
}

fn low(code: u32) -> u8 {
    code.to_le_bytes()[0]
}

/// Escapes that were undone: one, or several of one length that stood side by side. A text of nothing but escapes has
/// millions, and nearly all of them alike.
///
/// They are small: a text that is looked at in one go has far less than 4 GiB.
#[derive(Clone, Copy)]
struct Undone {
    /// Where their bytes are.
    plain: u32,
    /// Where they stood.
    raw: u32,
    /// How many they are.
    times: u32,
    /// How many bytes each stands for, and how long each was.
    count: u8,
    len: u8,
}

impl Undone {
    fn plain(self) -> usize {
        self.plain as usize
    }

    fn plain_end(self) -> usize {
        self.plain as usize + self.times as usize * usize::from(self.count)
    }

    fn raw(self) -> usize {
        self.raw as usize
    }

    fn raw_end(self) -> usize {
        self.raw as usize + self.times as usize * usize::from(self.len)
    }

    /// Whether others stand right behind these, and are like them.
    fn goes_on_with(self, other: Self) -> bool {
        (self.len, self.count) == (other.len, other.count)
            && (self.raw_end(), self.plain_end()) == (other.raw(), other.plain())
    }

    /// Where the escape stood that the byte at `place` came from.
    fn raw_of(self, place: usize) -> usize {
        self.raw() + (place - self.plain()) / usize::from(self.count) * usize::from(self.len)
    }

    /// The place of what the escape around `raw` stands for.
    fn place_of(self, raw: usize) -> usize {
        self.plain() + (raw - self.raw()) / usize::from(self.len) * usize::from(self.count)
    }
}

/// A stretch of a text with its escapes undone, which knows where each byte came from.
#[derive(Default)]
pub(super) struct Plain {
    pub(super) bytes: Vec<u8>,
    /// Where the stretch begins and ends in the text.
    pub(super) from: usize,
    pub(super) to: usize,
    undone: Vec<Undone>,
    /// How many escapes that are.
    escapes: usize,
    /// Whether it makes a difference that another kind was undone before; see [`Before`].
    pub(super) tied: bool,
}

/// What was undone before, and where. Escapes of two kinds never share a byte, so undoing both gives the same in either
/// order, and one order is enough; unless an escape of the second kind has to do with what came from one of the first, or
/// what comes from it could be part of one of the first.
#[derive(Clone, Copy)]
pub(super) struct Before<'p> {
    pub(super) kind: Kind,
    pub(super) plain: &'p Plain,
}

impl Before<'_> {
    fn ties(&self, raw: usize, escape: &Escape) -> bool {
        let undone = &self.plain.undone;
        let next = undone.partition_point(|undone| undone.plain_end() <= raw);
        undone.get(next).is_some_and(|undone| undone.plain() < raw + escape.len)
            || escape.bytes.iter().take(escape.count).any(|byte| self.kind.has(*byte))
    }
}

impl Plain {
    /// Where the byte at `place` came from; for the end of the bytes, where the stretch went on.
    pub(super) fn start(&self, place: usize) -> usize {
        let before = self.undone.partition_point(|undone| undone.plain() <= place);
        match before.checked_sub(1).and_then(|last| self.undone.get(last)) {
            None => self.from + place,
            Some(last) if place < last.plain_end() => last.raw_of(place),
            Some(last) => last.raw_end() + (place - last.plain_end()),
        }
    }

    /// Where what came before `place` ended.
    pub(super) fn end(&self, place: usize) -> usize {
        let Some(last) = place.checked_sub(1) else { return self.from };
        let before = self.undone.partition_point(|undone| undone.plain() <= last);
        match before.checked_sub(1).and_then(|at| self.undone.get(at)) {
            Some(undone) if last < undone.plain_end() => undone.raw_of(last) + usize::from(undone.len),
            _ => self.start(last) + 1,
        }
    }

    /// The place of what stood at `raw`, or around it.
    pub(super) fn place(&self, raw: usize) -> usize {
        let before = self.undone.partition_point(|undone| undone.raw() <= raw);
        match before.checked_sub(1).and_then(|last| self.undone.get(last)) {
            None => raw.saturating_sub(self.from),
            Some(last) if raw < last.raw_end() => last.place_of(raw),
            Some(last) => last.plain_end() + (raw - last.raw_end()),
        }
    }

    fn restart(&mut self, from: usize) {
        self.bytes.clear();
        self.undone.clear();
        (self.from, self.to, self.escapes, self.tied) = (from, from, 0, false);
    }

    fn copy(&mut self, text: &[u8], to: usize) {
        if to > self.to {
            self.bytes.extend_from_slice(text.get(self.to..to).unwrap_or_default());
            self.to = to;
        }
    }

    fn push(&mut self, raw: usize, escape: &Escape) {
        let Escape { len, count, bytes } = *escape;
        let plain = self.bytes.len();
        match count {
            1 => self.bytes.push(bytes[0]),
            _ => self.bytes.extend_from_slice(bytes.get(..count).unwrap_or_default()),
        }
        self.note(Undone { plain: plain as u32, raw: raw as u32, times: 1, count: count as u8, len: len as u8 });
    }

    /// Takes `%` and two digits for as long as they follow each other, and says where that ends. It does what [`Escape::read`]
    /// and [`Self::push`] do, faster: the body of a form can be nothing else.
    fn push_percents(&mut self, text: &[u8], raw: usize) -> usize {
        let byte = |escape: &[u8; 3]| {
            let (high, low) = (DIGITS[usize::from(escape[1])], DIGITS[usize::from(escape[2])]);
            (escape[0] == b'%' && (high | low) < 16).then_some(high << 4 | low)
        };
        let plain = self.bytes.len();
        let (escapes, _) = text.get(raw..).unwrap_or_default().as_chunks();
        self.bytes.extend(escapes.iter().map_while(byte));
        let times = self.bytes.len() - plain;
        if times > 0 {
            self.note(Undone { plain: plain as u32, raw: raw as u32, times: times as u32, count: 1, len: 3 });
        }
        raw + 3 * times
    }

    /// Notes what was undone last.
    fn note(&mut self, undone: Undone) {
        self.escapes += undone.times as usize;
        self.to = undone.raw_end();
        match self.undone.last_mut() {
            Some(last) if last.goes_on_with(undone) => last.times += undone.times,
            _ => self.undone.push(undone),
        }
    }
}

/// What looking under a text's escapes may still cost.
pub(super) struct Work {
    left: Cell<usize>,
    over: Cell<bool>,
}

impl Work {
    pub(super) fn new(text: &[u8]) -> Self {
        let left = text.len().saturating_mul(MAX_WORK).saturating_add(FREE_WORK);
        Self { left: Cell::new(left), over: Cell::new(false) }
    }

    /// Whether there is enough left to look at this; it is taken then.
    pub(super) fn take(&self, plain: &Plain) -> bool {
        let cost = plain.bytes.len() + ESCAPE_WORK * plain.escapes;
        match self.left.get().checked_sub(cost) {
            Some(left) => self.left.set(left),
            None => self.over.set(true),
        }
        !self.over.get()
    }

    /// Whether something was not looked at.
    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }
}

/// What to make of an escape that the end of the text cuts off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// It is what it looks like: nothing follows.
    Final,
    /// It may yet become one: stretches end before it.
    Open,
}

/// Whether a text may have an escape of any kind in it: most have none, and one look at them says so.
pub(super) fn may_have(text: &[u8]) -> bool {
    let [percent, backslash, entity] = Kind::ALL.map(Kind::mark);
    memchr3(percent, backslash, entity, text).is_some()
}

/// The first mark from a place on. Where escapes are, others follow at once.
fn seek(text: &[u8], from: usize, mark: u8) -> Option<usize> {
    let rest = text.get(from..)?;
    if rest.first() == Some(&mark) { Some(from) } else { memchr(mark, rest).map(|found| from + found) }
}

/// Hands out each stretch of the text that has escapes of a kind, with `reach` bytes on both sides: whatever is at most that
/// long and has an escape in it lies whole in one of them. They may be taken. Returns where an open escape begins, else
/// the text's length.
pub(super) fn stretches(
    text: &[u8],
    kind: Kind,
    reach: usize,
    at_end: AtEnd,
    before: Option<Before<'_>>,
    each: &mut dyn FnMut(&mut Plain),
) -> usize {
    let mut plain = Plain::default();
    let (mut begun, mut next) = (false, 0);
    let mut open = text.len();
    while let Some(raw) = seek(text, next, kind.mark()) {
        next = raw + 1;
        let escape = match Escape::read(text.get(raw..).unwrap_or_default(), kind) {
            Ok(escape) => Some(escape),
            Err(Miss::Open) if at_end == AtEnd::Open => None,
            Err(_) => continue,
        };
        if begun && raw - plain.to > 2 * reach {
            plain.copy(text, plain.to + reach);
            each(&mut plain);
            begun = false;
        }
        if !begun {
            plain.restart(raw.saturating_sub(reach));
            plain.bytes.reserve(text.len() - plain.from);
            begun = true;
        }
        plain.copy(text, raw);
        match escape {
            Some(escape) => {
                plain.tied = plain.tied || before.is_none_or(|before| before.ties(raw, &escape));
                plain.push(raw, &escape);
                next = raw + escape.len;
                if kind == Kind::Percent && before.is_none() {
                    next = plain.push_percents(text, next);
                }
            }
            None => {
                // What it will be isn't known, nor what that ties.
                plain.tied = true;
                open = raw;
                break;
            }
        }
    }
    if begun {
        plain.copy(text, open.min(plain.to + reach));
        each(&mut plain);
    }
    open
}
