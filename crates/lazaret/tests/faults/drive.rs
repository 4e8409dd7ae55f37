//! The process that is hit: takes many turns and says of each that it is done, when it is.
//!
//! An error doesn't end it. Whoever serves agents goes on after a failed write, and must not say anything wrong then.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use lazaret_gate::record::Message;
use lazaret_gate::{Budget, Bytes, Grants};
use lazaret_host::{Host, HostError, NewAgent, Settings, Turn};

/// The word that makes the test's own program the driver.
pub(crate) const DRIVE: &str = "drive";

/// Follows a script: lines of `create NAME GRANT…`, `send NAME MESSAGE`, `fork SOURCE NEW TURN` and `rollback NAME TURN`.
pub(crate) fn drive(root: &Path, component: &Path, script: &Path) -> ExitCode {
    let script = std::fs::read_to_string(script).expect("the script is there");
    let component = std::fs::read(component).expect("the component is there");
    // Nobody is there to be asked.
    let settings = Settings { preset: "open".into(), ..Settings::default() };
    let host = match Host::open_with(root, settings).and_then(|host| host.recover().map(|recovered| (host, recovered)))
    {
        Ok((host, recovered)) => {
            recovered.finished.iter().for_each(acknowledge);
            host
        }
        Err(why) => {
            complain(&why);
            return ExitCode::FAILURE;
        }
    };
    for line in script.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let done = match word {
            "create" => create(&host, name, rest, &component),
            "fork" => fork(&host, name, rest),
            "rollback" => rollback(&host, name, rest),
            _ => send(&host, name, rest),
        };
        if let Err(why) = done {
            complain(&why);
        }
    }
    match host.deliver() {
        Ok(turns) => turns.iter().for_each(acknowledge),
        Err(why) => complain(&why),
    }
    ExitCode::SUCCESS
}

fn create(host: &Host, name: &str, grants: &str, component: &[u8]) -> Result<(), HostError> {
    let granted = grants.split_whitespace().map(|grant| grant.parse().expect("a grant"));
    let grants = Grants::new(Grants::basic().iter().cloned().chain(granted).collect());
    let new = NewAgent {
        agent: name.parse().expect("a name"),
        grants,
        budget: Budget::default(),
        caps: lazaret_gate::ledger::Caps::default(),
        slots: Default::default(),
    };
    host.create(new, component).map(|_| println!("made {name}"))
}

fn fork(host: &Host, from: &str, rest: &str) -> Result<(), HostError> {
    let (new, turn) = rest.split_once(' ').expect("a name and a turn");
    let turn = turn.parse().expect("a turn");
    host.fork(&from.parse().expect("a name"), Some(turn), &new.parse().expect("a name")).map(|_| println!("made {new}"))
}

fn rollback(host: &Host, name: &str, turn: &str) -> Result<(), HostError> {
    host.rollback(&name.parse().expect("a name"), turn.parse().expect("a turn"), "the driver")?;
    println!("back {name} {turn}");
    Ok(())
}

fn send(host: &Host, name: &str, text: &str) -> Result<(), HostError> {
    let body = Bytes(text.as_bytes().to_vec());
    let message = Message::outside("text/plain", body);
    acknowledge(&host.send(&name.parse().expect("a name"), message)?);
    host.deliver()?.iter().for_each(acknowledge);
    Ok(())
}

/// From here on this turn must never be lost.
fn acknowledge(turn: &Turn) {
    println!("ack {} {} {}", turn.record.agent, turn.record.turn, turn.hash);
    std::io::stdout().flush().expect("somebody listens");
}

fn complain(why: &HostError) {
    println!("error {}", why.to_string().replace('\n', " "));
}
