//! The web as one agent may reach it: what it was granted, over connections that all agents share.

use lazaret_gate::effect::Header;
use lazaret_gate::outcome::Response;
use lazaret_gate::{Bytes, Grants, Target, Undone};

use crate::broker::Outgoing;
use crate::egress::{Ask, Egress, EgressError};

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
        request: &Outgoing,
        most: Option<u64>,
        cut: &mut dyn FnMut() -> bool,
    ) -> Option<Result<Response, Undone>> {
        // The gate has read it by the same rules; this is how the text becomes what is dialled.
        let target = match Target::parse(&request.url) {
            Ok(target) => target,
            Err(why) => return Some(Err(why.to_string().into())),
        };
        let rules = self.grants.destinations(&target);
        let headers = request.headers.iter().map(|(name, value)| (name.clone(), value.to_vec()));
        let ask = Ask {
            method: request.method.clone(),
            url: target.clone(),
            headers: headers.collect(),
            body: request.body.clone(),
            most: most.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        };
        let reply = self.egress.fetch(ask, &rules, cut)?;
        Some(match reply {
            Ok(reply) => {
                let headers = reply
                    .headers
                    .into_iter()
                    .map(|(name, value)| Header { name, value: String::from_utf8_lossy(&value).into_owned() });
                Ok(Response { status: reply.status, headers: headers.collect(), body: Bytes(reply.body) })
            }
            Err(EgressError::Forbidden { why, .. }) => Err(Undone::Cut(Box::new(self.grants.denied(&target, &why)))),
            Err(EgressError::OverLeave { .. }) => Err(Undone::TooLarge),
            Err(why) => Err(why.to_string().into()),
        })
    }
}
