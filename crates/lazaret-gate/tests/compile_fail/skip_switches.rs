//! What no switch has let pass is not put to the rules.

use lazaret_gate::policy::Who;
use lazaret_gate::stages::{Weighed, policy};
use lazaret_gate::{Circumstance, Rulebook};

fn hurry(weighed: Weighed, who: &Who, rulebook: &Rulebook, under: &Circumstance) {
    let _ruled = policy(weighed, who, rulebook, under);
}

fn main() {}
