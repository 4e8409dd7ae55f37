//! What a collector of traces is sent, and that one which is dead or slow costs nobody anything.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::scene::{PATIENCE, Scene};
use crate::station;

/// Takes traces over OTLP/HTTP.
struct Collector {
    address: String,
    bodies: Receiver<(String, Value)>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (send, bodies) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                loop {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
                    let length = head.to_lowercase();
                    let Some((_, length)) = length.split_once("content-length: ") else { break };
                    let length = length.lines().next().unwrap().parse().unwrap();
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let _ = send.send((head, serde_json::from_slice(&body).unwrap()));
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                    reader.get_mut().write_all(answer).unwrap();
                }
            }
        });
        Self { address, bodies }
    }

    /// Spans until the last turn's is there. Each time they are sent with the header and by the service that were configured.
    fn spans(&self, turns: usize, header: &str, service: &str) -> Vec<Value> {
        let mut spans: Vec<Value> = Vec::new();
        let roots = |spans: &[Value]| spans.iter().filter(|span| span.get("parentSpanId").is_none()).count();
        while roots(&spans) < turns {
            let (head, body) = self.bodies.recv_timeout(PATIENCE).expect("spans come");
            assert!(head.starts_with("POST /v1/traces HTTP/1.1") && head.lines().any(|line| line == header), "{head}");
            let resource = &body["resourceSpans"][0]["resource"];
            assert_eq!(attribute(resource, "service.name").unwrap(), service, "{resource}");
            spans.extend(body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
        }
        spans
    }
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    let found = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    found["value"].as_object()?.values().next()
}

#[test]
fn a_turn_is_a_span_and_its_effects_are_children() {
    let collector = Collector::start();
    let scene = Scene::with(&["model:rehearsal/*"], |serve| {
        serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret");
    });
    scene.turn("add 1");
    scene.turn("ask a very private question");
    let spans = collector.spans(2, "x-key: secret", "lazaret");
    let root = spans.iter().find(|span| attribute(span, "lazaret.turn").is_some_and(|turn| turn == "2")).unwrap();
    assert_eq!(root["name"], "invoke_agent a");
    assert_eq!(attribute(root, "gen_ai.operation.name").unwrap(), "invoke_agent");
    assert_eq!((root["traceId"].as_str().unwrap().len(), root["spanId"].as_str().unwrap().len()), (32, 16));
    let children: Vec<_> = spans.iter().filter(|span| span["parentSpanId"] == root["spanId"]).collect();
    let chat = children.iter().find(|span| span["name"].as_str().unwrap().starts_with("chat ")).unwrap();
    assert_eq!(attribute(chat, "gen_ai.operation.name").unwrap(), "chat");
    assert_eq!(attribute(chat, "gen_ai.provider.name").unwrap(), "rehearsal");
    assert!(attribute(chat, "gen_ai.usage.output_tokens").is_some(), "{chat}");
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    for span in &children {
        assert_eq!(span["traceId"], root["traceId"]);
        assert!(nanos(span, "startTimeUnixNano") >= nanos(root, "startTimeUnixNano"), "{span}");
        assert!(nanos(span, "endTimeUnixNano") <= nanos(root, "endTimeUnixNano"), "{span}");
    }
    assert!(!spans.iter().any(|span| span.to_string().contains("private")), "a prompt was sent");
}

#[test]
fn what_opentelemetry_has_in_the_environment_is_heeded() {
    let (collector, server) = (Collector::start(), super::events::Silent::start());
    let scene = Scene::with(&["tool:mail.list", &format!("http:{}", server.origin)], |serve| {
        serve.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/v1/traces", collector.address));
        serve.env("OTEL_EXPORTER_OTLP_HEADERS", "x-other=1, x-key=Bearer%20a%2Cb%3D");
        serve.env("OTEL_SERVICE_NAME", "station 1").env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    });
    scene.turn("tool mail.list {}");
    server.answer();
    scene.turn(&format!("fetch {}/a/secret/path?key=1", server.origin));
    let spans = collector.spans(2, "x-key: Bearer a,b=", "station 1");
    let of = |name: &str| spans.iter().find(|span| span["name"].as_str().unwrap().starts_with(name)).unwrap();
    let tool = of("execute_tool mail.list");
    assert_eq!(attribute(tool, "gen_ai.tool.name").unwrap(), "mail.list");
    assert_eq!(attribute(tool, "gen_ai.tool.call.arguments").unwrap(), "{}");
    let http = of("GET");
    assert_eq!(attribute(http, "http.request.method").unwrap(), "GET");
    assert_eq!(attribute(http, "http.response.status_code").unwrap(), "200");
    let root = of("invoke_agent a");
    assert!(
        attribute(root, "gen_ai.input.messages").unwrap().as_str().unwrap().starts_with("tool mail.list"),
        "{root}"
    );
}

#[test]
fn a_dead_or_deaf_collector_costs_nothing() {
    const TURNS: u32 = 150;
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead_address = format!("http://{}", dead.local_addr().unwrap());
    drop(dead);
    // Takes connections and never answers.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf_address = format!("http://{}", deaf.local_addr().unwrap());
    let time = |address: Option<&str>| {
        let mut scene = Scene::with(&[], |serve| {
            if let Some(address) = address {
                serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", address);
            }
        });
        scene.turn("add 1");
        let begun = Instant::now();
        (0..TURNS).for_each(|_| drop(scene.turn("add 1")));
        let took = begun.elapsed() / TURNS;
        scene.stop();
        took
    };
    let (none, dead, silent) = (time(None), time(Some(&dead_address)), time(Some(&deaf_address)));
    station::say(&format!(
        "a turn takes {none:?} without traces, {dead:?} with a dead collector, {silent:?} with a deaf one"
    ));
    for slower in [dead, silent] {
        assert!(slower < none * 3 + Duration::from_millis(20), "{slower:?} against {none:?}");
    }
    drop(deaf);
}
