use lazaret_gate::effect::{Prompt, Role, Utterance};
use lazaret_gate::{Answer, Effect};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Interface;

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "values come from the guest through the canonical ABI")]
enum WireRole {
    #[component(name = "system")]
    System,
    #[component(name = "user")]
    User,
    #[component(name = "assistant")]
    Assistant,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct WireUtterance {
    role: WireRole,
    text: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct WirePrompt {
    model: String,
    utterances: Vec<WireUtterance>,
    #[component(name = "max-tokens")]
    max_tokens: u32,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct WireCompletion {
    text: String,
    #[component(name = "input-tokens")]
    input_tokens: u32,
    #[component(name = "output-tokens")]
    output_tokens: u32,
}

impl From<WireUtterance> for Utterance {
    fn from(said: WireUtterance) -> Self {
        let role = match said.role {
            WireRole::System => Role::System,
            WireRole::User => Role::User,
            WireRole::Assistant => Role::Assistant,
        };
        Self { role, text: said.text }
    }
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "generate",
        |(prompt,): (WirePrompt,)| {
            let utterances = prompt.utterances.into_iter().map(Utterance::from).collect();
            Effect::ModelGenerate(Prompt { model: prompt.model, utterances, max_tokens: prompt.max_tokens })
        },
        |answer| match answer {
            Answer::Completion(said) => Some(WireCompletion {
                text: said.text,
                input_tokens: said.input_tokens,
                output_tokens: said.output_tokens,
            }),
            _ => None,
        },
    )
}
