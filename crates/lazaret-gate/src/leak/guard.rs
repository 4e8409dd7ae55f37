//! The values of a vault, looked for and taken out.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use zeroize::Zeroizing;

use super::escapes::{self, AtEnd, Before, Kind, Plain, Work, stretches};
use super::filter::{Filter, Heads};
use super::forms::{Draft, Form, Misfit, drafts, fit, is_base64};
use super::limits::{MAX_GUARDED, MAX_LAYERS, MAX_SECRETS, MAX_SLOT, MIN_SECRET, WINDOW};

/// Secrets that can't be guarded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A value that would be found by chance, or can't be looked for.
    #[error("the value for slot `{slot}` can't be guarded: {why}")]
    Value {
        /// Whose.
        slot: String,
        /// What is wrong with it.
        why: Misfit,
    },
    /// A name that can't stand in a placeholder.
    #[error(
        "`{slot}` is no name for a slot: write 1 to {MAX_SLOT} of the letters a to z in either case, digits, `-`, `_`, `.` and `/`"
    )]
    Slot {
        /// As it was written, as far as a line goes.
        slot: String,
    },
    /// Too many of them.
    #[error("{found} secrets in one guard, at most {MAX_SECRETS} are possible")]
    Many {
        /// How many.
        found: usize,
    },
    /// Too much of them.
    #[error("the values of one guard have {found} bytes together, at most {MAX_GUARDED} are possible")]
    Much {
        /// How many bytes, as far as was counted.
        found: usize,
    },
    /// The placeholder would be the leak.
    #[error(
        "a placeholder contains the value of a secret, the {nth}. of the guard: give it another value, or the slot another name"
    )]
    Placeholder {
        /// Which secret, counted from 1. Its slot's name is left out: it may be the value.
        nth: usize,
    },
}

/// A value was found: whose and where, but not what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'g> {
    /// Whose value it is. If several slots have the same, the one that the guard was given first. Empty if nobody could look.
    pub slot: &'g str,
    /// How it is written there.
    pub form: Form,
    /// Where it begins.
    pub offset: usize,
}

impl fmt::Display for Hit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, form, offset } = self;
        match form {
            Form::Tangled => write!(f, "something {form}, from byte {offset}"),
            _ => write!(f, "the value for slot `{slot}`, {form}, at byte {offset}"),
        }
    }
}

/// What is looked for.
struct Pattern {
    slot: usize,
    bytes: Range<usize>,
    form: Form,
    folded: bool,
    before: bool,
    after: bool,
}

/// A place to take out, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Find {
    pub(super) start: usize,
    pub(super) end: usize,
    slot: usize,
    form: Form,
}

/// How many layers down a text is, what was undone last, and what looking may still cost.
type At<'a> = (usize, Option<Before<'a>>, &'a Work);

/// Looks for the values of secrets, in every form that they commonly take.
///
/// Building one costs some hundredths of a millisecond per secret: keep it as long as the secrets stay the same.
pub struct Guard {
    slots: Vec<Box<str>>,
    /// The bytes of all patterns, and which are whose. Those for which case matters come first; both kinds are sorted.
    arena: Zeroizing<Vec<u8>>,
    patterns: Vec<Pattern>,
    exact: usize,
    longest: usize,
    filter: Filter,
    heads: Heads,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard over secrets: each a slot's name and the value behind it.
    pub fn new<S, V>(secrets: impl IntoIterator<Item = (S, V)>) -> Result<Self, Unfit>
    where
        S: AsRef<str>,
        V: AsRef<[u8]>,
    {
        let (mut slots, mut found, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (slot, value) in secrets {
            let (slot, value) = (slot.as_ref(), value.as_ref());
            check(slot)?;
            fit(value).map_err(|why| Unfit::Value { slot: slot.to_owned(), why })?;
            bytes += value.len();
            if bytes > MAX_GUARDED {
                return Err(Unfit::Much { found: bytes });
            }
            if slots.len() == MAX_SECRETS {
                return Err(Unfit::Many { found: slots.len() + 1 });
            }
            found.extend(drafts(value).into_iter().map(|draft| (slots.len(), draft)));
            slots.push(slot.into());
        }
        let guard = Self::build(slots, found);
        for slot in &guard.slots {
            if let Some(find) = guard.finds(placeholder(slot).as_bytes(), true).first() {
                return Err(Unfit::Placeholder { nth: find.slot + 1 });
            }
        }
        Ok(guard)
    }

    fn build(slots: Vec<Box<str>>, mut found: Vec<(usize, Draft)>) -> Self {
        found.sort_by(|(_, a), (_, b)| (a.folded, &*a.bytes).cmp(&(b.folded, &*b.bytes)));
        found.dedup_by(|(_, later), (_, first)| later.folded == first.folded && later.bytes == first.bytes);
        let size = found.iter().map(|(_, draft)| draft.bytes.len()).sum();
        // With room for all of it: what a vector outgrows is not wiped.
        let mut arena = Zeroizing::new(Vec::with_capacity(size));
        let mut patterns = Vec::with_capacity(found.len());
        for (slot, draft) in &found {
            let Draft { form, folded, before, after, .. } = *draft;
            let bytes = arena.len()..arena.len() + draft.bytes.len();
            patterns.push(Pattern { slot: *slot, bytes, form, folded, before, after });
            arena.extend_from_slice(&draft.bytes);
        }
        let bytes = patterns.iter().map(|pattern: &Pattern| &arena[pattern.bytes.clone()]);
        let (filter, heads) = (Filter::new(bytes.clone()), Heads::new(bytes));
        let exact = patterns.partition_point(|pattern| !pattern.folded);
        let longest = patterns.iter().map(|pattern| pattern.bytes.len()).max().unwrap_or(0);
        Self { slots, arena, patterns, exact, longest, filter, heads }
    }

    /// The slots whose values it knows.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = &str> {
        self.slots.iter().map(AsRef::as_ref)
    }

    /// The first value in a text, if there is one.
    pub fn scan(&self, text: &[u8]) -> Option<Hit<'_>> {
        self.finds(text, true).first().map(|find| self.hit(find, 0))
    }

    /// The text with `[lazaret-secret:SLOT]` in place of each value. Values that overlap share one, with the name of the
    /// first.
    pub fn redact<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let finds = self.finds(text, false);
        if finds.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        self.replace(text, &finds, &mut out);
        Cow::Owned(out)
    }

    /// Writes the text with a placeholder for each find.
    fn replace(&self, text: &[u8], finds: &[Find], out: &mut Vec<u8>) {
        let mut done = 0;
        for find in finds {
            out.extend(text.get(done..find.start).unwrap_or_default());
            out.extend(self.placeholder(find).bytes());
            done = find.end;
        }
        out.extend(text.get(done..).unwrap_or_default());
    }

    /// What stands in place of a find.
    pub(super) fn placeholder(&self, find: &Find) -> String {
        self.slots.get(find.slot).map_or_else(|| UNREAD.to_owned(), |slot| placeholder(slot))
    }

    pub(super) fn hit(&self, find: &Find, base: usize) -> Hit<'_> {
        let slot = self.slots.get(find.slot).map_or("", AsRef::as_ref);
        Hit { slot, form: find.form, offset: base + find.start }
    }

    /// Every place to take out of a text, in order, none touching another's bytes; or, if one is enough, the first of them.
    fn finds(&self, text: &[u8], one: bool) -> Vec<Find> {
        let (mut finds, mut from, mut size) = (Vec::new(), 0, WINDOW);
        // Piece by piece, each beginning where the one before knew all about.
        while let Some(window) = text.get(from..from + size).filter(|_| !one || finds.is_empty()) {
            let (found, settled) = self.window(window, AtEnd::Open);
            // What begins later will be found again, with what follows it.
            finds.extend(found.into_iter().filter(|find| find.start < settled).map(|find| find.moved(from)));
            if let Some(last) = finds.iter_mut().find(|find| find.is_tangled()) {
                // Nobody looks at the rest either: it costs as much, piece by piece.
                last.end = text.len();
                return merge(finds);
            }
            from += settled;
            // If a value may go on for longer than that, no less than twice as much will tell.
            size = if settled < size / 2 { size * 2 } else { WINDOW };
        }
        if !one || finds.is_empty() {
            let (found, _) = self.window(text.get(from..).unwrap_or_default(), AtEnd::Final);
            finds.extend(found.into_iter().map(|find| find.moved(from)));
        }
        merge(finds)
    }

    /// Every find in a text that is short enough to be looked at in one go, in no order; and how many bytes from the
    /// beginning can be let go of: whatever follows the text, nothing will be found that begins before there and wasn't, and
    /// what is found later doesn't depend on them.
    pub(super) fn window(&self, text: &[u8], at_end: AtEnd) -> (Vec<Find>, usize) {
        let mut finds = Vec::new();
        // Nothing is longer under its escapes than with them.
        let short = text.len() < MIN_SECRET && at_end == AtEnd::Final;
        if self.patterns.is_empty() || short {
            return (finds, text.len());
        }
        let work = Work::new(text);
        let settled = self.under(text, (0, None, &work), at_end, &mut |find| finds.push(find)).settled;
        if work.is_over() {
            finds.push(Find { start: 0, end: text.len(), slot: usize::MAX, form: Form::Tangled });
        }
        (finds, settled)
    }

    /// Looks at a text, and at what is under its escapes.
    fn under(&self, text: &[u8], at: At<'_>, at_end: AtEnd, each: &mut dyn FnMut(Find)) -> Tail {
        let (layer, before, work) = at;
        self.filter.look(text, |pattern, start| {
            if let Some(pattern) = self.patterns.get(pattern as usize)
                && let Some(mut find) = self.confirm(text, pattern, start)
            {
                if layer > 0 && find.form == Form::Raw {
                    find.form = Form::Escaped;
                }
                each(find);
            }
        });
        let mut tail = Tail { settled: text.len(), under: Vec::new() };
        let deeper = layer < MAX_LAYERS && escapes::may_have(text);
        for kind in Kind::ALL.into_iter().filter(|_| deeper) {
            let earlier = before.filter(|before| kind < before.kind);
            let open = stretches(text, kind, self.reach(), at_end, earlier, &mut |plain| {
                if !plain.tied || !work.take(plain) {
                    return;
                }
                // A stretch that ends sooner is followed by enough bytes without escapes.
                let open = at_end == AtEnd::Open && plain.to + escapes::LONGEST >= text.len();
                let at_end = if open { AtEnd::Open } else { AtEnd::Final };
                let before = Some(Before { kind, plain });
                let under =
                    self.under(&plain.bytes, (layer + 1, before, work), at_end, &mut |find| each(find.lifted(plain)));
                if open {
                    tail.under.push((std::mem::take(plain), under));
                }
            });
            tail.settled = tail.settled.min(open);
        }
        if at_end == AtEnd::Open {
            let under = tail.under.iter().map(|(plain, under)| plain.start(under.settled));
            let first = under.chain([self.undecided(text), tail.settled]).min();
            tail.settled = tail.aligned(first.unwrap_or(0));
        }
        tail
    }

    /// Whether the pattern stands there, and what has to go with it.
    fn confirm(&self, text: &[u8], pattern: &Pattern, start: usize) -> Option<Find> {
        let wanted = self.arena.get(pattern.bytes.clone())?;
        let end = start + wanted.len();
        let there = text.get(start..end)?;
        if !(if pattern.folded { there.eq_ignore_ascii_case(wanted) } else { there == wanted }) {
            return None;
        }
        let is_more = |at: usize| text.get(at).is_some_and(|byte| is_base64(*byte));
        let before = pattern.before && start.checked_sub(1).is_some_and(is_more);
        let after = pattern.after && is_more(end);
        let (start, end) = (start - usize::from(before), end + usize::from(after));
        Some(Find { start, end, slot: pattern.slot, form: pattern.form })
    }

    /// How far from an escape something can be that matters for what is under it.
    fn reach(&self) -> usize {
        self.longest + escapes::LONGEST
    }

    /// The first place from which a value could reach beyond the end, escapes aside.
    fn undecided(&self, text: &[u8]) -> usize {
        let tail = text.len().saturating_sub(self.longest);
        let folded = Zeroizing::new(text.get(tail..).unwrap_or_default().to_ascii_lowercase());
        let begins = |at: &usize| {
            let (rest, folded) = (text.get(*at..).unwrap_or_default(), folded.get(at - tail..).unwrap_or_default());
            self.heads.may_begin(rest)
                && (self.begin(rest, &self.patterns[..self.exact]) || self.begin(folded, &self.patterns[self.exact..]))
        };
        // With the character before: it may have to go too.
        let first = (tail..text.len()).find(begins).map_or(text.len(), |at| at.saturating_sub(1));
        match text.last() {
            Some(last) if is_base64(*last) => first.min(text.len() - 1),
            _ => first,
        }
    }

    /// Whether one of these patterns begins with, or is, the text.
    fn begin(&self, text: &[u8], patterns: &[Pattern]) -> bool {
        let bytes = |pattern: &Pattern| self.arena.get(pattern.bytes.clone()).unwrap_or_default();
        let next = patterns.partition_point(|pattern| bytes(pattern) < text);
        patterns.get(next).is_some_and(|pattern| bytes(pattern).starts_with(text))
    }
}

/// What is known of the end of a text that goes on.
struct Tail {
    /// The bytes that can be let go of.
    settled: usize,
    /// For each kind of escapes, the stretch that reaches the end, if there is one, and what is known of its own end.
    under: Vec<(Plain, Tail)>,
}

impl Tail {
    /// The place, or the nearest before it that isn't inside of an escape in any layer.
    fn aligned(&self, place: usize) -> usize {
        let mut aligned = place;
        loop {
            let before = aligned;
            for (plain, under) in &self.under {
                if plain.from < aligned && aligned <= plain.to {
                    aligned = aligned.min(plain.start(under.aligned(plain.place(aligned))));
                }
            }
            // Where one kind has no escape, another may.
            if aligned == before {
                return aligned;
            }
        }
    }
}

impl Find {
    /// Whether nobody could look there.
    pub(super) fn is_tangled(&self) -> bool {
        self.form == Form::Tangled
    }

    fn moved(self, by: usize) -> Self {
        Self { start: self.start + by, end: self.end + by, ..self }
    }

    /// Where it stands in the text that the stretch came from.
    fn lifted(self, plain: &Plain) -> Self {
        Self { start: plain.start(self.start), end: plain.end(self.end), ..self }
    }
}

/// Sorted, and one for all that overlap.
pub(super) fn merge(mut finds: Vec<Find>) -> Vec<Find> {
    finds.sort_by_key(|find| (find.start, usize::MAX - find.end, find.slot, find.form));
    finds.dedup_by(|later, first| {
        let overlaps = later.start < first.end;
        if overlaps {
            first.end = first.end.max(later.end);
        }
        overlaps
    });
    finds
}

/// What stands where nobody could look.
const UNREAD: &str = "[lazaret: too many escapes within escapes]";

/// What stands where a value was.
fn placeholder(slot: &str) -> String {
    format!("[lazaret-secret:{slot}]")
}

fn check(slot: &str) -> Result<(), Unfit> {
    let lawful = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if slot.is_empty() || slot.len() > MAX_SLOT || !slot.chars().all(lawful) {
        return Err(Unfit::Slot { slot: slot.chars().take(80).collect() });
    }
    Ok(())
}
