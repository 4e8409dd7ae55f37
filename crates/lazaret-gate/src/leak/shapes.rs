//! What credentials look like.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind, packed};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::escapes::{self, AtEnd, Before, Kind, Work, stretches};
use super::limits::{MAX_COMPILED, MAX_LAYERS, MAX_SHAPE, MAX_SHAPES, MAX_SHAPES_FILE, MAX_STARTS, MIN_START, WINDOW};

/// Shapes that can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShapes {
    /// Not TOML of the expected form.
    #[error("the shapes can't be read: {0}")]
    Form(String),
    /// Too much of it.
    #[error("the shapes have {found} {what}, at most {limit} are read")]
    Size {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The most.
        limit: usize,
    },
    /// A shape that makes no sense.
    #[error("shape `{shape}`: {why}")]
    Shape {
        /// Which.
        shape: String,
        /// What is wrong.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    shape: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    starts: Vec<String>,
    then: String,
    reason: String,
    matches: Vec<String>,
    misses: Vec<String>,
}

/// How many layers down a text is, what was undone last, and what looking may still cost.
type At<'a> = (usize, Option<Before<'a>>, &'a Work);

/// Something that looks like a credential: which kind and where, but not what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness<'s> {
    /// The shape's name.
    pub shape: &'s str,
    /// Where it begins.
    pub offset: usize,
}

/// A shape, ready to be held against a text.
struct Shape {
    name: String,
    reason: String,
    starts: Vec<String>,
    /// What follows a start, and then the end of the word.
    then: Regex,
}

/// What credentials look like: tokens that name their issuer, private keys, and such.
pub struct Shapes {
    shapes: Vec<Shape>,
    /// How starts begin: the short ones apart, because all are looked for by as many bytes as the shortest has.
    heads: Vec<Heads>,
}

/// Finds the first bytes of starts.
enum Heads {
    /// With the processor's wide instructions, where it has them.
    Wide(packed::Searcher),
    Any(AhoCorasick),
}

impl Heads {
    /// Few and short ones fit into registers; what follows is checked at the place.
    const LEN: usize = 4;

    fn new<'s>(starts: impl Iterator<Item = &'s String>, len: usize) -> Result<Self, aho_corasick::BuildError> {
        let heads = starts.map(|start| &start.as_bytes()[..start.len().min(Self::LEN)]);
        let heads: BTreeSet<&[u8]> = heads.filter(|head| head.len() == len).collect();
        let mut wide = packed::Config::new().heuristic_pattern_limits(false).builder();
        Ok(match wide.extend(&heads).build() {
            Some(wide) => Self::Wide(wide),
            None => Self::Any(AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(&heads)?),
        })
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Wide(wide) => wide.find(text).map(|found| found.start()),
            Self::Any(any) => any.find(text).map(|found| found.start()),
        }
    }
}

impl Shapes {
    /// Stands for a shape where escapes are nested in each other so densely that looking under all of them would take too
    /// long: nobody knows what is there.
    pub const TANGLED: &'static str = "more escapes than can be undone";

    /// Reads shapes. A key that isn't known, a shape that can't match or one without examples refuses the whole.
    pub fn parse(text: &str) -> Result<Self, BadShapes> {
        over("bytes", text.len(), MAX_SHAPES_FILE)?;
        let File { shape: rows } = toml::from_str(text).map_err(|why| BadShapes::Form(why.to_string()))?;
        over("shapes", rows.len(), MAX_SHAPES)?;
        over("starts", rows.iter().map(|row| row.starts.len()).sum(), MAX_STARTS)?;
        let mut names = BTreeSet::new();
        let mut shapes = Vec::new();
        for row in rows {
            let shape: String = row.name.chars().take(80).collect();
            let twice = (!names.insert(row.name.clone())).then(|| "there is another of this name".to_owned());
            if let Some(why) = wrong(&row).or(twice) {
                return Err(BadShapes::Shape { shape, why });
            }
            let then = compile(&row.then).map_err(|why| BadShapes::Shape { shape, why })?;
            shapes.push(Shape { name: row.name, reason: row.reason, starts: row.starts, then });
        }
        let starts = || shapes.iter().flat_map(|shape| &shape.starts);
        let heads = (MIN_START..=Heads::LEN).map(|len| Heads::new(starts(), len)).collect::<Result<_, _>>();
        Ok(Self { heads: heads.map_err(|why| BadShapes::Form(why.to_string()))?, shapes })
    }

    /// The shapes that come with the program.
    pub fn shipped() -> Result<&'static Self, &'static BadShapes> {
        static SHIPPED: OnceLock<Result<Shapes, BadShapes>> = OnceLock::new();
        SHIPPED.get_or_init(|| Self::parse(include_str!("../../../../policy/shapes.toml"))).as_ref()
    }

    /// The names of all shapes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().map(|shape| shape.name.as_str())
    }

    /// Why something of this shape should not go out.
    pub fn reason(&self, name: &str) -> Option<&str> {
        self.shapes.iter().find(|shape| shape.name == name).map(|shape| shape.reason.as_str())
    }

    /// The first thing in a text that has one of the shapes, as it is or under escapes.
    pub fn scan(&self, text: &[u8]) -> Option<Likeness<'_>> {
        // Most texts are short, and are read once: where they end is known.
        if text.len() <= WINDOW {
            return self.outermost(text, true);
        }
        let mut sniffer = Sniffer::new(self);
        text.chunks(WINDOW).find_map(|piece| sniffer.push(piece)).or_else(|| sniffer.finish())
    }

    /// The first in a short text with nothing around it, or that it takes too long to look.
    fn outermost(&self, text: &[u8], ends: bool) -> Option<Likeness<'_>> {
        let work = Work::new(text);
        let found = self.window(text, ends, (0, None, &work));
        found.or_else(|| work.is_over().then_some(Likeness { shape: Self::TANGLED, offset: 0 }))
    }

    /// The first in a short text. What isn't known to end within it is left for later unless `ends`.
    fn window(&self, text: &[u8], ends: bool, at: At<'_>) -> Option<Likeness<'_>> {
        let (layer, before, work) = at;
        let mut first = self.look(text, ends);
        let deeper = layer < MAX_LAYERS && escapes::may_have(text);
        for kind in Kind::ALL.into_iter().filter(|_| deeper) {
            let at_end = if ends { AtEnd::Final } else { AtEnd::Open };
            let earlier = before.filter(|before| kind < before.kind);
            stretches(text, kind, MAX_SHAPE, at_end, earlier, &mut |plain| {
                if !plain.tied || !work.take(plain) {
                    return;
                }
                let ends = ends || plain.to < text.len();
                if let Some(under) = self.window(&plain.bytes, ends, (layer + 1, Some(Before { kind, plain }), work)) {
                    let lifted = Likeness { offset: plain.start(under.offset), ..under };
                    first = first.filter(|first| first.offset <= lifted.offset).or(Some(lifted));
                }
            });
        }
        first
    }

    fn look(&self, text: &[u8], ends: bool) -> Option<Likeness<'_>> {
        self.heads.iter().filter_map(|heads| self.after(heads, text, ends)).min_by_key(|found| found.offset)
    }

    /// The first that begins with one of these.
    fn after(&self, heads: &Heads, text: &[u8], ends: bool) -> Option<Likeness<'_>> {
        let mut from = 0;
        while let Some(candidate) = text.get(from..).and_then(|rest| heads.find(rest)) {
            let offset = from + candidate;
            from = offset + 1;
            // Inside of a word, it isn't where one begins; and a text of nothing but starts costs no more than others.
            if offset.checked_sub(1).and_then(|at| text.get(at)).is_some_and(|byte| is_word(*byte)) {
                continue;
            }
            let rest = text.get(offset..text.len().min(offset + MAX_SHAPE)).unwrap_or_default();
            let shape = self.shapes.iter().find(|shape| shape.fits(rest, ends || offset + rest.len() < text.len()));
            if let Some(shape) = shape {
                return Some(Likeness { shape: &shape.name, offset });
            }
        }
        None
    }
}

impl Shape {
    fn fits(&self, text: &[u8], ends: bool) -> bool {
        let start = self.starts.iter().find_map(|start| text.strip_prefix(start.as_bytes()));
        start.is_some_and(|rest| {
            let found = self.then.find(rest);
            found.is_some_and(|found| ends || found.as_bytes().last().is_some_and(|byte| !byte.is_ascii_alphanumeric()))
        })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn over(what: &'static str, found: usize, limit: usize) -> Result<(), BadShapes> {
    if found > limit { Err(BadShapes::Size { what, found, limit }) } else { Ok(()) }
}

fn compile(then: &str) -> Result<Regex, String> {
    // A pattern that closes a group which it didn't open would get round the anchors.
    RegexBuilder::new(then).unicode(false).size_limit(MAX_COMPILED).build().map_err(|why| why.to_string())?;
    let anchored = format!(r"\A(?:{then})(?:[^0-9A-Za-z]|\z)");
    RegexBuilder::new(&anchored).unicode(false).size_limit(MAX_COMPILED).build().map_err(|why| why.to_string())
}

/// What is wrong with a row, if anything.
fn wrong(row: &Row) -> Option<String> {
    let lawful = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if row.name.is_empty() || row.name.len() > 80 || !row.name.chars().all(lawful) {
        Some("a name is 1 to 80 lower-case letters, digits and `-`".into())
    } else if row.reason.trim().is_empty() {
        Some("it gives no reason".into())
    } else if row.starts.is_empty() {
        Some("it has no `starts`".into())
    } else if let Some(start) = row.starts.iter().find(|start| start.len() < MIN_START) {
        Some(format!("the start `{start}` is shorter than {MIN_START} bytes and would be found everywhere"))
    } else if row.matches.is_empty() || row.misses.is_empty() {
        Some("it needs examples of what matches and of what misses".into())
    } else {
        None
    }
}

/// How much of a stream is kept: a shape with half of its characters escaped fits.
const KEPT: usize = 4 * MAX_SHAPE;

/// Looks for shapes in a stream, piece by piece.
pub struct Sniffer<'s> {
    shapes: &'s Shapes,
    kept: Vec<u8>,
    /// How many bytes came before.
    gone: usize,
}

impl<'s> Sniffer<'s> {
    /// At the beginning of a stream.
    pub fn new(shapes: &'s Shapes) -> Self {
        Self { shapes, kept: Vec::new(), gone: 0 }
    }

    /// Takes the next piece. An offset counts from the beginning of the stream. What stands at the very end of a piece may
    /// be reported only with the next, or at the end.
    pub fn push(&mut self, piece: &[u8]) -> Option<Likeness<'s>> {
        let mut found = None;
        for piece in piece.chunks(WINDOW) {
            self.kept.extend_from_slice(piece);
            found = found.or(self.look(false));
            let settled = self.kept.len().saturating_sub(KEPT);
            self.kept.drain(..settled);
            self.gone += settled;
        }
        found
    }

    /// Ends the stream.
    pub fn finish(self) -> Option<Likeness<'s>> {
        self.look(true)
    }

    fn look(&self, ends: bool) -> Option<Likeness<'s>> {
        let found = self.shapes.outermost(&self.kept, ends);
        found.map(|found| Likeness { offset: self.gone + found.offset, ..found })
    }
}
