//! Thousands of destinations that must not be reached, asked for by an agent: through the gate, the executor and the
//! client, with a resolver and a dialler that write down what they are asked. And once more past the gate, by somebody
//! who was granted every address as such.
//!
//! `cargo test --workspace --test hostile_destinations -- --show-output` prints the counts.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test prints its figures, and says what is wrong by failing"
)]

mod gate;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use gate::{Gate, request};
use lazaret_exec::egress::{Ask, Dialler, Egress, EgressError, Resolver, Settings};
use lazaret_exec::{Outside, Web};
use lazaret_gate::address::Destinations;
use lazaret_gate::refusal::{Code, Layer};
use lazaret_gate::target::Host;
use lazaret_gate::{Effect, Outcome, Target};

/// The one name that is granted.
const GRANTED: &str = "api.example";

const DATA: &str = include_str!("hostile-destinations.txt");

fn rows(kind: &str) -> impl Iterator<Item = &'static str> {
    DATA.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(' '))
}

/// `\0`, `\r`, `\n`, `\t` and `\u{…}`; a backslash before anything else is itself.
fn unescaped(text: &str) -> String {
    let mut text = text.replace("\\0", "\0").replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t");
    while let Some(at) = text.find("\\u{") {
        let end = at + text[at..].find('}').unwrap();
        let point = u32::from_str_radix(&text[at + 3..end], 16).unwrap();
        text.replace_range(at..=end, &char::from_u32(point).unwrap().to_string());
    }
    text
}

/// An address in every way that some program would still understand.
fn spellings(address: IpAddr) -> BTreeSet<String> {
    let mut all = match address {
        IpAddr::V4(address) => spellings4(address),
        IpAddr::V6(address) => spellings6(address),
    };
    for text in all.clone() {
        all.insert(format!("{text}."));
        all.insert(text.to_uppercase());
        all.insert(text.replace('.', "%2e"));
        all.insert(text.replace('.', "。"));
        all.insert(text.replace('.', "．"));
        all.insert(text.replace('.', "｡"));
        all.insert(text.chars().map(wide).collect());
        all.insert(text.chars().map(circled).collect());
        all.insert(text.replacen(':', "%3a", 1));
    }
    all
}

fn spellings4(address: Ipv4Addr) -> BTreeSet<String> {
    let [a, b, c, d] = address.octets();
    let bits = address.to_bits();
    let low = |n: u32| bits & ((1 << n) - 1);
    let mut all = BTreeSet::from([
        format!("{a}.{b}.{c}.{d}"),
        format!("{a}.{b}.{}", low(16)),
        format!("{a}.{}", low(24)),
        format!("{bits}"),
        format!("{bits:#x}"),
        format!("0x{bits:08X}"),
        format!("{bits:#o}").replace("0o", "0"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("000{a:o}.000{b:o}.000{c:o}.000{d:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("{a:#x}.{b}.0{c:o}.{d}"),
        format!("{a}.{b:#x}.{c}.{d}"),
        format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        format!("{a}.{b}.{c}.{d}.0x0"),
        format!("{}", u64::from(bits) + (1 << 32)),
        format!("{}.{b}.{c}.{d}", u16::from(a) + 256),
        format!("{a}.{:#x}", low(24)),
        format!("[{address}]"),
    ]);
    for wrapped in [
        address.to_ipv6_mapped(),
        address.to_ipv6_compatible(),
        Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(bits)),
        Ipv6Addr::from_bits(0x64_ff9b_0001 << 80 | u128::from(bits)),
        Ipv6Addr::from_bits(0x2002 << 112 | u128::from(bits) << 80 | 1),
        Ipv6Addr::from_bits(0xffff << 48 | u128::from(bits)),
        Ipv6Addr::from_bits(0x2001 << 112 | u128::from(!bits)),
    ] {
        all.extend(spellings6(wrapped));
    }
    all
}

fn spellings6(address: Ipv6Addr) -> BTreeSet<String> {
    let groups = address.segments();
    let long = groups.map(|group| format!("{group:04x}")).join(":");
    let short = groups.map(|group| format!("{group:x}")).join(":");
    let [.., y, z] = groups;
    let low = Ipv4Addr::from_bits(u32::from(y) << 16 | u32::from(z));
    let mixed = groups[..6].iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":");
    let canonical = url_host(address);
    let mut all: BTreeSet<String> =
        [long, short, format!("{mixed}:{low}"), address.to_string()].map(|text| format!("[{text}]")).into();
    all.insert(canonical.clone());
    all.insert(canonical.trim_matches(['[', ']']).to_owned());
    all.insert(canonical.replace(']', "%25lo]"));
    all.insert(canonical.replace(']', "%lo]"));
    all.insert(canonical.replace(']', ""));
    all
}

/// As URLs write it: without dots, whatever is inside.
fn url_host(address: Ipv6Addr) -> String {
    // Without the last 32 bits the standard library has no reason for dots; then they are put back.
    let shown = address.to_string();
    match shown.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            let [.., y, z] = address.segments();
            format!("[{head}:{y:x}:{z:x}]")
        }
        _ => format!("[{shown}]"),
    }
}

fn wide(c: char) -> char {
    if ('!'..='~').contains(&c) && !"[]:.".contains(c) { char::from_u32(u32::from(c) + 0xfee0).unwrap() } else { c }
}

fn circled(c: char) -> char {
    match c {
        '1'..='9' => char::from_u32(u32::from('①') + u32::from(c) - u32::from('1')).unwrap(),
        '0' => '⓪',
        _ => c,
    }
}

/// A host in URLs of several shapes.
fn shapes(host: &str) -> Vec<String> {
    vec![
        format!("http://{host}/"),
        format!("https://{host}/latest/meta-data/?x=1"),
        format!("https://{host}:8443/"),
        format!("https://{GRANTED}@{host}/"),
        format!("https://{host}:0443/"),
    ]
}

/// What the resolver and the dialler were asked, and what the resolver says now.
#[derive(Default)]
struct Recorder {
    lookups: Vec<String>,
    dials: Vec<SocketAddr>,
    answer: Vec<IpAddr>,
}

/// How a request goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As an agent's do.
    Gate,
    /// By the client alone. Granted are one name and all addresses, which is the worst case.
    Client,
}

/// How it ended, and how many names had to be looked up for that.
type Ended = (&'static str, usize);

struct Bench {
    way: Way,
    gate: Gate,
    outside: Outside,
    egress: Egress,
    record: Arc<Mutex<Recorder>>,
    counts: BTreeMap<&'static str, usize>,
}

impl Bench {
    fn new(way: Way) -> Self {
        let record = Arc::<Mutex<Recorder>>::default();
        let (names, dials) = (Arc::clone(&record), Arc::clone(&record));
        let resolver = Resolver::Given(Arc::new(move |name| {
            let mut record = names.lock().unwrap();
            record.lookups.push(name.to_owned());
            Ok(record.answer.clone())
        }));
        // Nothing is really dialled: to have come here is enough.
        let dialler: Dialler = Arc::new(move |address| {
            dials.lock().unwrap().dials.push(address);
            Err(std::io::Error::other("only written down"))
        });
        let egress = Egress::new(Settings { resolver, dialler: Some(dialler), ..Settings::default() });
        let granted = [format!("http:{GRANTED}"), format!("http:{GRANTED}:8443"), format!("http:http://{GRANTED}")];
        let gate = Gate::new(&granted.each_ref().map(String::as_str));
        let outside = Outside::new(std::env::temp_dir(), Web::new(egress.clone(), gate.grants.clone()));
        Self { way, gate, outside, egress, record, counts: BTreeMap::new() }
    }

    fn answer(&self, addresses: &[IpAddr]) {
        self.record.lock().unwrap().answer = addresses.to_vec();
    }

    fn seen(&self) -> (usize, usize) {
        let record = self.record.lock().unwrap();
        (record.lookups.len(), record.dials.len())
    }

    fn send(&mut self, url: &str) {
        let before = self.seen();
        let (how, lookups) = match self.way {
            Way::Gate => self.through_gate(url),
            Way::Client => self.by_client(url),
        };
        assert_eq!(self.seen().0 - before.0, lookups, "{url:?} {how}: lookups");
        assert_eq!(self.seen().1 - before.1, usize::from(how == "dialled"), "{url:?} {how}: dials");
        *self.counts.entry(how).or_default() += 1;
    }

    fn through_gate(&mut self, url: &str) -> Ended {
        let effect = Effect::HttpFetch(request("GET", url));
        match self.gate.ask(effect, &mut self.outside, || {}) {
            Outcome::Refused(refusal) => match (refusal.code, refusal.layer) {
                (Code::BadAsk, Layer::Form) => ("refused by its text", 0),
                (Code::EgressDenied, Layer::Declared) => ("refused by its host", 0),
                (Code::EgressDenied, Layer::Executor) => ("refused by its address", 1),
                other => panic!("{url:?}: {other:?}: {refusal}"),
            },
            Outcome::Failed(why) if why.contains("only written down") => ("dialled", 1),
            other => panic!("{url:?}: {other:?}"),
        }
    }

    fn by_client(&mut self, url: &str) -> Ended {
        let Ok(target) = Target::parse(url) else { return ("refused by its text", 0) };
        let lookups = match target.host() {
            Host::Name(name) if name.as_str() != GRANTED => return ("refused by its host", 0),
            Host::Name(_) => 1,
            Host::Ip(_) => 0,
        };
        let ask = Ask { method: "GET".into(), url: target, headers: Vec::new(), body: Vec::new(), most: None };
        match self.egress.fetch(ask, &Destinations::default(), &mut || false).unwrap() {
            Err(EgressError::Forbidden { .. }) => ("refused by its address", lookups),
            Err(EgressError::Connect { .. }) => ("dialled", lookups),
            other => panic!("{url:?}: {other:?}"),
        }
    }
}

/// Everything hostile there is: what is asked for as it stands, each once.
fn spelled(addresses: &[IpAddr]) -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
    for address in addresses {
        asked.extend(spellings(*address).iter().flat_map(|host| shapes(host)));
    }
    asked.extend(rows("name").flat_map(shapes));
    asked.extend(rows("url").map(unescaped));
    asked
}

fn nothing_hostile_passes(way: Way, title: &str) {
    let mut bench = Bench::new(way);
    let addresses: Vec<IpAddr> = rows("address").map(|text| text.parse().unwrap()).collect();
    bench.answer(&[Ipv4Addr::new(127, 0, 0, 1).into()]);
    // Public addresses in odd clothes aren't hostile by where they lead; what isn't written plainly is refused all the
    // same.
    let asked = spelled(&addresses);
    for url in &asked {
        bench.send(url);
    }
    // The granted name, when it leads to each of these, alone or among good ones.
    let good: IpAddr = Ipv4Addr::new(93, 184, 215, 14).into();
    let mut led = 0;
    for bad in &addresses {
        for answer in [vec![*bad], vec![good, *bad], vec![*bad, good], vec![good, good, *bad, good]] {
            bench.answer(&answer);
            for url in shapes(GRANTED).iter().filter(|url| Target::parse(url).is_ok()) {
                bench.send(url);
                led += 1;
            }
        }
    }
    let (lookups, dials) = bench.seen();
    let hostile = asked.len() + led;
    println!("hostile destinations {title}: {hostile} ({} spelled, {led} by answers)", asked.len());
    for (how, count) in &bench.counts {
        println!("  {how}: {count}");
    }
    println!("  connections to an address that is not allowed: {dials}");
    println!("  lookups of refused names: {}", lookups - led);
    assert!(hostile >= 5_000, "{hostile}");
    assert_eq!((lookups, dials), (led, 0));

    // And what isn't hostile gets through, so that the silence above says something.
    bench.answer(&[good]);
    let public = match way {
        Way::Gate => {
            vec![format!("https://{GRANTED}/"), format!("http://{GRANTED}/x"), format!("https://{GRANTED}:8443/")]
        }
        Way::Client => ["8.8.8.8", "93.184.215.14", "[2606:4700:4700::1111]", GRANTED]
            .map(|host| format!("https://{host}/"))
            .into(),
    };
    for url in &public {
        bench.send(url);
    }
    assert_eq!(bench.counts.get("dialled"), Some(&public.len()));
    println!("  and {} of {} public ones were dialled", bench.counts["dialled"], public.len());
}

#[test]
fn nothing_hostile_passes_the_gate() {
    nothing_hostile_passes(Way::Gate, "asked for by an agent");
}

#[test]
fn nothing_hostile_passes_the_client() {
    nothing_hostile_passes(Way::Client, "asked of the client");
}
