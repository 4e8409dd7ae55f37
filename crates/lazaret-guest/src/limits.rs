//! Every size that a component or a guest controls, with the reason for its cap.

// Before compiling. The largest real guest is a Python agent: CPython and its library. What it needs is beside each cap;
// `tests/limits.rs` measures it again. Compiling it takes the time of everything else together, and nothing that is
// admitted may take much more.

/// A component's bytes. Python: 18 MB, most of it the library's source text.
pub const MAX_COMPONENT: usize = 40 << 20;

/// Components inside components. Each level costs every reader. JavaScript: 4.
pub const MAX_COMPONENT_DEPTH: usize = 8;

/// Core modules and components in one file. Python: 40.
pub const MAX_MODULES: usize = 256;

/// Functions over all modules. However small, each takes the compiler a fifth of a millisecond. Python: 13,502.
pub const MAX_FUNCTIONS: usize = 30_000;

/// One function's body: compilation is worse than linear in it. Python's main loop: 427 kB.
pub const MAX_BODY: usize = 1 << 20;

/// Bytes of code over all functions. Python: 6.6 MB.
pub const MAX_CODE: usize = 16 << 20;

/// Blocks inside blocks: compilation is quadratic in it, 20,000 of them in 140 kB took 21 s. Python: 781.
pub const MAX_NESTING: usize = 2_000;

/// The depths of all blocks, added up. Python: 3.3 million.
pub const MAX_ALL_NESTING: usize = 10_000_000;

/// Blocks and branches over all functions. Python: 330,000.
pub const MAX_BRANCHES: usize = 700_000;

/// Calls over all functions: two bytes, and much code around each. Python: 90,000.
pub const MAX_CALLS: usize = 200_000;

/// Locals of one function, without its parameters. Python: 271.
pub const MAX_LOCALS: usize = 20_000;

/// Locals over all functions: four bytes declare thousands. Python: 48,000.
pub const MAX_ALL_LOCALS: usize = 200_000;

/// Each function's locals times its blocks, added up: what a compiler keeps to know which local lives where. Twenty
/// million in one function took minutes. Python: 1.4 million.
pub const MAX_LIVENESS: usize = 4_000_000;

/// Results of a function or block: a call of two bytes makes all of them. Python: 1.
pub const MAX_RESULTS: usize = 4;

/// Values that blocks take and give and that branches carry, added up: a jump table of 65,000 targets carries the same
/// values to each of them. JavaScript: 3,240.
pub const MAX_PASSED: usize = 1_000_000;

/// Types of one core module: the compiler makes code to call functions of each. Python: 509.
pub const MAX_TYPES: usize = 2_000;

/// Imports, exports, globals, segments or adapters in one section, each. JavaScript: 4,771 data segments.
pub const MAX_DECLARATIONS: usize = 20_000;

/// Component or instance types declared inside each other. The reader of types calls itself for each level, so deep ones
/// would end the host, not the reading: 15,000 levels, 45 kB, did. Toolchains: 1.
pub const MAX_TYPE_NESTING: usize = 64;

/// Bytes of component types: for values that pass between components inside, the engine writes code for every part.
/// JavaScript: 12 kB.
pub const MAX_TYPE_BYTES: usize = 256 << 10;

/// Instances that a component would make, each counted as often as it would be made. The engine lays all of them out
/// when it compiles. Python: 116.
pub const MAX_DECLARED_INSTANCES: usize = 2_000;

// While running.

/// Core instances that a component makes when it starts.
pub const MAX_INSTANCES: usize = 256;

/// Linear memories over all instances.
pub const MAX_MEMORIES: usize = 16;

/// Tables over all instances.
pub const MAX_TABLES: usize = 64;

/// Elements of all tables together: function pointers, 8 bytes each on the host, laid out anew at each wake. Python:
/// 5,808.
pub const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// Native stack for guest code. Recursion deeper than this traps.
pub const MAX_STACK: usize = 512 << 10;

/// What a guest may hand over in one call, decoded, in bytes. Twice the largest thing, a reply, so that the limit of its
/// kind answers first, with words.
pub const HOSTCALL_BYTES: usize = 2 * lazaret_gate::limits::MAX_OUTPUT;

/// Resource handles that a WASI guest may hold at once: streams, pollables, requests.
pub const MAX_HANDLES: usize = 1_000;

/// Bytes that a WASI guest may make the host keep behind those handles: headers and bodies. A few of the largest
/// requests and responses at once.
pub const MAX_HELD: usize = 16 << 20;

/// Bytes that one read or write of a WASI stream moves: what a program's buffers hold.
pub const MAX_TRANSFER: usize = 64 << 10;

/// Bytes of a line that a WASI guest writes to stderr; what is longer is cut into several. People read these.
pub const MAX_STDERR_LINE: usize = 8 << 10;

/// Random bytes in one WASI call, which becomes as many asks as it takes.
pub const MAX_RANDOM_CALL: u64 = 64 << 10;

/// Fuel for one WASI call, besides its bytes and its ask if it makes one: what it takes to cross to the host and back.
pub const FUEL_PER_CALL: u64 = 500;

/// Fuel for one ask, besides its bytes: about what the host spends on gate, tape and answer, so that a flood of asks
/// runs dry like any other loop.
pub const FUEL_PER_ASK: u64 = 5_000;

/// Fuel for each byte that crosses, in either direction.
pub const FUEL_PER_BYTE: u64 = 2;

/// Fuel for each 64 KiB page that `memory.grow` asks for; the engine's own price is nothing.
pub const FUEL_PER_PAGE: u8 = 255;

/// Fuel to lay out a component's memory when it is born: data segments and start functions.
pub const FUEL_FOR_BIRTH: u64 = 500_000_000;

/// Bytes of memory for the same: a newborn's pages are all new, so the host holds each of them twice.
pub const MEMORY_FOR_BIRTH: u64 = 256 << 20;

/// Wall time for the same, in milliseconds.
pub const WALL_FOR_BIRTH_MS: u64 = 30_000;

/// Pages that are held beside a kept instance to see what its next turn changes: 4 MiB, besides the instance itself.
pub const MAX_HELD_PAGES: usize = 1024;

/// Pages that may be compared in vain before an instance is let go: about what it costs to wake another one.
pub const IDLE_PAGES: usize = 512;

// Between turns.

/// What all mappings that wait for their heap's next turn may take: those of about a thousand small agents. Beyond this the
/// longest unused ones go, and their agents' next turns map their heaps anew.
pub const SPARE_BYTES: usize = 64 << 20;

/// What such a mapping takes besides the pages that it has of its own: page tables, and four of the 65,530 mappings that a
/// process may have.
pub const SPARE_OVERHEAD: usize = 32 << 10;
