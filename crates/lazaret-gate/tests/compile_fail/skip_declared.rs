//! What nobody granted is not weighed.

use lazaret_gate::stages::{form, weigh};
use lazaret_gate::{Effect, Grants, Rulebook};

fn hurry(rulebook: &Rulebook) {
    let formed = form(Effect::ClockNow {}).unwrap();
    let _weighed = weigh(formed, rulebook, &Grants::basic());
}

fn main() {}
