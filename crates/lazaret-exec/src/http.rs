//! One HTTP request. The gate has checked the origin of the very URL that is dialled here.

use std::sync::mpsc::RecvTimeoutError;

use lazaret_gate::Bytes;
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::outcome::Response;
use ureq::http;

use crate::limits::{HTTP_TIMEOUT, LOOK, MAX_RESPONSE, MAX_RESPONSE_HEADERS};

/// Speaks HTTP/1.1, with TLS by rustls. Follows no redirect, reads no proxy from the environment, keeps no cookie.
pub struct Client {
    agent: ureq::Agent,
}

impl Default for Client {
    fn default() -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(HTTP_TIMEOUT))
            .max_response_header_size(MAX_RESPONSE_HEADERS)
            .user_agent("")
            .accept("")
            .accept_encoding("")
            .build();
        Self { agent: config.into() }
    }
}

impl Client {
    /// Sends it and waits for the whole response; nothing if `cut` says that it is to wait no longer. Then its sockets are
    /// shut down and no more can be sent by this client: what is still looking up a name or dialling ends there.
    pub fn fetch(&self, request: Request, cut: &mut dyn FnMut() -> bool) -> Option<Result<Response, String>> {
        let (send, receive) = std::sync::mpsc::channel();
        let agent = self.agent.clone();
        // It waits in a thread of its own, because a name that is looked up can't be interrupted.
        let worker = std::thread::Builder::new().name("lazaret-http".into()).spawn(move || {
            let _ = send.send(exchange(&agent, request));
        });
        if let Err(why) = worker {
            return Some(Err(format!("the request can't be sent: {why}")));
        }
        loop {
            match receive.recv_timeout(LOOK) {
                Ok(response) => return Some(response),
                Err(RecvTimeoutError::Disconnected) => return Some(Err("the request broke off".to_owned())),
                Err(RecvTimeoutError::Timeout) if cut() => {
                    self.agent.clone().shutdown();
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn exchange(agent: &ureq::Agent, request: Request) -> Result<Response, String> {
    let mut builder = http::Request::builder().method(request.method.as_str()).uri(&request.url);
    for header in &request.headers {
        builder = builder.header(&header.name, &header.value);
    }
    let request = builder.body(request.body.0).map_err(|why| format!("the request can't be sent: {why}"))?;
    let mut response = agent.run(request).map_err(|why| why.to_string())?;
    let headers = response.headers().iter().map(|(name, value)| Header {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    });
    let headers = headers.collect();
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_RESPONSE).read_to_vec().map_err(|why| why.to_string())?;
    Ok(Response { status, headers, body: Bytes(body) })
}
