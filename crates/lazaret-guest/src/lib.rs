//! RUNS. Hostile bytes enter here: they are inspected, compiled, run under limits, and put to sleep as images.
//!
//! An import of a guest can build an effect and get an outcome. It cannot name a socket, a file or the vault: those are
//! in crates that this one doesn't depend on.

pub mod admit;
pub mod awake;
pub mod engine;
pub mod imports;
pub mod inspect;
pub mod instrument;
pub mod limits;
pub mod native;
pub mod state;
pub mod turn;
pub mod wasi;

pub use admit::{Admitted, Inadmissible, Program};
pub use awake::Awake;
pub use engine::Engine;
pub use native::writing::begin_writing;
pub use state::{Change, State};
pub use turn::{Leftover, Ran, Terms, World};
