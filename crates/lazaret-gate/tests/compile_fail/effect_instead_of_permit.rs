//! An executor takes a permit and nothing else.

use lazaret_gate::{Effect, Executor};

fn act(executor: &mut dyn Executor) {
    let _done = executor.run(Effect::ClockNow {});
}

fn main() {}
