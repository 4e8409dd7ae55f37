//! Many agents under one keeper: who takes a turn when, and what happens when turns go wrong.
//!
//! [`core`] decides and touches nothing; [`Supervisor`] carries out what it decides, on a real host with real threads.

pub mod core;
mod driver;
pub mod pace;
mod seams;

pub use driver::{Drained, Status, Supervisor};
pub use pace::Pace;
