//! `lazaret budget`

use clap::Subcommand;
use lazaret_gate::AgentId;
use lazaret_gate::ledger::{AtCap, Money, Period, Unbalanced, Unit};
use lazaret_host::{HostError, now};
use lazaret_link::{BudgetRequest, Reply, Request};
use lazaret_store::AgentRow;
use serde_json::json;

use super::open_reader;
use crate::cli::Cli;
use crate::door::{Door, unexpected};
use crate::failure::{Code, Failure};
use crate::text::grouped;
use crate::ui::{Tone, Ui};

/// Show and set what agents may spend beyond one turn
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show an agent's caps and what it has spent
    Show {
        /// Which
        #[arg(value_parser = agent)]
        name: AgentId,
    },
    /// Change an agent's caps
    ///
    /// CAP is `turn.`, `run.`, `day.` or `total.` and one of fuel, memory, wall_ms, effects, bytes_out, output_bytes and
    /// money; or `host.NAME.requests_per_minute` or `host.NAME.bytes_per_day`; or `currency`, `per_action`, `rails`
    /// (`card,transfer`) or `at_cap` (`pause` or `refuse`). Money is in millionths. VALUE `none` takes a cap away.
    Set {
        /// Which
        #[arg(value_parser = agent)]
        name: AgentId,
        /// What, like `day.effects=1000`, `currency=EUR`, `day.money=5000000` (millionths) or `at_cap=refuse`
        #[arg(required = true, value_name = "CAP=VALUE")]
        caps: Vec<String>,
    },
}

/// `NAME`, or `agent:NAME` as messages about budgets write it.
fn agent(text: &str) -> Result<AgentId, String> {
    let name = text.strip_prefix("agent:").unwrap_or(text);
    name.parse().map_err(|why: lazaret_gate::id::BadAgentId| why.to_string())
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &args.command {
        Command::Show { name } => {
            let row = open_reader(cli)?.agent(name)?.ok_or_else(|| HostError::NoAgent(name.to_string()))?;
            show(&row, ui)
        }
        Command::Set { name, caps } => {
            let set = BudgetRequest::Set { agent: name.clone(), caps: caps.clone() };
            let Reply::Caps(now) = Door::open(cli, ui)?.ask(Request::Budget(set))? else { return Err(unexpected()) };
            ui.json(&json!({ "agent": name, "caps": now }));
            ui.line(&format!("{} {name}: {}", ui.paint(Tone::Good, "set"), caps.join(" ")));
            Ok(Code::Done)
        }
    }
}

/// One capped line of an agent's account, as it stands today. Of each turn and run there is only the cap: theirs end with
/// them.
pub(crate) struct Capped {
    pub(crate) period: Period,
    pub(crate) unit: Unit,
    pub(crate) cap: u64,
    /// Spent and reserved.
    pub(crate) used: Option<u64>,
}

impl Capped {
    /// Whether 80 % of the cap are used.
    pub(crate) fn is_near(&self) -> bool {
        self.used.is_some_and(|used| u128::from(used) * 100 >= u128::from(self.cap) * 80)
    }

    pub(crate) fn percent(&self) -> u64 {
        let used = u128::from(self.used.unwrap_or(0)) * 100;
        u64::try_from(used.checked_div(u128::from(self.cap)).unwrap_or(100)).unwrap_or(u64::MAX)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let left = self.used.map(|used| self.cap.saturating_sub(used));
        json!({ "period": self.period, "unit": self.unit, "cap": self.cap, "used": self.used, "left": left })
    }

    fn figure(&self, amount: Option<u64>) -> String {
        match amount {
            None => "-".to_owned(),
            Some(amount) if self.unit.is_money() => self.unit.say(amount),
            Some(amount) => grouped(amount),
        }
    }
}

/// Everything that an agent's caps name. Fails if the account's sums don't balance.
pub(crate) fn capped(row: &AgentRow) -> Result<Vec<Capped>, Unbalanced> {
    let mut account = row.account.clone();
    account.roll(u32::try_from(now().moment.wall_ms / 86_400_000).unwrap_or(u32::MAX));
    let lines = account.balance(&row.caps)?;
    let units: Vec<Unit> = Unit::COUNTED.into_iter().chain(row.caps.currency.map(Unit::Money)).collect();
    let mut capped = Vec::new();
    for period in Period::ALL {
        for &unit in &units {
            let Some(cap) = row.caps.cap(period, unit) else { continue };
            let line = lines.iter().find(|line| line.scope.period == period && line.unit == unit);
            let used = line.map_or(0, |line| line.spent.saturating_add(line.reserved));
            let lasts = matches!(period, Period::Day | Period::Total);
            capped.push(Capped { period, unit, cap, used: lasts.then_some(used) });
        }
    }
    Ok(capped)
}

fn show(row: &AgentRow, ui: &Ui) -> Result<Code, Failure> {
    let lines = capped(row).map_err(|why| Failure::Mismatch(why.to_string()))?;
    let json: Vec<_> = lines.iter().map(Capped::json).collect();
    ui.json(&json!({ "agent": row.agent, "caps": row.caps, "lines": json, "account": row.account }));
    if !lines.is_empty() {
        let head = format!("{:<9} {:<13} {:>18} {:>18} {:>18}", "", "", "CAP", "USED", "LEFT");
        ui.line(&ui.paint(Tone::Strong, &head));
    }
    for line in &lines {
        let left = line.used.map(|used| line.cap.saturating_sub(used));
        let [cap, used, left] = [Some(line.cap), line.used, left].map(|amount| line.figure(amount));
        let (over, of) = (line.period.phrase(), line.unit.name());
        ui.line(&format!("{over:<9} {of:<13} {cap:>18} {used:>18} {left:>18}"));
    }
    for (host, caps) in &row.caps.hosts {
        let used = row.account.hosts().get(host).map(|used| used.at(now().moment.wall_ms)).unwrap_or_default();
        let lines = [
            (caps.requests_per_minute, used.requests, "requests this minute"),
            (caps.bytes_per_day, used.bytes, "bytes today"),
        ];
        for (cap, used, of) in lines {
            if let Some(cap) = cap {
                ui.line(&format!("{host}: {} of {} {of}", grouped(used), grouped(cap)));
            }
        }
    }
    let caps = &row.caps;
    match (caps.budgeted(), caps.currency) {
        (None, _) => ui.line("money: none"),
        (Some(_), Some(currency)) => {
            let most = caps.per_action.map(|micros| Money { micros, currency }.to_string());
            let rails: Vec<&str> = caps.rails.iter().map(|rail| rail.as_str()).collect();
            let rails = if rails.is_empty() { "no rail".to_owned() } else { rails.join(", ") };
            let most = most.map_or_else(String::new, |most| format!("at most {most} at once, "));
            ui.line(&format!("money: {most}by {rails}"));
        }
        (Some(_), None) => {}
    }
    ui.line(match caps.at_cap {
        AtCap::Pause => "at a cap: a person is asked",
        AtCap::Refuse => "at a cap: the effect is refused",
    });
    Ok(Code::Done)
}
