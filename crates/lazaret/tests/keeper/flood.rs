//! More than a keeper wants: connections, slow lines, lines without end, nonsense.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::scene::{Scene, timed};
use crate::station;

/// A keeper's resident memory, in MiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn ten_thousand_connections_leave_the_keeper_well() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    scene.agent("a");
    let before = resident(keeper.child.id());
    station::raise_files();
    let count = station::number("LAZARET_CONNECTIONS", 10_000) as usize;
    let mut held = Vec::with_capacity(count);
    let ((), took) = timed(|| held.extend((0..count).map(|_| scene.connect())));
    // Those that got a place are silent; the others were told why and let go.
    let (full, other) = (AtomicU64::new(0), AtomicU64::new(0));
    let silent = held.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut line = String::new();
        match BufReader::new(*stream).read_line(&mut line) {
            Ok(_) if line.contains("\"code\":\"too-many\"") && line.ends_with('\n') => {
                full.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(why) if matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => true,
            _ => {
                other.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    });
    let silent = silent.count();
    let after = resident(keeper.child.id());
    let (full, other) = (full.into_inner(), other.into_inner());
    station::say(&format!(
        "{count} connections at once in {} ms: {silent} kept, {full} told that there is no room, {other} otherwise; \
         keeper {before} MiB before, {after} MiB after",
        took.as_millis()
    ));
    assert!(silent <= 256 && other == 0 && silent as u64 + full == count as u64);
    assert!(full > 0 || count <= 256);
    assert!(after < before + 64, "{before} MiB before, {after} MiB after");
    drop(held);
    station::wait_for("a place to be free", || scene.say(b"PING\n") == "PONG\n");
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=1 count=1"));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(!keeper.log().contains("panicked"));
}

#[test]
fn slow_and_endless_lines_end_the_connection_and_nothing_else() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let mut stream = scene.connect();
            let mut said = String::new();
            // A byte now and then doesn't make a line.
            for byte in b"{\"id\":1,\"ask\":\"health\"" {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(400));
            }
            let _ = stream.read_to_string(&mut said);
            said
        });
        let endless = scope.spawn(|| {
            let mut stream = scene.connect();
            let zeros = [b'0'; 4096];
            while stream.write_all(&zeros).is_ok() {}
            let mut said = String::new();
            let _ = stream.read_to_string(&mut said);
            said
        });
        let idle = scope.spawn(|| {
            let mut said = String::new();
            let _ = scene.connect().read_to_string(&mut said);
            said
        });
        let said = slow.join().unwrap();
        assert!(said.contains("\"code\":\"slow\""), "{said}");
        let said = endless.join().unwrap();
        assert!(said.is_empty() || said.starts_with("ERROR too-large "), "{said}");
        let said = idle.join().unwrap();
        assert!(said.contains("\"code\":\"idle\""), "{said}");
    });
    assert_eq!(scene.say(b"PING\n"), "PONG\n");
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
}

#[test]
fn nonsense_on_the_socket_is_refused_by_kind() {
    let scene = Scene::new();
    let mut keeper = scene.serve();
    let folder = station::workspace().join("fuzz/corpus/session");
    let mut seeds = 0;
    for seed in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (name, bytes) = (seed.file_name().into_string().unwrap(), std::fs::read(seed.path()).unwrap());
        let may = ["y_ping", "y_health"].iter().any(|open| name.starts_with(open));
        let said = scene.say(&bytes);
        for line in said.lines() {
            let open = ["PONG", "OK"].contains(&line)
                || line.ends_with("\"ok\":\"pong\"}")
                || line.contains("{\"health\":\"ok\"}");
            let refused = line.starts_with("ERROR ") || line.contains("\"error\":{\"code\":");
            assert!(refused || open && may, "{line} to {name}");
        }
        assert!(!said.is_empty() || name.starts_with("i_"), "nothing is said to {name}");
        seeds += 1;
    }
    assert!(seeds >= 100);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(!keeper.log().contains("panicked"));
}
