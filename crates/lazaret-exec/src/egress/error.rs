//! Why there is no response.

use std::net::SocketAddr;
use std::time::Duration;

use lazaret_gate::Target;
use lazaret_gate::address::Forbidden;

use super::Limits;
use super::ask::BadAsk;

/// Why there is no response. One variant per cause; the texts name the host, never the path, a header or a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The request isn't one that is sent. Nothing was looked up.
    #[error(transparent)]
    Ask(#[from] BadAsk),
    /// The machine gives nothing to watch sockets with.
    #[error("no request can be sent: {0}")]
    Start(String),
    /// The name server has no answer.
    #[error("`{host}` can't be looked up: {why}")]
    Lookup {
        /// The name.
        host: String,
        /// What the resolver says.
        why: String,
    },
    /// The name exists and has no address.
    #[error("`{host}` has no address")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// One of the host's addresses isn't allowed. Nothing was dialled.
    #[error("`{host}` is not reached: {why}")]
    Forbidden {
        /// The name, or the address as written.
        host: String,
        /// Which address, and what would allow it.
        #[source]
        why: Forbidden,
    },
    /// Nobody answers at the last address that was tried.
    #[error("`{host}` can't be reached at {address}: {why}")]
    Connect {
        /// Who was asked for.
        host: String,
        /// The last address tried.
        address: SocketAddr,
        /// What the system says.
        why: String,
    },
    /// There are no root certificates to judge servers by.
    #[error("no root certificates: {0}; install the system's (`ca-certificates`), or give some")]
    NoRoots(String),
    /// The server isn't who it says.
    #[error("`{host}` has a certificate that {fault}")]
    Certificate {
        /// Who was asked for.
        host: String,
        /// What is wrong with it.
        fault: CertificateFault,
    },
    /// No keys were agreed on for another reason.
    #[error("`{host}` and this host can't agree on encryption: {why}")]
    Tls {
        /// Who was asked for.
        host: String,
        /// What was said.
        why: String,
    },
    /// The name took too long to look up.
    #[error("`{host}` was not looked up within {}", shown(*.limit))]
    ResolveTime {
        /// The name.
        host: String,
        /// How long it may take.
        limit: Duration,
    },
    /// Connecting took too long.
    #[error("`{host}` was not reached within {}", shown(*.limit))]
    ConnectTime {
        /// Who was asked for.
        host: String,
        /// How long it may take.
        limit: Duration,
    },
    /// Agreeing on keys took too long.
    #[error("`{host}` did not agree on encryption within {}", shown(*.limit))]
    TlsTime {
        /// Who was asked for.
        host: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The response's head didn't come, or not to its end.
    #[error("`{host}` did not answer within {}", shown(*.limit))]
    HeadTime {
        /// Who was asked.
        host: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The response's body stopped coming.
    #[error("`{host}` stopped in the middle of its answer for {}", shown(*.limit))]
    StallTime {
        /// Who was asked.
        host: String,
        /// How long a pause may be.
        limit: Duration,
    },
    /// All of it took too long.
    #[error("the request to `{host}` was not done within {}", shown(*.limit))]
    TotalTime {
        /// Who was asked.
        host: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The response has more headers than are taken.
    #[error("`{host}` answers with {count} headers; the most is {limit}")]
    TooManyHeaders {
        /// Who was asked.
        host: String,
        /// How many there are.
        count: usize,
        /// How many are taken.
        limit: usize,
    },
    /// The response's head is larger than is taken.
    #[error("`{host}` answers with a head of more than {limit} bytes, or more headers than can be read")]
    HeadTooLarge {
        /// Who was asked.
        host: String,
        /// How much is taken.
        limit: usize,
    },
    /// The response's body is larger than is taken.
    #[error("`{host}` answers with a body of more than {limit} bytes")]
    BodyTooLarge {
        /// Who was asked.
        host: String,
        /// How much is taken.
        limit: usize,
    },
    /// The response's body is larger than whoever asked has leave for.
    #[error("`{host}` answers with a body of more than the {limit} bytes that may come back")]
    OverLeave {
        /// Who was asked.
        host: String,
        /// How much may come back.
        limit: usize,
    },
    /// The response's body is larger than is taken once it is unpacked.
    #[error("`{host}` answers with a packed body that has more than {limit} bytes unpacked")]
    UnpackedTooLarge {
        /// Who was asked.
        host: String,
        /// How much is taken.
        limit: usize,
    },
    /// The response's body is packed as only bombs are.
    #[error("`{host}` answers with a body that unpacks to more than {limit} times its size")]
    Ratio {
        /// Who was asked.
        host: String,
        /// How much is taken.
        limit: usize,
    },
    /// The response's body can't be unpacked.
    #[error("`{host}` answers with a body that can't be unpacked: {why}")]
    Packing {
        /// Who was asked.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// What came back isn't HTTP, or not as it must be.
    #[error("`{host}` answers with what is not HTTP: {why}")]
    Protocol {
        /// Who was asked.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// The connection ended before the answer did.
    #[error("the connection to `{host}` ended early: {why}")]
    Broken {
        /// Who was asked.
        host: String,
        /// What ended it.
        why: String,
    },
}

/// What is wrong with a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// Its time is over.
    #[error("has expired")]
    Expired,
    /// Its time has not come.
    #[error("is not valid yet")]
    NotYet,
    /// It is somebody else's.
    #[error("is for another name")]
    WrongName,
    /// Nobody whom this host trusts vouches for it.
    #[error("nobody known here vouches for")]
    UnknownIssuer,
    /// It was taken back.
    #[error("was revoked")]
    Revoked,
    /// Anything else.
    #[error("is not accepted: {0}")]
    Other(String),
}

impl EgressError {
    pub(super) fn broken(target: &Target, why: impl ToString) -> Self {
        Self::Broken { host: target.host_text().to_owned(), why: why.to_string() }
    }

    pub(super) fn protocol(target: &Target, why: impl ToString) -> Self {
        Self::Protocol { host: target.host_text().to_owned(), why: why.to_string() }
    }

    pub(super) fn head(target: &Target, limits: &Limits) -> Self {
        Self::HeadTooLarge { host: target.host_text().to_owned(), limit: limits.reply_head }
    }

    pub(super) fn forbidden(target: &Target, why: Forbidden) -> Self {
        Self::Forbidden { host: target.host_text().to_owned(), why }
    }
}

fn shown(limit: Duration) -> String {
    if limit.subsec_millis() == 0 { format!("{} s", limit.as_secs()) } else { format!("{} ms", limit.as_millis()) }
}
