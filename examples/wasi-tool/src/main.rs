//! A stateless agent: an ordinary Rust program for WASI 0.2 that knows nothing of Lazaret. It writes its input in upper
//! case, and to stderr what it was told about the world: arguments, environment, time and randomness.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

fn main() {
    if let Err(error) = run() {
        eprintln!("wasi-tool: {error}");
        process::exit(1);
    }
}

fn run() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    io::stdout().write_all(text.to_uppercase().as_bytes())?;

    let arguments: Vec<String> = env::args().skip(1).collect();
    let variables: Vec<String> = env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    // The order of a HashMap is random: its seed comes from the host.
    let order: Vec<u8> = (0..8)
        .map(|n| (n, ()))
        .collect::<HashMap<u8, ()>>()
        .into_keys()
        .collect();
    eprintln!("arguments: {arguments:?}\nenvironment: {variables:?}\ntime: {now}\norder: {order:?}");
    Ok(())
}
