//! Nor can the step before it.

use lazaret_gate::Effect;
use lazaret_gate::stages::{Funded, seal};

fn main() {
    let _permit = seal(Funded { effect: Effect::ClockNow {}, number: 0 });
}
