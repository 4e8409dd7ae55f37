//! `lazaret agent`

mod lives;
mod past;
mod wants;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lazaret_gate::grant::EgressMode;
use lazaret_gate::image::{Image, WASM_PAGE};
use lazaret_gate::{AgentId, Bytes, Digest, canonical};
use lazaret_guest::State;
use lazaret_host::Life;
use lazaret_link::{AgentRequest, NewAgent, Reply, Request, SlotView};
use lazaret_store::{AgentRow, AgentState, Reader};
use serde_json::json;

use self::lives::Lives;
use super::terms::{BudgetArgs, CapsArgs, GrantArgs, MessageArgs, warn_of_egress, whole};
use super::{crash, open_reader, read_component, schedule, turn};
use crate::cli::Cli;
use crate::door::{Door, unexpected};
use crate::failure::{Code, Failure};
use crate::text::{counted, cut, grouped};
use crate::ui::{Tone, Ui};

/// Make, list, look at, talk to, fork, roll back, set apart and remove agents
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an agent from a component
    Create {
        /// Its name: lower-case letters, digits and `-`; never used again
        name: AgentId,
        /// A WebAssembly component: a durable agent or a WASI 0.2 command
        component: PathBuf,
        /// A file that declares what secrets it wants, in `[[secrets]]` tables; `docs/secrets.md` has one
        #[arg(long, value_name = "PATH")]
        manifest: Option<PathBuf>,
        #[command(flatten)]
        grants: GrantArgs,
        #[command(flatten)]
        budget: BudgetArgs,
        #[command(flatten)]
        caps: CapsArgs,
    },
    /// List agents
    List {
        /// Removed ones too
        #[arg(long)]
        all: bool,
    },
    /// Show what is known of an agent
    Show {
        /// Which
        name: AgentId,
        /// Show its sleeping memory, without running it
        #[arg(long)]
        memory: bool,
        /// First byte to show
        #[arg(long, value_name = "ADDRESS", requires = "memory", value_parser = address)]
        at: Option<u64>,
        /// How many bytes to show
        #[arg(long, value_name = "BYTES", requires = "memory", default_value = "256", value_parser = whole)]
        len: u64,
        /// Which of its memories
        #[arg(long, value_name = "N", requires = "memory", default_value = "0", value_parser = whole)]
        number: u64,
        /// Find a text in its memory
        #[arg(long, value_name = "TEXT", requires = "memory", conflicts_with = "at")]
        find: Option<String>,
    },
    /// Send an agent a message and show its reply
    Send {
        /// Which
        name: AgentId,
        /// The message
        #[arg(conflicts_with_all = ["input", "input_file"])]
        message: Option<String>,
        #[command(flatten)]
        input: MessageArgs,
    },
    /// Say how an effect in doubt ended, so that its agent can go on
    Settle {
        /// Which
        name: AgentId,
        /// It did not happen, or nobody can tell: the agent is told that it failed
        #[arg(long, required = true)]
        failed: bool,
        /// Why you think so; recorded
        #[arg(long, value_name = "TEXT", default_value = "taken as failed")]
        note: String,
    },
    /// Make an agent from another one, as that one was after any of its turns
    ///
    /// It gets the same component, grants, slots, budget and caps, and the memory and storage of then. It has taken no turn, spent
    /// nothing and got no mail.
    Fork {
        /// The agent to make it from
        source: AgentId,
        /// The new agent's name
        new: AgentId,
        /// After this turn; 0 is before the first [default: as it is now]
        #[arg(long, value_name = "N", value_parser = whole)]
        turn: Option<u64>,
    },
    /// Put an agent back to where one of its turns left it
    ///
    /// Its memory and storage are as they were then. Its turns go on counting, its mail stays, and what it has spent is
    /// spent. Going forward again is a rollback to a later turn.
    Rollback {
        /// Which
        name: AgentId,
        /// After this turn; 0 is before the first
        #[arg(long, value_name = "N", required = true, value_parser = whole)]
        turn: u64,
    },
    /// Let an agent take no turn until it is woken; its mail waits
    Quarantine {
        /// Which
        name: AgentId,
        /// Why; recorded
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Let a quarantined agent go on
    Wake {
        /// Which
        name: AgentId,
    },
    /// Let go of what an agent has in memory; its next message wakes it
    Sleep {
        /// Which
        name: AgentId,
    },
    /// Remove an agent; its records stay
    ///
    /// If it has schedules, which go with it, that is asked first.
    Rm {
        /// Which
        name: AgentId,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    SimulateCrash(crash::Args),
}

/// How wide a text that wraps beside a field's name may be.
const WIDTH: usize = 69;

fn address(text: &str) -> Result<u64, String> {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.map_err(|_| format!("`{text}` is not an address; write it like 1048576 or 0x100000"))
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &args.command {
        Command::Create { name, component, manifest, grants, budget, caps } => {
            let (caps, slots) = (caps.caps()?, wants::read(manifest.as_ref())?);
            let (agent, component, grants, budget) = (name.clone(), component, grants.grants(), budget.budget());
            let bytes = Bytes(read_component(component)?);
            create(NewAgent { agent, component: bytes, grants, budget, caps, slots }, component, cli, ui)
        }
        Command::List { all } => list(&open_reader(cli)?, *all, &Lives::of_all(cli)?, ui),
        Command::Show { name, memory, at, len, number, find } => {
            let reader = open_reader(cli)?;
            let row = reader.agent(name)?.ok_or_else(|| lazaret_host::HostError::NoAgent(name.to_string()))?;
            if *memory {
                let number = usize::try_from(*number).unwrap_or(usize::MAX);
                let look = Look { at: *at, len: (*len).min(1 << 20) as usize, number, find: find.as_deref() };
                return show_memory(&reader, &row, &look, ui);
            }
            let slots = wants::look(cli, &reader, &row)?;
            show(&reader, &row, &Lives::of_one(cli, name)?, &slots, ui)
        }
        Command::Send { name, message, input } => {
            let message = input.message(message.as_deref())?;
            let mut door = Door::open(cli, ui)?;
            let (agent, content_type, body) = (name.clone(), message.content_type, message.body);
            let send = Request::Agent(AgentRequest::Send { agent, content_type, body });
            let taken = door.take_turn(send, |agent| agent == name)?;
            turn::show(ui, &taken);
            for delivered in door.deliver()? {
                turn::notices(ui, &delivered);
                ui.note(Tone::Quiet, &turn::summary(&delivered));
            }
            Ok(turn::code(&taken.record.ending))
        }
        Command::Settle { name, failed: _, note } => {
            let settle = AgentRequest::Settle { agent: name.clone(), note: note.clone() };
            let Reply::Recovered(recovered) = Door::open(cli, ui)?.ask(Request::Agent(settle))? else {
                return Err(unexpected());
            };
            super::report_recovery(ui, *recovered);
            ui.json(&json!({ "settled": name }));
            ui.line(&format!("{} {name}", ui.paint(Tone::Good, "settled")));
            Ok(Code::Done)
        }
        Command::Fork { source, new, turn } => past::fork(source, new, *turn, cli, ui),
        Command::Rollback { name, turn } => past::rollback(name, *turn, cli, ui),
        Command::Quarantine { name, reason } => past::quarantine(name, reason, cli, ui),
        Command::Wake { name } => past::wake(name, cli, ui),
        Command::Sleep { name } => past::sleep(name, cli, ui),
        Command::Rm { name, yes } => {
            if !*yes && !schedule::may_go(name, cli, ui)? {
                ui.json(&json!({ "removed": null }));
                ui.line("nothing was removed");
                return Ok(Code::Failed);
            }
            Door::open(cli, ui)?.ask(Request::Agent(AgentRequest::Remove { agent: name.clone() }))?;
            ui.json(&json!({ "removed": name }));
            ui.line(&format!("{} {name}", ui.paint(Tone::Good, "removed")));
            Ok(Code::Done)
        }
        Command::SimulateCrash(args) => crash::run(args, cli, ui),
    }
}

fn create(new: NewAgent, component: &Path, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let name = new.agent.clone();
    let mut door = Door::open(cli, ui)?;
    ui.progress("inspecting and compiling…");
    let created = door.ask(Request::Agent(AgentRequest::Create(Box::new(new))));
    created.map_err(|why| why.about_component(component))?;
    let row = door.row(&name)?;
    let slots = if row.slots.is_empty() { Vec::new() } else { wants::ask(&mut door, &name)? };
    ui.progress_done();
    ui.json(&with_slots(row_json(&row, Life::New.name()), &slots));
    ui.line(&format!("{} {} ({})", ui.paint(Tone::Good, "created"), row.agent, row.world.name()));
    for slot in &slots {
        let [first, second] = wants::lines(slot, ui);
        ui.line(&format!("{} {first}", ui.paint(Tone::Quiet, "wants slot")));
        ui.line(&format!("  {second}"));
    }
    if slots.iter().any(|slot| slot.bound == Some(false)) {
        ui.aside(Tone::Quiet, "note:", &format!("`lazaret secret bind SECRET --agent {name} …` binds a slot"));
    }
    warn_of_egress(&row.grants, ui);
    Ok(Code::Done)
}

/// The same, with the slots that the agent's author declares, if there are any.
fn with_slots(mut said: serde_json::Value, slots: &[SlotView]) -> serde_json::Value {
    if !slots.is_empty() {
        said["slots"] = json!(slots);
    }
    said
}

fn row_json(row: &AgentRow, state: &str) -> serde_json::Value {
    json!({
        "agent": row.agent, "world": row.world, "state": state, "turn": row.turn, "component": row.component,
        "engine": row.engine, "grants": row.grants, "budget": row.budget, "image": row.image, "unfinished": row.unfinished,
        "streak": row.streak, "egress": row.grants.egress().name(), "labels": row.labels,
    })
}

fn list(reader: &Reader, all: bool, lives: &Lives, ui: &Ui) -> Result<Code, Failure> {
    let mut rows = reader.agents()?;
    rows.retain(|row| all || row.state != AgentState::Removed);
    ui.json(&rows.iter().map(|row| row_json(row, lives.of(row))).collect::<Vec<_>>());
    if rows.is_empty() {
        ui.line("no agents; `lazaret agent create NAME COMPONENT` makes one");
        return Ok(Code::Done);
    }
    ui.line(&ui.paint(
        Tone::Strong,
        &format!("{:<24} {:<20} {:<9} {:>6}  {}", "AGENT", "STATE", "WORLD", "TURNS", "COMPONENT"),
    ));
    for row in &rows {
        let name = cut(row.agent.as_str(), 24);
        let state = lives.of(row);
        let egress = match row.grants.egress() {
            EgressMode::Strict => String::new(),
            mode => ui.paint(Tone::Bad, &format!("  egress {mode}")),
        };
        let (world, component) = (row.world.name(), row.component.short());
        ui.line(&format!("{name:<24} {state:<20} {world:<9} {:>6}  {component}{egress}", row.turn));
    }
    Ok(Code::Done)
}

fn show(reader: &Reader, row: &AgentRow, lives: &Lives, slots: &[SlotView], ui: &Ui) -> Result<Code, Failure> {
    let (life, trouble) = (lives.of(row), lives.trouble(&row.agent));
    let quarantine = match row.state {
        AgentState::Quarantined => lazaret_host::quarantine_of(reader, &row.agent)?,
        _ => None,
    };
    let mut said = with_slots(row_json(row, life), slots);
    if let Some(it) = &quarantine {
        said["quarantine"] = json!({ "by": it.by, "reason": it.reason });
    }
    if let Some(why) = trouble {
        said["trouble"] = json!(why);
    }
    ui.json(&said);
    let field =
        |name: &str, value: &str| ui.line(&format!("{} {value}", ui.paint(Tone::Quiet, &format!("{name:<10}"))));
    field("agent", row.agent.as_str());
    field("state", life);
    if let Some(it) = &quarantine {
        let why = if it.reason.is_empty() { String::new() } else { format!(": {}", it.reason) };
        field("", &crate::text::visible(&format!("by {}{why}", it.by)));
    }
    if let Some(why) = trouble {
        let why = format!("takes no turn: {why}");
        crate::text::wrapped(&crate::text::visible(&why), WIDTH).iter().for_each(|line| {
            field("", &ui.paint(Tone::Bad, line));
        });
    }
    field("world", row.world.name());
    field("turns", &row.turn.to_string());
    field("mailbox", &reader.mailbox_len(&row.agent)?.to_string());
    field("component", &row.component.to_string());
    field("image", &row.image.map_or("none: every turn starts anew".to_owned(), |image| image.to_string()));
    let grants: Vec<_> = row.grants.iter().map(ToString::to_string).collect();
    field("grants", &grants.join(", "));
    for (at, slot) in slots.iter().enumerate() {
        let [first, second] = wants::lines(slot, ui);
        field(if at == 0 { "slots" } else { "" }, &first);
        field("", &second);
    }
    if let Some(warning) = row.grants.egress().warning() {
        field("egress", &ui.paint(Tone::Bad, &format!("{}: {warning}", row.grants.egress())));
    }
    if !row.labels.is_empty() {
        field("labels", &crate::text::visible(&row.labels.iter().cloned().collect::<Vec<_>>().join(", ")));
    }
    let budget = &row.budget;
    field(
        "budget",
        &format!(
            "{} fuel, {} MiB, {} ms, {} effects, {} KiB",
            grouped(budget.fuel),
            budget.memory >> 20,
            grouped(budget.wall_ms),
            grouped(u64::from(budget.effects)),
            grouped(budget.bytes >> 10)
        ),
    );
    if let Some(turn) = row.unfinished {
        field("unfinished", &format!("turn {turn}"));
        for entry in reader.unfinished_entries(&row.agent, turn)? {
            field("", &format!("journal entry {}: {}", entry.seq, super::journal::headline(&entry)));
        }
    }
    Ok(Code::Done)
}

/// Which part of a memory to show.
struct Look<'a> {
    at: Option<u64>,
    len: usize,
    number: usize,
    find: Option<&'a str>,
}

/// An agent's image, every page of it.
pub(crate) fn read_image(reader: &Reader, row: &AgentRow, digest: &Digest) -> Result<(Image, State), Failure> {
    let damaged = |why: String| Failure::Mismatch(format!("the image of `{}` can't be read: {why}", row.agent));
    let bytes = reader.blob(digest).map_err(|why| damaged(why.to_string()))?;
    let image: Image = canonical::decode(&bytes).map_err(|why| damaged(why.to_string()))?;
    let fetch = |digest: &Digest| reader.blob(digest).map_err(|why| why.to_string());
    let state = State::wake(&image, fetch).map_err(|why| damaged(why.to_string()))?;
    Ok((image, state))
}

fn show_memory(reader: &Reader, row: &AgentRow, look: &Look<'_>, ui: &Ui) -> Result<Code, Failure> {
    let digest = row
        .image
        .ok_or_else(|| Failure::Input(format!("agent `{}` is stateless: it has no memory between turns", row.agent)))?;
    let (image, state) = read_image(reader, row, &digest)?;
    if look.at.is_none() && look.find.is_none() {
        return show_layout(row, &image, ui);
    }
    let memory = image.memories.get(look.number).ok_or_else(|| {
        let memories = counted(image.memories.len() as u64, "memory", "memories");
        Failure::Input(format!("agent `{}` has {memories}; the first is number 0", row.agent))
    })?;
    let size = memory.size as usize * WASM_PAGE;
    let start = match (look.at, look.find) {
        (_, Some(text)) => {
            let all = state.read(look.number, 0, size).unwrap_or_default().0;
            let found = all.windows(text.len().max(1)).position(|window| window == text.as_bytes());
            found.ok_or_else(|| Failure::Input(format!("`{text}` is nowhere in memory {}", look.number)))? as u64 & !15
        }
        (at, None) => at.unwrap_or(0),
    };
    if start >= size as u64 {
        let size = grouped(size as u64);
        return Err(Failure::Input(format!(
            "address {start} is past the end of memory {}, which has {size} bytes",
            look.number
        )));
    }
    let bytes = state.read(look.number, start, look.len).unwrap_or_default();
    ui.json(&json!({ "image": digest, "memory": look.number, "at": start, "bytes": bytes }));
    for (row, chunk) in bytes.0.chunks(16).enumerate() {
        let hex: String = chunk.iter().map(|byte| format!("{byte:02x} ")).collect();
        let text: String = chunk.iter().map(|b| if (0x20..0x7f).contains(b) { char::from(*b) } else { '.' }).collect();
        ui.line(&format!("{:08x}  {hex:<48} {text}", start + row as u64 * 16));
    }
    Ok(Code::Done)
}

fn show_layout(row: &AgentRow, image: &Image, ui: &Ui) -> Result<Code, Failure> {
    let globals: usize = image.globals.iter().map(Vec::len).sum();
    ui.json(&json!({ "agent": row.agent, "turn": image.turn, "image": row.image, "layout": image }));
    ui.line(&format!("image of {} after turn {}", row.agent, image.turn));
    for (number, memory) in image.memories.iter().enumerate() {
        let used = memory.nodes.iter().flatten().count();
        let size = grouped(memory.size as u64 * WASM_PAGE as u64);
        ui.line(&format!(
            "memory {number}: {size} bytes, {used} of {} MiB in use",
            (memory.size as usize).div_ceil(16)
        ));
    }
    ui.line(&format!("globals: {globals}"));
    ui.line("look inside with --at ADDRESS or --find TEXT");
    Ok(Code::Done)
}
