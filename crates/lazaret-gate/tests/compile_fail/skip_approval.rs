//! What the rules permit is not funded before it is known whether a person has to be asked.

use lazaret_gate::stages::{Purse, Ruled, budget};
use lazaret_gate::{Budget, Meter, Rulebook};

fn hurry(ruled: Ruled, purse: &mut Purse<'_>, rulebook: &Rulebook) {
    let turn = (&Budget::default(), &mut Meter::default());
    let _funded = budget(ruled, turn, purse, rulebook, (0, 0), None);
}

fn main() {}
