use lazaret_gate::{Answer, Effect};

use super::Interface;

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "send",
        |(to, content_type, body): (String, String, Vec<u8>)| Effect::AgentsSend {
            to,
            content_type,
            body: body.into(),
        },
        |answer| if let Answer::Sent(number) = answer { Some(number) } else { None },
    )
}
