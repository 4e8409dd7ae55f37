//! How short, how long, how many: each with its reason.

/// The fewest bytes of a value that can be guarded. A shorter one turns up by chance in ordinary text, and every place
/// where it does would be refused or cut out.
pub const MIN_SECRET: usize = 8;

/// The most bytes of a value: a chain of certificates with its key fits. A stream holds back what could be the beginning of
/// a value, so this also bounds what is held.
pub const MAX_SECRET: usize = 16 << 10;

/// The fewest different bytes in a value: a run of zeros is in every picture.
pub const MIN_DISTINCT: usize = 4;

/// The most secrets of one guard.
pub const MAX_SECRETS: usize = 1 << 16;

/// The most bytes of all values of one guard together. What is built from them takes about twenty times as much.
pub const MAX_GUARDED: usize = 4 << 20;

/// A slot's name, as a placeholder spells it.
pub const MAX_SLOT: usize = 128;

/// Layers of escapes that are looked under: a string of a JSON text, in a string of a JSON text, in a query. Each kind of
/// escapes is tried in each layer, so this also bounds how often a text of nothing else is read: forty times.
pub const MAX_LAYERS: usize = 3;

/// How much work a text may be for each of its bytes, where undoing an escape counts as [`ESCAPE_WORK`] and reading a byte as
/// one. A page of HTML with URLs in it, in a string of JSON, takes seven. What takes more was made to take it, and is
/// refused or taken out unread: otherwise it could be made to take a hundred times as long as plain text.
pub const MAX_WORK: usize = 16;

/// Undoing an escape, beside reading a byte.
pub const ESCAPE_WORK: usize = 8;

/// Work that any text may be, however short.
pub const FREE_WORK: usize = 64 << 10;

/// How much of a text is looked at in one go: memory for undoing escapes is bounded by it, and it stays in the cache.
pub const WINDOW: usize = 64 << 10;

/// A file of shapes.
pub const MAX_SHAPES_FILE: usize = 256 << 10;

/// The most shapes: where one may begin, each is tried.
pub const MAX_SHAPES: usize = 128;

/// The most beginnings of all shapes together: they are looked for at every byte.
pub const MAX_STARTS: usize = 256;

/// The fewest bytes that a shape begins with: fewer are found everywhere, and each place costs a closer look.
pub const MIN_START: usize = 3;

/// How far a shape is read from where it begins.
pub const MAX_SHAPE: usize = 1024;

/// A shape's pattern, compiled.
pub const MAX_COMPILED: usize = 1 << 20;
