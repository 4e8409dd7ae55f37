//! An effect that was not looked at can't be granted.

use lazaret_gate::stages::declared;
use lazaret_gate::{Effect, Grants};

fn main() {
    let _declared = declared(Effect::ClockNow {}, &Grants::basic());
}
