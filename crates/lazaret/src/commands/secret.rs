//! `lazaret secret`

use std::path::PathBuf;

use clap::Subcommand;
use lazaret_gate::{AgentId, shown};
use lazaret_link::{Bound, BoundForm, Reply, Request, SecretAudit, SecretRequest, SecretView, SlotUses, SlotWanted};
use lazaret_store::vault::{Host, Method, Name, PathPrefix, Scope};
use serde_json::json;

use super::vault::unlocked;
use super::{open_reader, operator};
use crate::cli::Cli;
use crate::door::{Door, unexpected};
use crate::failure::{Code, Failure};
use crate::prompt::value;
use crate::text::{counted, cut, date, grouped, visible};
use crate::ui::{Tone, Ui};

/// Keep credentials for agents, who never see them
///
/// A secret lies in the vault (`lazaret vault init`). It reaches the hosts that it is bound to, in requests of the agent
/// whose slot it fills, and nobody else. No command prints a value. A value is never an argument: it comes from standard
/// input (one line break at its end is cut), from a prompt that doesn't show it, or from a file.
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lazaret secret set github < token.txt
  lazaret secret bind github --agent bo --slot github --host api.github.com --method GET --path /repos
  lazaret secret rotate github --from-file token.txt
  lazaret secret audit";

#[derive(Subcommand)]
enum Command {
    /// Keep a value under a name, in place of what was there
    Set {
        /// Its name: lower-case letters, digits, `-`, `_` and `.`
        name: Name,
        /// Who may have a slot filled with it: global, app:NAME, agent:NAME or device:NAME [default: global]
        #[arg(long)]
        scope: Option<Scope>,
        /// Read the value from this file
        #[arg(long, value_name = "PATH")]
        from_file: Option<PathBuf>,
    },
    /// List secrets; never their values
    List,
    /// Show what there is to know of a secret but its value
    Show {
        /// Which
        name: Name,
    },
    Bind(Box<BindArgs>),
    /// Empty a slot
    Unbind {
        #[command(flatten)]
        holder: HolderArgs,
        /// Which slot
        #[arg(long)]
        slot: Name,
    },
    /// Replace the value of a secret that there is
    Rotate {
        /// Which
        name: Name,
        /// Read the value from this file
        #[arg(long, value_name = "PATH")]
        from_file: Option<PathBuf>,
    },
    /// Forget a secret; it must not be bound any more
    Rm {
        /// Which
        name: Name,
    },
    /// Open every secret once, and say what could be better
    Audit,
}

/// Whose slot it is.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct HolderArgs {
    /// A slot of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentId>,
    /// A slot of every agent of this app
    #[arg(long, value_name = "NAME")]
    app: Option<Name>,
}

impl HolderArgs {
    fn text(&self) -> String {
        match (&self.agent, &self.app) {
            (Some(agent), _) => format!("agent:{agent}"),
            (None, Some(app)) => format!("app:{app}"),
            (None, None) => String::new(),
        }
    }
}

/// Fill a slot: say whose, and where the secret may go from there
///
/// It goes out only over TLS (in the clear only to a loopback address that is named so), only to the hosts that are named,
/// and only in the form that is named: `authorization: Bearer VALUE` if none is.
#[derive(clap::Args)]
struct BindArgs {
    /// Which secret
    secret: Name,
    #[command(flatten)]
    holder: HolderArgs,
    /// Which slot
    #[arg(long)]
    slot: Name,
    /// Where it may go: `HOST` or `HOST:PORT`; may be given more than once
    #[arg(long = "host", value_name = "HOST[:PORT]", required = true)]
    hosts: Vec<Host>,
    /// It is this header
    #[arg(long, value_name = "NAME", conflicts_with_all = ["query", "basic"])]
    header: Option<String>,
    /// This stands before it in the header, like `Bearer `
    #[arg(long, value_name = "TEXT", requires = "header")]
    prefix: Option<String>,
    /// It is this parameter of the query
    #[arg(long, value_name = "NAME", conflicts_with = "basic")]
    query: Option<String>,
    /// It is the password of this user (basic authentication)
    #[arg(long, value_name = "USER")]
    basic: Option<String>,
    /// Only with this method; may be given more than once
    #[arg(long = "method", value_name = "METHOD")]
    methods: Vec<Method>,
    /// Only to paths that begin so; may be given more than once
    #[arg(long = "path", value_name = "PREFIX")]
    paths: Vec<PathPrefix>,
}

impl BindArgs {
    fn bound(&self) -> Bound {
        let form = match (&self.header, &self.query, &self.basic) {
            (Some(name), ..) => {
                BoundForm::Header { name: name.to_ascii_lowercase(), prefix: self.prefix.clone().unwrap_or_default() }
            }
            (None, Some(name), _) => BoundForm::Query { name: name.clone() },
            (None, None, Some(user)) => BoundForm::Basic { user: user.clone() },
            (None, None, None) => BoundForm::Header { name: "authorization".into(), prefix: "Bearer ".into() },
        };
        Bound {
            holder: self.holder.text(),
            slot: self.slot.to_string(),
            secret: self.secret.to_string(),
            hosts: self.hosts.iter().map(ToString::to_string).collect(),
            form,
            methods: self.methods.iter().map(ToString::to_string).collect(),
            paths: self.paths.iter().map(ToString::to_string).collect(),
        }
    }
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let by = operator();
    match &args.command {
        Command::Set { name, scope, from_file } => {
            let mut door = unlocked(cli, ui)?;
            let (name, scope) = (name.to_string(), scope.as_ref().map(ToString::to_string));
            let value = value(&name, from_file.as_deref())?;
            kept(&mut door, SecretRequest::Set { name, scope, value, by }, "set", ui)
        }
        Command::Rotate { name, from_file } => {
            let mut door = unlocked(cli, ui)?;
            let name = name.to_string();
            let value = value(&name, from_file.as_deref())?;
            kept(&mut door, SecretRequest::Rotate { name, value, by }, "rotated", ui)
        }
        Command::List => match unlocked(cli, ui)?.ask(Request::Secret(SecretRequest::List))? {
            Reply::Secrets(all) => list(&all, ui),
            _ => Err(unexpected()),
        },
        Command::Show { name } => {
            let view = one(&mut unlocked(cli, ui)?, SecretRequest::Show { name: name.to_string() })?;
            ui.json(&view);
            show(&view, ui);
            Ok(Code::Done)
        }
        Command::Bind(bind) => fill(bind, cli, ui),
        Command::Unbind { holder, slot } => {
            let (holder, slot) = (holder.text(), slot.to_string());
            let unbind = SecretRequest::Unbind { holder: holder.clone(), slot: slot.clone(), by };
            unlocked(cli, ui)?.ask(Request::Secret(unbind))?;
            ui.json(&json!({ "unbound": true, "holder": holder, "slot": slot }));
            ui.line(&format!("{} slot {slot} of {holder}", ui.paint(Tone::Good, "emptied")));
            Ok(Code::Done)
        }
        Command::Rm { name } => {
            let remove = SecretRequest::Remove { name: name.to_string(), by };
            unlocked(cli, ui)?.ask(Request::Secret(remove))?;
            ui.json(&json!({ "removed": true, "secret": name.as_str() }));
            ui.line(&format!("{} {name}", ui.paint(Tone::Good, "removed")));
            let note = "whoever it was sent to still knows it: revoke it there too";
            ui.aside(Tone::Quiet, "note:", note);
            Ok(Code::Done)
        }
        Command::Audit => match unlocked(cli, ui)?.ask(Request::Secret(SecretRequest::Audit))? {
            Reply::Audit(audit) => told(&audit, ui),
            _ => Err(unexpected()),
        },
    }
}

fn one(door: &mut Door, request: SecretRequest) -> Result<SecretView, Failure> {
    match door.ask(Request::Secret(request))? {
        Reply::Secret(view) => Ok(*view),
        _ => Err(unexpected()),
    }
}

fn kept(door: &mut Door, request: SecretRequest, word: &str, ui: &Ui) -> Result<Code, Failure> {
    let view = one(door, request)?;
    ui.json(&view);
    ui.line(&format!("{} {}, version {}, {}", ui.paint(Tone::Good, word), view.name, view.version, view.scope));
    if view.bindings.is_empty() {
        ui.aside(Tone::Quiet, "note:", &format!("it fills no slot yet: `lazaret secret bind {} …`", view.name));
    }
    Ok(Code::Done)
}

fn fill(args: &BindArgs, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let bound = args.bound();
    let (secret, slot, holder) = (bound.secret.clone(), bound.slot.clone(), bound.holder.clone());
    let bind = SecretRequest::Bind { binding: Box::new(bound.clone()), by: operator() };
    let view = one(&mut unlocked(cli, ui)?, bind)?;
    ui.json(&view);
    ui.line(&format!("{} {secret} to slot {slot} of {holder}", ui.paint(Tone::Good, "bound")));
    ui.line(&format!("  {}", place(&bound)));
    if let Some(agent) = &args.holder.agent
        && open_reader(cli)?.agent(agent)?.is_none()
    {
        ui.aside(
            Tone::Odd,
            "note:",
            &format!("there is no agent `{agent}` yet; whoever is made under that name has it"),
        );
    }
    Ok(Code::Done)
}

fn list(all: &[SecretView], ui: &Ui) -> Result<Code, Failure> {
    ui.json(&all);
    if all.is_empty() {
        ui.line("no secrets; `lazaret secret set NAME` keeps one");
        return Ok(Code::Done);
    }
    let head = format!("{:<24} {:>7}  {:<16}  {:<19}  {}", "SECRET", "VERSION", "SCOPE", "VALUE SET (UTC)", "SLOTS");
    ui.line(&ui.paint(Tone::Strong, &head));
    for view in all {
        let (name, scope, slots) = (cut(&view.name, 24), cut(&view.scope, 16), view.bindings.len());
        ui.line(&format!("{name:<24} {:>7}  {scope:<16}  {:<19}  {slots}", view.version, date(view.rotated)));
    }
    Ok(Code::Done)
}

fn show(view: &SecretView, ui: &Ui) {
    let field = |name: &str, value: &str| ui.line(&format!("{} {value}", ui.paint(Tone::Quiet, &format!("{name:<8}"))));
    field("secret", &view.name);
    field("scope", &view.scope);
    field("version", &format!("{}, set {} UTC", view.version, date(view.rotated)));
    field("first", &format!("{} UTC", date(view.created)));
    field("value", &format!("at most {} bytes; never shown", grouped(view.at_most)));
    for bound in &view.bindings {
        field("slot", &format!("{} of {}", bound.slot, bound.holder));
        field("", &format!("  {}", place(bound)));
    }
    if view.bindings.is_empty() {
        field("slot", "none");
    }
}

/// Where a secret may go, in a line.
fn place(bound: &Bound) -> String {
    let form = match &bound.form {
        BoundForm::Header { name, prefix } if prefix.is_empty() => format!("as header {name}"),
        BoundForm::Header { name, prefix } => format!("as header {name} after `{prefix}`"),
        BoundForm::Query { name } => format!("as query parameter {name}"),
        BoundForm::Basic { user } => format!("as password of {user}"),
    };
    let only = |what: &str, list: &[String]| match list {
        [] => format!("any {what}"),
        list => list.join(", "),
    };
    let (methods, paths) = (only("method", &bound.methods), only("path", &bound.paths));
    visible(&format!("{form}, to {}; {methods}; {paths}", bound.hosts.join(", ")))
}

fn told(audit: &SecretAudit, ui: &Ui) -> Result<Code, Failure> {
    ui.json(audit);
    let ok = ui.paint(Tone::Good, "OK");
    let SecretAudit { vault, opened, remarks, uses, unbound } = audit;
    ui.line(&format!("{ok} {} opened, each as it was sealed", counted(*opened, "value", "values")));
    ui.line(&format!("{ok} vault {} at generation {}, as the journal has it", vault.id, vault.generation));
    for SlotUses { agent, slot, uses, refused, last } in uses {
        let (used, no) = (counted(*uses, "time", "times"), counted(*refused, "time", "times"));
        let line = format!("slot {slot} of agent:{agent}: used {used}, refused {no}, last on {} UTC", date(*last));
        ui.line(&format!("{} {}", ui.paint(Tone::Quiet, "·"), visible(&line)));
    }
    for SlotWanted { agent, slot, purpose } in unbound {
        let purpose = shown::text(purpose);
        let line =
            format!("nothing is bound to the required slot {slot} of agent:{agent} ({purpose}): it takes no turn");
        ui.line(&format!("{} {}", ui.paint(Tone::Bad, "!"), visible(&line)));
    }
    for remark in remarks {
        ui.line(&format!("{} {}", ui.paint(Tone::Odd, "-"), visible(remark)));
    }
    if remarks.is_empty() && unbound.is_empty() {
        ui.line("nothing to remark");
    }
    Ok(Code::Done)
}
