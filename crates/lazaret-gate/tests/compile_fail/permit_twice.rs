//! A permit is good for one act: using it consumes it.

use lazaret_gate::{Executor, Permit};

fn act(executor: &mut dyn Executor, permit: Permit) {
    let _once = executor.run(permit);
    let _twice = executor.run(permit);
}

fn main() {}
