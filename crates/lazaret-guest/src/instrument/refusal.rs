//! Why a component cannot be put to sleep, and where in its bytes.

use std::fmt;

use thiserror::Error;

/// A component whose state could not be captured whole. It is refused at admission, so that nothing is lost later.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {reason}")]
pub struct Uncapturable {
    /// Where in the component.
    pub place: Place,
    /// What stands there, and what would change the answer.
    pub reason: Reason,
}

/// A position in the component that was given to [`instrument`](super::instrument).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The core module, counted from 0 in the order in which modules begin in the file, nested components included.
    pub module: Option<u32>,
    /// The function in that module's index space, imports included.
    pub function: Option<u32>,
    /// Offset in bytes from the start of the component.
    pub offset: usize,
}

impl Place {
    /// A place outside any core module.
    pub(super) fn at(offset: usize) -> Self {
        Place { module: None, function: None, offset }
    }

    pub(super) fn refuse(self, reason: Reason) -> Uncapturable {
        Uncapturable { place: self, reason }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(module) = self.module {
            write!(f, "core module {module}, ")?;
        }
        if let Some(function) = self.function {
            write!(f, "function {function}, ")?;
        }
        write!(f, "byte {:#x}", self.offset)
    }
}

/// What cannot be captured, one variant per rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// A core module was given.
    #[error("this is a core module, not a component; `wasm-tools component new` makes a component of it")]
    NotAComponent,
    /// The bytes are not a valid component, or use a proposal that this host does not know how to capture.
    #[error("the component cannot be read: {0}")]
    Unreadable(String),
    /// A table would have to be saved, and references in tables have no bytes.
    #[error(
        "`{instruction}` changes a table while the agent runs; tables are rebuilt when it wakes, not saved, so build \
         the guest such that only the linker fills tables"
    )]
    TableMutation {
        /// As written in the text format.
        instruction: &'static str,
    },
    /// Which segments were dropped is state that nothing outside the instance can read.
    #[error(
        "`{instruction}` drops a segment, and after a sleep it would be back; build the guest without it (linkers \
         emit it for threads)"
    )]
    SegmentDrop {
        /// As written in the text format.
        instruction: &'static str,
    },
    /// An active segment is gone once an instance has started; here it stays, so the instruction would succeed.
    #[error(
        "`{instruction}` reads data segment {segment}, which is active and therefore empty once the instance has \
         started; make the segment passive or remove the instruction"
    )]
    ActiveSegmentRead {
        /// As written in the text format.
        instruction: &'static str,
        /// Index of the data segment.
        segment: u32,
    },
    /// A reference has no bytes to save.
    #[error(
        "global {global} is mutable and holds a reference (`{kind}`), which has no bytes to save; keep an index instead"
    )]
    ReferenceGlobal {
        /// Index in the module's global index space, imports included.
        global: u32,
        /// The global's type in the text format.
        kind: String,
    },
    /// A memory that other threads could be writing.
    #[error("memory {memory} is shared between threads, so no moment shows all of it; build the guest without threads")]
    SharedMemory {
        /// Index in the module's memory index space, imports included.
        memory: u32,
    },
    /// Images address memories with 32 bits.
    #[error("memory {memory} has 64-bit addresses; build the guest for wasm32")]
    WideMemory {
        /// Index in the module's memory index space, imports included.
        memory: u32,
    },
    /// Images count in pages of 64 KiB.
    #[error("memory {memory} has its own page size; build the guest with the usual pages of 64 KiB")]
    PageSize {
        /// Index in the module's memory index space, imports included.
        memory: u32,
    },
    /// Code that does not stand where it is used: its instances could not be found.
    #[error("a {what} is {how}; define it in the component that instantiates it")]
    Foreign {
        /// `core module` or `component`.
        what: &'static str,
        /// How it comes in or goes out.
        how: &'static str,
    },
    /// The component model's own start function would run again at each wake.
    #[error(
        "the component has a start function of its own; move that work into a core start function or the first call"
    )]
    ComponentStart,
    /// Handles live in tables of the host.
    #[error(
        "`resource.new` is used here; it makes handles, which live in the host and do not survive sleep, so pass \
         plain numbers instead of resources"
    )]
    ResourceMade,
    /// Handles live in tables of the host.
    #[error(
        "the import `{name}` brings in a resource, and handles live in the host and do not survive sleep; import \
         only functions over plain values"
    )]
    ResourceImported {
        /// The import's name.
        name: String,
    },
    /// Tasks, streams and futures live in the host.
    #[error(
        "`{what}` keeps tasks or handles in the host that do not survive sleep; build the guest with synchronous bindings"
    )]
    Async {
        /// The canonical function or option.
        what: String,
    },
    /// The component already exports one of the names that are added to it.
    #[error("the export `{name}` begins with `lazaret`, which is kept for the host; rename it")]
    Reserved {
        /// The export's name.
        name: String,
    },
    /// A bomb, or a guest beyond all known guests.
    #[error("the component has more than {limit} {what}; flatten it or use fewer instances")]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl From<wasmparser::Error> for Uncapturable {
    fn from(error: wasmparser::Error) -> Self {
        Place::at(error.offset()).refuse(Reason::Unreadable(error.message().to_owned()))
    }
}
