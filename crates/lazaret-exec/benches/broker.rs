//! What the broker adds to a request: the search of what leaves, the filling in, the search of what comes back. Nothing is
//! sent. The anchor is a copy of the same bytes: all of them have to be touched.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_exec::Broker;
use lazaret_exec::broker::{Errand, Filling, Form, Secrets, Unfilled};
use lazaret_gate::AgentId;
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::leak::Guard;
use lazaret_gate::outcome::Response;
use lazaret_gate::secret::Slot;
use zeroize::Zeroizing;

const VALUE: &str = "the-value-of-secret-0000-0123456789abcdef";
const URL: &str = "https://api.example.org/v1/items?page=2&order=newest";
const ROUNDS: usize = 2_000;

struct Safe(Arc<Guard>);

impl Secrets for Safe {
    fn admits(&self, _: &AgentId, _: &Slot, _: Option<&Errand>) -> Result<(), Unfilled> {
        Ok(())
    }

    fn fill(&self, _: &AgentId, _: &Slot, _: &Errand) -> Result<Filling, Unfilled> {
        let form = Form::Header { name: "authorization".into(), prefix: "Bearer ".into() };
        Ok(Filling { form, value: Zeroizing::new(VALUE.as_bytes().to_vec()) })
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

fn request(body: usize) -> Request {
    let headers = [
        ("authorization", "Bearer lazaret-secret:token"),
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("user-agent", "an-agent/1.0"),
    ];
    let headers = headers.map(|(name, value)| Header { name: name.into(), value: value.into() }).to_vec();
    Request { method: "POST".into(), url: URL.into(), headers, body: text(body).into() }
}

fn text(len: usize) -> Vec<u8> {
    br#"{"id":4711,"title":"water the plants","done":false,"notes":["by the window","twice a week"]},"#
        .iter()
        .copied()
        .cycle()
        .take(len)
        .collect()
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn main() {
    let secrets: Vec<_> =
        (0..1_000).map(|n| (format!("secret-{n}"), VALUE.replace("0000", &format!("{n:04}")))).collect();
    let guard = Arc::new(Guard::new(secrets.iter().map(|(name, value)| (name, value.as_bytes()))).unwrap());
    println!("broker: 1,000 secrets in the vault, one in the request; nothing is sent");
    for (body, answer) in [(0, 1 << 10), (1 << 10, 4 << 10), (64 << 10, 64 << 10), (1 << 20, 1 << 20)] {
        let mut broker = Broker::new("clerk".parse().unwrap(), Arc::new(Safe(Arc::clone(&guard))));
        let (asked, answer) = (request(body), text(answer));
        let brokered = median(|| {
            broker.admit("token", "POST", URL).unwrap();
            let response = Response { status: 200, headers: Vec::new(), body: answer.clone().into() };
            black_box(broker.fetch(asked.clone(), |outgoing| {
                black_box(&outgoing.headers);
                Ok(response)
            }))
            .unwrap();
        });
        let copied = median(|| {
            black_box((asked.clone(), answer.clone()));
        });
        println!(
            "  body {body:>7}, answer {:>7} bytes: {:>9.1} us brokered, {:>7.1} us copied",
            answer.len(),
            brokered.as_secs_f64() * 1e6,
            copied.as_secs_f64() * 1e6
        );
    }
}
