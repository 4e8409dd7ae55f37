//! Touches everything that comes from outside: clocks, sleep, randomness, environment, input, files that aren't there.

use std::collections::HashSet;
use std::io::Read;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).expect("input");
    let started = Instant::now();
    std::thread::sleep(Duration::from_millis(30));
    assert!(started.elapsed() >= Duration::from_millis(30), "a sleep takes its time");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos();
    let order: Vec<u32> = (0..20).collect::<HashSet<u32>>().into_iter().collect();
    let home = std::env::var("HOME").unwrap_or_else(|_| "nowhere".into());
    let file = std::fs::read("/etc/passwd").map_err(|why| why.kind());
    println!("{input}|{now}|{order:?}|{home}|{file:?}");
    eprint!("no line end");
    if input == "panic" {
        panic!("told to");
    }
    if input == "exit" {
        std::process::exit(3);
    }
}
