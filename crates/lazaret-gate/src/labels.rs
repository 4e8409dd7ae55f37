//! Labels: marks on what an agent has seen.
//!
//! What an agent reads adds labels, and rules can read them as `context.labels`. A label never comes off but by rollback,
//! which takes away what was seen as well. Nobody tells the gate which labels an agent has: it counts them itself, from what
//! the agent had before the turn, the message that it answers and the outcomes of its asks, all of which are on record. So a
//! replay counts them again, and decides by what it found.

use std::collections::BTreeSet;

use crate::effect::Effect;
use crate::grant::{Grants, Origin};
use crate::outcome::Outcome;
use crate::record::{Ending, Message, TurnRecord};

/// Labels by name, in order.
pub type Labels = BTreeSet<String>;

/// On what somebody wrote whom nobody vouches for: the web, unless a grant `trusted:ORIGIN` says otherwise.
pub const UNTRUSTED: &str = "untrusted";

/// On what is not for everybody: what comes from a host that a grant `private:ORIGIN` names.
pub const PRIVATE: &str = "private";

/// The labels that an outcome adds to those of whoever asked. What was refused adds none and neither does what failed: the
/// agent is told that in the host's own words, and nothing that came from outside is among them.
pub fn added(effect: &Effect, outcome: &Outcome, grants: &Grants) -> Labels {
    if !matches!(outcome, Outcome::Done(_)) {
        return Labels::new();
    }
    // Every kind of effect has its line here; a new one doesn't compile without.
    match effect {
        Effect::HttpFetch(request) => from(&request.url, grants),
        // What an agent has stored it has seen before, and so has its image.
        Effect::StorageGet { .. }
        | Effect::StorageSet { .. }
        | Effect::StorageDelete { .. }
        | Effect::StorageList { .. }
        | Effect::LogWrite { .. }
        | Effect::ClockNow {}
        | Effect::ClockMonotonic {}
        | Effect::ClockSleep { .. }
        | Effect::RandomBytes { .. }
        | Effect::EnvironmentRead {}
        | Effect::ModelGenerate(_)
        | Effect::ToolsList {}
        | Effect::ToolsCall { .. }
        | Effect::AgentsSend { .. }
        | Effect::SecretUse { .. } => Labels::new(),
    }
}

/// The labels of what comes from a URL. Two questions, and neither answers the other: a mailbox is private, and strangers
/// write what lies in it.
fn from(url: &str, grants: &Grants) -> Labels {
    let origin = Origin::of_url(url).ok();
    let trusted = origin.as_ref().is_some_and(|origin| grants.trusts(origin));
    let private = origin.as_ref().is_some_and(|origin| grants.holds_private(origin));
    let found = [(UNTRUSTED, !trusted), (PRIVATE, private)];
    found.into_iter().filter(|(_, is)| *is).map(|(label, _)| label.to_owned()).collect()
}

/// What a turn begins with: what the agent had before, and what the message brings along.
pub fn at_start(before: &Labels, input: &Message) -> Labels {
    before.union(&input.labels).cloned().collect()
}

/// What an agent has after a turn, by what it had `before`, as its judgement says. Of a turn that isn't kept, nothing is:
/// neither what was seen in it. After one from before labels were counted it has none.
pub fn after(before: Option<&Labels>, turn: &TurnRecord) -> Labels {
    let Some(before) = before else { return Labels::new() };
    if !matches!(turn.ending, Ending::Replied(_)) {
        return before.clone();
    }
    let mut labels = at_start(before, &turn.input);
    labels.extend(turn.tape.iter().flat_map(|asked| added(&asked.effect, &asked.outcome, &turn.grants)));
    labels
}
