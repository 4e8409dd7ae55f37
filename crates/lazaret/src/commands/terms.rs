//! Arguments that several commands share: what an agent may ask for, what a turn may cost, what a message is.

use std::path::PathBuf;

use clap::Args;
use lazaret_gate::grant::EgressMode;
use lazaret_gate::ledger::Caps;
use lazaret_gate::limits::MAX_INPUT;
use lazaret_gate::record::Message;
use lazaret_gate::{Budget, Bytes, Grant, Grants};

use super::read_input;
use crate::failure::Failure;
use crate::ui::{Tone, Ui};

/// What an agent may ask for.
#[derive(Args)]
pub(crate) struct GrantArgs {
    /// Allow something: storage, log, clock, random, environment, model:PROVIDER/NAME, tool:NAME, http:HOST[:PORT],
    /// http:http://HOST[:PORT], agent:NAME, secret:SLOT, net:ADDRESS[/LENGTH], trusted:HOST[:PORT], private:HOST[:PORT]; may
    /// be given more than once
    ///
    /// A trailing `*` in a model's or tool's name covers all that start so. `net:` lets granted names lead to addresses that
    /// aren't public. `trusted:` and `private:` say what comes from a host, and allow nothing.
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<Grant>,

    /// Don't grant storage, log, clock and random on their own
    #[arg(long)]
    no_default_grants: bool,

    /// What is checked of requests: strict (each of them), preflight (granted hosts, once, when the agent is made), none
    #[arg(long, value_name = "MODE", default_value_t = EgressMode::Strict)]
    egress: EgressMode,
}

impl GrantArgs {
    pub(crate) fn grants(&self) -> Grants {
        let basic = if self.no_default_grants { Grants::default() } else { Grants::basic() };
        let egress = (self.egress != EgressMode::Strict).then_some(Grant::Egress(self.egress));
        Grants::new(basic.iter().cloned().chain(self.grants.iter().cloned()).chain(egress).collect())
    }
}

/// Says aloud if an agent's requests aren't checked.
pub(crate) fn warn_of_egress(grants: &Grants, ui: &Ui) {
    if let Some(warning) = grants.egress().warning() {
        ui.aside(Tone::Bad, "warning:", warning);
    }
}

/// A number as people type it.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number below 2^64"))
}

/// A number that isn't large.
fn few(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number below 2^32"))
}

/// What a turn may cost.
#[derive(Args)]
pub(crate) struct BudgetArgs {
    /// Fuel: deterministic work; about one per instruction
    #[arg(long, value_name = "N", default_value_t = Budget::default().fuel, value_parser = whole,
        allow_negative_numbers = true)]
    fuel: u64,

    /// Bytes of memory
    #[arg(long, value_name = "BYTES", default_value_t = Budget::default().memory, value_parser = whole,
        allow_negative_numbers = true)]
    memory: u64,

    /// Milliseconds of wall time
    #[arg(long, value_name = "MS", default_value_t = Budget::default().wall_ms, value_parser = whole,
        allow_negative_numbers = true)]
    wall_ms: u64,

    /// Asks, refused ones included
    #[arg(long, value_name = "N", default_value_t = Budget::default().effects, value_parser = few,
        allow_negative_numbers = true)]
    effects: u32,

    /// Bytes of all asks and answers together
    #[arg(long, value_name = "BYTES", default_value_t = Budget::default().bytes, value_parser = whole,
        allow_negative_numbers = true)]
    bytes: u64,
}

impl BudgetArgs {
    pub(crate) fn budget(&self) -> Budget {
        Budget { fuel: self.fuel, memory: self.memory, wall_ms: self.wall_ms, effects: self.effects, bytes: self.bytes }
    }
}

/// What an agent may spend beyond one turn.
#[derive(Args)]
pub(crate) struct CapsArgs {
    /// Cap what it may spend beyond one turn, like `day.effects=1000` or `currency=EUR`; may be given more than once
    #[arg(long = "cap", value_name = "CAP=VALUE")]
    caps: Vec<String>,
}

impl CapsArgs {
    pub(crate) fn caps(&self) -> Result<Caps, Failure> {
        let mut caps = Caps::default();
        // The currency first: an amount of money means nothing without one.
        let (first, rest): (Vec<_>, Vec<_>) = self.caps.iter().partition(|pair| pair.starts_with("currency="));
        for pair in first.into_iter().chain(rest) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| Failure::Input(format!("`{pair}` is not CAP=VALUE")))?;
            caps.set(key, value).map_err(|why| Failure::Input(why.to_string()))?;
        }
        Ok(caps)
    }
}

/// A message.
#[derive(Args)]
pub(crate) struct MessageArgs {
    /// The message, as text
    #[arg(long, value_name = "TEXT", conflicts_with = "input_file")]
    input: Option<String>,

    /// The message, from a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    input_file: Option<PathBuf>,

    /// What the message is
    #[arg(long, value_name = "TYPE", default_value = "text/plain; charset=utf-8")]
    content_type: String,
}

impl MessageArgs {
    /// The message; `given` is text that was typed as a bare argument.
    pub(crate) fn message(&self, given: Option<&str>) -> Result<Message, Failure> {
        let body = match (given.or(self.input.as_deref()), &self.input_file) {
            (Some(text), None) => Bytes::from(text),
            (None, Some(path)) => Bytes(read_input(path, MAX_INPUT)?),
            (None, None) => Bytes::default(),
            (Some(_), Some(_)) => return Err(Failure::Input("give the message as text or as a file, not both".into())),
        };
        Ok(Message::outside(self.content_type.clone(), body))
    }
}
