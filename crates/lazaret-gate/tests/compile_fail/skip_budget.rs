//! What was granted but not funded gets no permit.

use lazaret_gate::stages::{declared, form, seal};
use lazaret_gate::{Effect, Grants};

fn main() {
    let formed = form(Effect::ClockNow {}).unwrap();
    let declared = declared(formed, &Grants::basic()).unwrap();
    let _permit = seal(declared);
}
