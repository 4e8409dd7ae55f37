//! And there is no second copy of it.

use lazaret_gate::{Executor, Permit};

fn act(executor: &mut dyn Executor, permit: Permit) {
    let _once = executor.run(permit.clone());
    let _twice = executor.run(permit);
}

fn main() {}
