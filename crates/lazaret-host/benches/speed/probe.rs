use crate::guests;
use lazaret_gate::canonical;
use lazaret_gate::entry::Entry;
use lazaret_host::{Host, Replayer, Selection};
use std::time::Instant;
fn each(what: &str, n: u32, mut f: impl FnMut()) {
    for _ in 0..n / 10 {
        f();
    }
    let mut t: Vec<_> = (0..n)
        .map(|_| {
            let s = Instant::now();
            f();
            s.elapsed()
        })
        .collect();
    t.sort();
    println!("  {what}: {:.1} µs", t[t.len() / 2].as_secs_f64() * 1e6);
}
pub(crate) fn probe() {
    faults();
    let dir = guests::data_root();
    let host = Host::open(&dir.path().join("root")).unwrap();
    let agent = guests::create(&host, "counter", &guests::counter());
    for _ in 0..200 {
        guests::send(&host, &agent, b"add 1");
    }
    let store = host.store();
    let seq = store.turn_entry(&agent, 100).unwrap().unwrap();
    let bytes = store.entry_bytes(seq).unwrap();
    println!("entry of {} bytes: {}", bytes.len(), String::from_utf8_lossy(&bytes));
    let entry = Entry::read(&bytes).unwrap();
    each("agent row", 1000, || drop(store.agent(&agent).unwrap()));
    each("storage_get", 1000, || drop(store.storage_get(&agent, "total").unwrap()));
    each("turn_entry", 1000, || drop(store.turn_entry(&agent, 100).unwrap()));
    each("entry_bytes", 1000, || drop(store.entry_bytes(seq).unwrap()));
    each("Entry::read", 1000, || drop(Entry::read(&bytes).unwrap()));
    each("serde parse", 1000, || drop(serde_json::from_slice::<Entry>(&bytes).unwrap()));
    each("encode", 1000, || drop(canonical::encode(&entry).unwrap()));
    each("serde write", 1000, || drop(serde_json::to_vec(&entry).unwrap()));
    each("program", 1000, || {
        if let lazaret_gate::record::Body::Turn(t) = &entry.body {
            drop(host.program(&t.component).unwrap());
        }
    });
    let turns = host.turns(&Selection { agent: agent.clone(), turns: None }).unwrap();
    let mut replayer = Replayer::new(host.engine(), &host);
    let mut i = 0;
    each("verify", 180, || {
        assert_eq!(replayer.verify(&turns[i].1), lazaret_host::Verdict::Match);
        i += 1;
    });
    each("turns()", 20, || drop(host.turns(&Selection { agent: agent.clone(), turns: None }).unwrap()));
    each("send", 500, || drop(guests::send(&host, &agent, b"add 1")));
}

fn minflt() -> u64 {
    std::fs::read_to_string("/proc/thread-self/stat")
        .unwrap()
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(7)
        .unwrap()
        .parse()
        .unwrap()
}
struct Silence;
impl lazaret_guest::World for Silence {
    fn ask(&mut self, _: lazaret_gate::Effect) -> Result<lazaret_gate::Outcome, lazaret_gate::Halt> {
        Err(lazaret_gate::Halt::Stopped("x".into()))
    }
}
pub(crate) fn faults() {
    let component = guests::counter();
    let engine = lazaret_guest::Engine::new().unwrap();
    let admitted = engine.admit(&component).unwrap();
    let mut state = lazaret_guest::State::default();
    let _ = state.advance(&admitted.birth);
    state.settle(admitted.birth).unwrap();
    let bare = crate::bare::Bare::new(&component);
    for body in [&b"fail"[..], b"recall"] {
        let (input, budget) = (guests::message(body), lazaret_gate::Budget::default());
        let before = minflt();
        for _ in 0..1000 {
            let terms = lazaret_guest::Terms { input: &input, budget: &budget };
            lazaret_guest::turn::run(&admitted.program, &state, &terms, Box::new(Silence));
        }
        let ours = minflt() - before;
        let before = minflt();
        for _ in 0..1000 {
            let _ = bare.call(body);
        }
        println!("faults per call: ours {} bare {}", ours as f64 / 1000.0, (minflt() - before) as f64 / 1000.0);
    }
}
