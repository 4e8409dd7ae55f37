//! How often and how much one host may be asked: requests in a minute, bytes in a day.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::caps::{BadCaps, Caps};
use super::limits::{MAX_AMOUNT, MAX_HOSTS};
use super::money::whole;
use super::short::Short;
use crate::effect::Effect;
use crate::target::Target;

/// The caps of one host. `None` is no cap, and isn't written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostCaps {
    /// Requests in a minute of the clock, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// Bytes of requests and answers together in a day, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<u64>,
}

/// What is capped of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostUnit {
    /// Requests in a minute.
    Requests,
    /// Bytes in a day.
    Bytes,
}

impl HostUnit {
    /// The name of its cap.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_minute",
            Self::Bytes => "bytes_per_day",
        }
    }

    /// An amount of it, in words.
    pub fn say(self, amount: u64) -> String {
        match self {
            Self::Requests if amount == 1 => "1 request a minute".to_owned(),
            Self::Requests => format!("{amount} requests a minute"),
            Self::Bytes => format!("{amount} bytes a day"),
        }
    }
}

/// What a host was asked for. Only hosts with caps are counted, so there are as many as an operator named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostUse {
    /// Minutes since 1970. It never goes back: a clock that does gives no second budget.
    #[serde(deserialize_with = "whole")]
    pub minute: u64,
    /// In that minute.
    #[serde(deserialize_with = "whole")]
    pub requests: u64,
    /// Bytes on the day of that minute.
    #[serde(deserialize_with = "whole")]
    pub bytes: u64,
}

const MINUTES_PER_DAY: u64 = 24 * 60;

impl HostUse {
    /// The same at a moment, in milliseconds since 1970.
    pub fn at(&self, time: u64) -> Self {
        let minute = (time / 60_000).max(self.minute);
        let bytes = if minute / MINUTES_PER_DAY == self.minute / MINUTES_PER_DAY { self.bytes } else { 0 };
        let requests = if minute == self.minute { self.requests } else { 0 };
        Self { minute, requests, bytes }
    }
}

impl HostCaps {
    pub(super) fn cap(&self, unit: HostUnit) -> Option<u64> {
        match unit {
            HostUnit::Requests => self.requests_per_minute,
            HostUnit::Bytes => self.bytes_per_day,
        }
    }
}

/// Changes one cap by its name, `HOST.UNIT`. A host without caps is forgotten.
pub(super) fn set(hosts: &mut BTreeMap<String, HostCaps>, key: &str, value: Option<u64>) -> Option<()> {
    let (host, unit) = key.rsplit_once('.')?;
    let caps = hosts.entry(host.to_owned()).or_default();
    match unit {
        "requests_per_minute" => caps.requests_per_minute = value,
        "bytes_per_day" => caps.bytes_per_day = value,
        _ => return None,
    }
    hosts.retain(|_, caps| *caps != HostCaps::default());
    Some(())
}

/// Whether these can be kept: hosts as URLs have them, and whole amounts that can be counted.
pub(super) fn check(hosts: &BTreeMap<String, HostCaps>) -> Result<(), BadCaps> {
    if hosts.len() > MAX_HOSTS {
        return Err(BadCaps::TooManyHosts(hosts.len()));
    }
    for (host, caps) in hosts {
        let read = Target::parse(&format!("https://{host}/"));
        let read = read.map_err(|why| BadCaps::BadHost(host.chars().take(80).collect(), why.to_string()))?;
        if read.host_text() != host {
            return Err(BadCaps::BadHost(
                host.chars().take(80).collect(),
                "a host alone is capped, on all ports".into(),
            ));
        }
        for unit in [HostUnit::Requests, HostUnit::Bytes] {
            if let Some(value) = caps.cap(unit).filter(|value| *value > MAX_AMOUNT) {
                return Err(BadCaps::TooLarge { key: format!("host.{host}.{}", unit.name()), value });
            }
        }
    }
    Ok(())
}

/// The host that an effect asks, if it asks one.
fn host_of(effect: &Effect) -> Option<String> {
    let Effect::HttpFetch(request) = effect else { return None };
    Target::parse(&request.url).ok().map(|target| target.host_text().to_owned())
}

impl Account {
    /// Whether a host may be asked once more; nothing is counted by this.
    pub(crate) fn admit_host(&self, caps: &Caps, effect: &Effect, time: u64) -> Result<(), Short> {
        if caps.hosts.is_empty() {
            return Ok(());
        }
        let Some((host, limits)) = host_of(effect).and_then(|host| caps.hosts.get_key_value(&host)) else {
            return Ok(());
        };
        let used = self.hosts.get(host).map(|used| used.at(time)).unwrap_or_default();
        for (unit, used, asked) in
            [(HostUnit::Requests, used.requests, 1), (HostUnit::Bytes, used.bytes, effect.weight())]
        {
            if let Some(cap) = limits.cap(unit).filter(|cap| used.saturating_add(asked) > *cap) {
                let (holder, host) = (self.holder().clone(), host.clone());
                return Err(Short::HostExceeded { holder, host, unit, cap, used, asked });
            }
        }
        Ok(())
    }

    /// Counts a request to a host. It stays counted however it ends: it was sent, or may have been.
    pub(crate) fn ask_host(&mut self, caps: &Caps, effect: &Effect, time: u64) {
        self.count_host(caps, effect, |used| {
            let now = used.at(time);
            let bytes = now.bytes.saturating_add(effect.weight()).min(MAX_AMOUNT);
            HostUse { requests: now.requests.saturating_add(1).min(MAX_AMOUNT), bytes, ..now }
        });
    }

    /// Counts what came back: how large it is is known only then, so a day may end beyond its cap by one answer.
    pub(crate) fn heard_host(&mut self, caps: &Caps, effect: &Effect, heard: u64) {
        self.count_host(caps, effect, |used| {
            let bytes = used.bytes.saturating_add(heard).min(MAX_AMOUNT);
            HostUse { bytes, ..used.clone() }
        });
    }

    fn count_host(&mut self, caps: &Caps, effect: &Effect, count: impl FnOnce(&HostUse) -> HostUse) {
        if caps.hosts.is_empty() && self.hosts.is_empty() {
            return;
        }
        // Caps that were taken away since take their counts along.
        self.hosts.retain(|host, _| caps.hosts.contains_key(host));
        if let Some(host) = host_of(effect).filter(|host| caps.hosts.contains_key(host)) {
            let used = self.hosts.entry(host).or_default();
            *used = count(used);
        }
    }

    /// What was counted of hosts that have caps.
    pub fn hosts(&self) -> &BTreeMap<String, HostUse> {
        &self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Request;
    use crate::ledger::{Holder, Point};
    use crate::outcome::{Answer, Outcome, Response};
    use crate::{AgentId, Bytes};

    const MINUTE: u64 = 60_000;
    const DAY: u64 = 24 * 60 * MINUTE;

    fn fetch(url: &str, body: usize) -> Effect {
        let (url, body) = (url.to_owned(), Bytes(vec![0; body]));
        Effect::HttpFetch(Request { method: "POST".into(), url, headers: Vec::new(), body })
    }

    fn account() -> Account {
        let agent: AgentId = "clerk".parse().unwrap();
        Account::new(Holder::Agent(agent))
    }

    fn caps(texts: &[(&str, &str)]) -> Caps {
        let mut caps = Caps::default();
        texts.iter().for_each(|(key, value)| caps.set(key, value).unwrap());
        caps
    }

    /// Asks as the gate does.
    fn ask(account: &mut Account, caps: &Caps, effect: &Effect, time: u64) -> Result<(), String> {
        account.admit_host(caps, effect, time).map_err(|short| short.to_string())?;
        account.ask_host(caps, effect, time);
        Ok(())
    }

    #[test]
    fn a_host_is_asked_so_often_in_a_minute() {
        let caps = caps(&[("host.api.example.requests_per_minute", "2")]);
        let (mut account, effect) = (account(), fetch("https://api.example/x", 0));
        let other = fetch("https://other.example/", 0);
        let start = 7 * DAY;
        assert_eq!(ask(&mut account, &caps, &effect, start), Ok(()));
        // Ports and schemes of one host count together.
        assert_eq!(ask(&mut account, &caps, &fetch("http://api.example:8080/", 0), start + 59_999), Ok(()));
        let said = ask(&mut account, &caps, &effect, start + 59_999).unwrap_err();
        assert_eq!(
            said,
            "asked for 1 more of `api.example`, but agent:clerk has 2 requests a minute there: 2 used; it passes later; \
             `lazaret budget set clerk host.api.example.requests_per_minute=N` changes the cap"
        );
        assert_eq!(ask(&mut account, &caps, &other, start), Ok(()), "others have no cap");
        assert_eq!(ask(&mut account, &caps, &effect, start + MINUTE), Ok(()), "the next minute");
        assert_eq!(ask(&mut account, &caps, &effect, start), Ok(()), "a clock that goes back stays in it");
        assert!(ask(&mut account, &caps, &effect, start).is_err());
        assert_eq!(account.hosts().len(), 1);
    }

    #[test]
    fn a_host_is_sent_and_sends_so_much_in_a_day() {
        let caps = caps(&[("host.api.example.bytes_per_day", "2000")]);
        let (mut account, effect) = (account(), fetch("https://api.example/", 500));
        let response = Response { status: 200, headers: Vec::new(), body: Bytes(vec![0; 1_200]) };
        let outcome = Outcome::Done(Answer::Response(response));
        assert_eq!(ask(&mut account, &caps, &effect, DAY), Ok(()));
        account.heard_host(&caps, &effect, outcome.weight());
        let used = account.hosts()["api.example"].bytes;
        assert_eq!(used, effect.weight() + outcome.weight());
        assert!(ask(&mut account, &caps, &effect, 2 * DAY - 1).is_err());
        assert_eq!(ask(&mut account, &caps, &effect, 2 * DAY), Ok(()), "the next day");
        // It is part of the account, and comes back from disk with it.
        let text = serde_json::to_string(&account).unwrap();
        assert_eq!(serde_json::from_str::<Account>(&text).unwrap(), account);
        // Whoever takes the cap away takes the count along.
        account.ask_host(&Caps::default(), &effect, 2 * DAY);
        assert!(account.hosts().is_empty() && !serde_json::to_string(&account).unwrap().contains("hosts"));
        let point = Point { day: 2, run: "r".into(), turn: "t".into() };
        assert!(account.reserve(&caps, &crate::ledger::Ask::default(), &point).is_ok());
    }

    #[test]
    fn caps_of_hosts_are_of_hosts() {
        let mut caps = caps(&[("host.[::1].bytes_per_day", "1"), ("host.10.0.0.7.requests_per_minute", "0")]);
        for bad in [
            "host.Example.com.bytes_per_day",
            "host.example.com:8443.bytes_per_day",
            "host.example.com/x.bytes_per_day",
            "host.a@b.bytes_per_day",
            "host.127.1.bytes_per_day",
            "host..bytes_per_day",
            "host.bytes_per_day",
            "host.example.com.bytes",
            "host.",
        ] {
            assert!(caps.set(bad, "1").is_err(), "{bad}");
        }
        assert!(caps.set("host.a.example.bytes_per_day", "9007199254740993").is_err());
        let text = serde_json::to_string(&caps).unwrap();
        assert_eq!(serde_json::from_str::<Caps>(&text).unwrap(), caps);
        assert!(serde_json::from_str::<Caps>(&text.replace("[::1]", "[::01]")).is_err());
        caps.set("host.[::1].bytes_per_day", "none").unwrap();
        caps.set("host.10.0.0.7.requests_per_minute", "none").unwrap();
        assert_eq!(caps, Caps::default());
        for number in 0..=MAX_HOSTS {
            assert_eq!(caps.set(&format!("host.h{number}.example.bytes_per_day"), "1").is_ok(), number < MAX_HOSTS);
        }
    }
}
