//! What was approved but not funded gets no permit.

use lazaret_gate::Labels;
use lazaret_gate::stages::{Approved, seal};

fn hurry(approved: Approved) {
    let _permit = seal(approved, Labels::new());
}

fn main() {}
