//! A permit can't be written down: its fields are private.

use lazaret_gate::{Effect, Labels, Permit};

fn main() {
    let _forged = Permit { effect: Effect::ClockNow {}, number: 0, limit: None, labels: Labels::new() };
}
