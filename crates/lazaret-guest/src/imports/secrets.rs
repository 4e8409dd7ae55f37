use lazaret_gate::{Answer, Effect};

use super::Interface;

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "handle",
        |(slot,): (String,)| Effect::SecretUse { slot, method: String::new(), url: String::new() },
        |answer| if let Answer::Handle(handle) = answer { Some(handle) } else { None },
    )
}
