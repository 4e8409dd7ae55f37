use lazaret_gate::effect::Level;
use lazaret_gate::{Answer, Effect};
use wasmtime::component::{ComponentType, Lift};

use super::Interface;

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "values come from the guest through the canonical ABI")]
enum WireLevel {
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<WireLevel> for Level {
    fn from(level: WireLevel) -> Self {
        match level {
            WireLevel::Debug => Self::Debug,
            WireLevel::Info => Self::Info,
            WireLevel::Warn => Self::Warn,
            WireLevel::Error => Self::Error,
        }
    }
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "write",
        |(level, text): (WireLevel, String)| Effect::LogWrite { level: level.into(), text },
        |answer| matches!(answer, Answer::Nothing).then_some(()),
    )
}
