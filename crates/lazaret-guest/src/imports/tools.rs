use lazaret_gate::{Answer, Effect};
use wasmtime::component::{ComponentType, Lower};

use super::Interface;

#[derive(ComponentType, Lower)]
#[component(record)]
struct Tool {
    name: String,
    description: String,
    arguments: String,
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "list",
        |(): ()| Effect::ToolsList {},
        |answer| match answer {
            Answer::Tools(tools) => {
                let tools = tools.into_iter().map(|tool| Tool {
                    name: tool.name,
                    description: tool.description,
                    arguments: tool.arguments,
                });
                Some(tools.collect::<Vec<_>>())
            }
            _ => None,
        },
    )?;
    interface.import(
        "call",
        |(name, arguments): (String, String)| Effect::ToolsCall { name, arguments },
        |answer| if let Answer::Result(text) = answer { Some(text) } else { None },
    )
}
