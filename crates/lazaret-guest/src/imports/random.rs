use lazaret_gate::{Answer, Effect};

use super::Interface;

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "bytes",
        |(len,): (u32,)| Effect::RandomBytes { len },
        |answer| if let Answer::Random(bytes) = answer { Some(bytes.0) } else { None },
    )
}
