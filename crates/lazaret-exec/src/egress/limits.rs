//! How long each part of a request may take and how large what comes back may be.

use std::time::Duration;

use crate::limits;

/// Bounds of one request. What is beyond one of them ends the request with an error of its own.
#[derive(Clone, Debug)]
pub struct Limits {
    /// To look the name up.
    pub resolve: Duration,
    /// To connect, all addresses together.
    pub connect: Duration,
    /// To agree on keys.
    pub tls: Duration,
    /// From the last piece of the request that was taken to the end of the response's head.
    pub head: Duration,
    /// Between two pieces of the response's body.
    pub stall: Duration,
    /// From first to last.
    pub total: Duration,
    /// Headers of a request.
    pub ask_headers: usize,
    /// Bytes of a request's headers, names and values together.
    pub ask_head: usize,
    /// Bytes of a request's body.
    pub ask_body: usize,
    /// Headers of a response.
    pub reply_headers: usize,
    /// Bytes of a response's head.
    pub reply_head: usize,
    /// Bytes of a response's body, as it is sent and as it is unpacked.
    pub body: usize,
    /// How many times larger than what was sent the unpacked body may be ...
    pub ratio: usize,
    /// ... once it has this many bytes.
    pub ratio_from: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            resolve: limits::RESOLVE_TIME,
            connect: limits::CONNECT_TIME,
            tls: limits::TLS_TIME,
            head: limits::HEAD_TIME,
            stall: limits::STALL_TIME,
            total: limits::HTTP_TIMEOUT,
            ask_headers: limits::MAX_ASK_HEADERS,
            ask_head: limits::MAX_ASK_HEAD,
            ask_body: lazaret_gate::limits::MAX_VALUE,
            reply_headers: limits::MAX_REPLY_HEADERS,
            reply_head: limits::MAX_RESPONSE_HEADERS,
            body: lazaret_gate::limits::MAX_VALUE,
            ratio: limits::MAX_RATIO,
            ratio_from: limits::RATIO_FROM,
        }
    }
}
