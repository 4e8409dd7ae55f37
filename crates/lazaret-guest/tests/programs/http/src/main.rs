//! Posts a body to the host that stands in its input, by the standard bindings of `wasi:http`, and prints what comes back.

use std::io::Read;

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{ErrorCode, Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, Scheme};

fn main() {
    let mut host = String::new();
    std::io::stdin().read_to_string(&mut host).expect("input");
    if let Err(code) = post(&host) {
        eprintln!("{code:?}");
        std::process::exit(1);
    }
}

fn post(host: &str) -> Result<(), ErrorCode> {
    let headers = Fields::from_list(&[("X-Kind".to_owned(), b"test".to_vec())]).expect("lawful headers");
    let request = OutgoingRequest::new(headers);
    request.set_method(&Method::Post).expect("a lawful method");
    request.set_scheme(Some(&Scheme::Https)).expect("a lawful scheme");
    request.set_authority(Some(host)).expect("a lawful host");
    request.set_path_with_query(Some("/in?n=1")).expect("a lawful path");
    let body = request.body().expect("the first time");
    let response = handle(request, None)?;
    let stream = body.write().expect("the first time");
    stream.blocking_write_and_flush(b"payload").expect("room");
    drop(stream);
    OutgoingBody::finish(body, None)?;

    response.subscribe().block();
    let response = response.get().expect("it is here").expect("the first time")?;
    println!("{}", response.status());
    for (name, value) in response.headers().entries() {
        println!("{name}: {}", String::from_utf8_lossy(&value));
    }
    let body = response.consume().expect("the first time");
    let stream = body.stream().expect("the first time");
    while let Ok(piece) = stream.blocking_read(7) {
        println!("{}", String::from_utf8_lossy(&piece));
    }
    drop(stream);
    let trailers = IncomingBody::finish(body);
    trailers.subscribe().block();
    let trailers = trailers.get().expect("they are here").expect("the first time")?;
    println!("trailers: {}", trailers.is_some());
    Ok(())
}
