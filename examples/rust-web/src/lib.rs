//! Lists the tasks of a tracker and adds one, by ordinary requests and with keys that it never sees: where a key belongs
//! stands its handle, and the host puts it in. The message is where the tracker is, or `follow` and a URL: then redirects
//! are followed from there, with the tracker's key as far as that goes.

#[path = "../../../sdk/rust/lazaret_http.rs"]
mod lazaret_http;

use lazaret_http::{Error, Request};
use serde_json::{Value, json};

wit_bindgen::generate!({ path: "../../wit", world: "agent" });

struct Web;
export!(Web);

impl Guest for Web {
    fn handle(input: Message) -> Result<Reply, Failure> {
        let text = String::from_utf8(input.body).map_err(|_| Failure::BadInput("the message is not UTF-8".into()))?;
        let answer = match text.trim().split_once(' ') {
            Some(("follow", url)) => follow(url),
            _ => tasks(text.trim()),
        };
        let answer = answer.unwrap_or_else(|error| error.to_string());
        Ok(Reply { content_type: "text/plain; charset=utf-8".into(), body: answer.into_bytes() })
    }
}

fn tasks(base: &str) -> Result<String, Error> {
    let found = Request::get(format!("{base}/v1/tasks?state=open")).bearer_secret("tracker").send()?;
    let open: Value = serde_json::from_slice(&found.body).unwrap_or_default();
    let open = open["tasks"].as_array().map_or(0, Vec::len);
    let added = Request::post(format!("{base}/v1/tasks"))
        .bearer_secret("tracker")
        .header("content-type", "application/json")
        .body(json!({ "title": "water the plants" }).to_string())
        .send()?;
    // The operator bound this one as a password: the host writes it as basic authentication does.
    let me = Request::get(format!("{base}/v1/me")).secret("authorization", "login").send()?;
    let (added, status, me) = (said(&added.body), added.status, said(&me.body));
    Ok(format!("{open} open; added: {status}; {added} {me}"))
}

fn follow(url: &str) -> Result<String, Error> {
    let found = Request::get(url).bearer_secret("tracker").follow(3).send()?;
    Ok(format!("{} from {}: {}", found.status, found.url, said(&found.body)))
}

fn said(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}
