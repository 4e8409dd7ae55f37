//! The plain-text commands, for scripts and for tools that know no JSON.

use std::fmt::Write as _;

use lazaret_gate::ledger::{Switch, Switches};
use lazaret_gate::shown;

use crate::fault::Fault;
use crate::frame::BadFrame;
use crate::reply::{AgentView, Health, Reply, Status};
use crate::request::{AgentRequest, KillRequest, Request, TrustRequest};

/// Who acted, in records of what was asked in plain text.
const BY: &str = "the local socket";

/// A command and the token behind it, if there is one.
pub(crate) fn parse(line: &str) -> Result<(Request, Option<&str>), BadFrame> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let (request, token) = match (name, rest.as_slice()) {
        ("PING", []) => (Request::Ping, None),
        ("HEALTH", []) => (Request::Health, None),
        ("STATUS", []) => (Request::Status, None),
        ("STATUS", [token]) => (Request::Status, Some(*token)),
        ("AGENTS", []) => (Request::Agent(AgentRequest::List { all: false }), None),
        ("AGENTS", [token]) => (Request::Agent(AgentRequest::List { all: false }), Some(*token)),
        ("REVOKE", [agent]) => (revoke(agent)?, None),
        ("REVOKE", [agent, token]) => (revoke(agent)?, Some(*token)),
        ("KILL", [switch]) => (kill(switch)?, None),
        ("KILL", [switch, token]) => (kill(switch)?, Some(*token)),
        ("PING" | "HEALTH", _) => return Err(BadFrame::Usage("PING and HEALTH stand alone")),
        ("STATUS" | "AGENTS", _) => return Err(BadFrame::Usage("STATUS [TOKEN], AGENTS [TOKEN]")),
        ("REVOKE", _) => return Err(BadFrame::Usage("REVOKE AGENT [TOKEN]")),
        ("KILL", _) => return Err(BadFrame::Usage("KILL spend|all [TOKEN]")),
        _ => return Err(BadFrame::Unknown),
    };
    Ok((request, token))
}

fn revoke(agent: &str) -> Result<Request, BadFrame> {
    let agent = agent.parse().map_err(|_| BadFrame::Usage("REVOKE AGENT [TOKEN]"))?;
    Ok(Request::Trust(TrustRequest::Revoke { agent, by: BY.to_owned(), reason: String::new() }))
}

fn kill(switch: &str) -> Result<Request, BadFrame> {
    let switch = match switch {
        "spend" => Switch::Spend,
        "all" => Switch::All,
        _ => return Err(BadFrame::Usage("KILL spend|all [TOKEN]")),
    };
    Ok(Request::Kill(KillRequest { switch, lift: false, by: BY.to_owned(), reason: String::new() }))
}

/// An answer in plain text: lines, the first of which begins with `OK`, `PONG` or `ERROR`, and a break at the end of each.
pub(crate) fn say(answer: &Result<Reply, Fault>) -> String {
    match answer {
        Ok(Reply::Pong) => "PONG\n".to_owned(),
        Ok(Reply::Health(Health::Ok)) => "OK\n".to_owned(),
        Ok(Reply::Health(Health::Stopping)) => "STOPPING\n".to_owned(),
        Ok(Reply::Status(status)) => say_status(status),
        Ok(Reply::Agents(agents)) => say_agents(agents),
        Ok(Reply::Switches(switches)) => format!("OK stopped={}\n", stopped(switches)),
        Ok(_) => "OK\n".to_owned(),
        Err(fault) => format!("ERROR {} {}\n", fault.code, shown::text(&fault.text()).replace(['\n', '\r'], " ")),
    }
}

fn stopped(switches: &Switches) -> &'static str {
    match (switches.thrown(Switch::All), switches.thrown(Switch::Spend)) {
        (Some(_), _) => "all",
        (None, Some(_)) => "spend",
        (None, None) => "none",
    }
}

fn say_status(status: &Status) -> String {
    let Status { agents, in_doubt, mail, under_way, journal, questions, troubled, pid, .. } = status;
    let (stopped, problems) = (stopped(&status.switches), status.problems.len());
    let commits = if status.unwritten.is_some() { "failing" } else { "ok" };
    format!(
        "OK agents={agents} in_doubt={in_doubt} mail={mail} under_way={under_way} journal={journal} \
         questions={questions} stopped={stopped} policy_problems={problems} troubled={troubled} commits={commits} pid={pid}\n"
    )
}

fn say_agents(agents: &[AgentView]) -> String {
    let mut text = format!("OK {}\n", agents.len());
    for agent in agents {
        let state = agent.state.replace(' ', "-");
        let _ = writeln!(text, "{} {state} turns={} mail={}", agent.agent, agent.turn, agent.mailbox);
    }
    text
}
