use lazaret_gate::{Answer, Effect};

use super::Interface;

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "now",
        |(): ()| Effect::ClockNow {},
        |answer| if let Answer::Time(time) = answer { Some(time.0) } else { None },
    )
}
