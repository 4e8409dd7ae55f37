//! What the rules have not judged can't be approved.

use lazaret_gate::policy::Who;
use lazaret_gate::stages::{Running, approval};
use lazaret_gate::{AgentId, Meter, Rulebook};

fn hurry(running: Running, who: &Who, agent: &AgentId, rulebook: &Rulebook, meter: &mut Meter) {
    let _approved = approval(running, (who, agent), None, rulebook, meter);
}

fn main() {}
