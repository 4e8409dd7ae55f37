//! What nobody granted can't be funded.

use lazaret_gate::stages::{budget, form};
use lazaret_gate::{Budget, Effect, Meter};

fn main() {
    let formed = form(Effect::ClockNow {}).unwrap();
    let _funded = budget(formed, &Budget::default(), &mut Meter::default(), 0);
}
