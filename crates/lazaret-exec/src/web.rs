//! The web as one agent may reach it: what it was granted, over connections that all agents share.

use lazaret_gate::effect::Header;
use lazaret_gate::outcome::Response;
use lazaret_gate::{Bytes, Grants, Undone};

use crate::broker::Outgoing;
use crate::egress::{Egress, EgressError};

/// Sends the requests of one agent.
#[derive(Clone)]
pub struct Web {
    egress: Egress,
    grants: Grants,
}

impl Web {
    /// By these grants, over these connections.
    pub fn new(egress: Egress, grants: Grants) -> Self {
        Self { egress, grants }
    }

    /// Sends a request that has a permit and waits for the whole response; nothing if `cut` says that it is to wait no
    /// longer. Where its host's addresses aren't allowed, nothing is dialled; of a body that has more than `most` bytes, no more
    /// is read than tells that.
    pub fn fetch(
        &self,
        request: Outgoing,
        most: Option<u64>,
        cut: &mut dyn FnMut() -> bool,
    ) -> Option<Result<Response, Undone>> {
        let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let ask = match request.into_ask(most) {
            Ok(ask) => ask,
            Err(why) => return Some(Err(why.to_string().into())),
        };
        let (target, rules) = (ask.url.clone(), self.grants.destinations(&ask.url));
        let reply = self.egress.fetch(ask, &rules, cut)?;
        Some(match reply {
            Ok(reply) => {
                let headers = reply.headers.into_iter().map(|(name, value)| Header { name, value: text(value) });
                Ok(Response { status: reply.status, headers: headers.collect(), body: Bytes(reply.body) })
            }
            Err(EgressError::Forbidden { why, .. }) => Err(Undone::Cut(Box::new(self.grants.denied(&target, &why)))),
            Err(EgressError::OverLeave { .. }) => Err(Undone::TooLarge),
            Err(why) => Err(why.to_string().into()),
        })
    }
}

/// A header's value as text: without a copy if it is one.
fn text(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned())
}
