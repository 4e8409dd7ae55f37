//! `lazaret journal`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use lazaret_gate::custody::{VaultChange, VaultChanged};
use lazaret_gate::entry::Entry;
use lazaret_gate::grant::EgressMode;
use lazaret_gate::ledger;
use lazaret_gate::record::{Body, Ending};
use lazaret_gate::trust::{TrustChange, TrustEvent};
use lazaret_gate::{Digest, Grants, Labels, labels, merkle};
use lazaret_link::{JournalRequest, Reply, Request};
use lazaret_store::{AgentState, Reader};
use serde_json::json;

use super::agent::read_image;
use super::open_reader;
use super::terms::whole;
use crate::cli::Cli;
use crate::door::{Door, unexpected};
use crate::failure::{Code, Failure};
use crate::text::{counted, cut, date, grouped, visible};
use crate::ui::{Tone, Ui};

/// Read and check the journal
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the newest entries
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value = "20", value_parser = whole)]
        lines: u64,
    },
    /// Show one entry, whole
    Show {
        /// Its place, from 0
        #[arg(value_parser = whole)]
        entry: u64,
    },
    /// Check the journal from its first byte, its signatures, and all else in the data root
    Verify,
    /// Prove that an entry is in the signed journal
    Proof {
        /// Its place, from 0
        #[arg(value_parser = whole)]
        entry: u64,
    },
    /// Sign and keep a checkpoint, and print it
    Checkpoint,
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &args.command {
        Command::Tail { lines } => tail(&open_reader(cli)?, *lines, ui),
        Command::Show { entry } => show(&open_reader(cli)?, *entry, ui),
        Command::Verify => verify(&open_reader(cli)?, ui),
        Command::Proof { entry } => proof(&open_reader(cli)?, *entry, ui),
        Command::Checkpoint => {
            let reply = Door::open(cli, ui)?.ask(Request::Journal(JournalRequest::Checkpoint))?;
            let Reply::Checkpoint(checkpoint) = reply else { return Err(unexpected()) };
            ui.json(&checkpoint);
            ui.line(checkpoint.note.trim_end());
            Ok(Code::Done)
        }
    }
}

/// An entry in a few words.
pub(crate) fn headline(entry: &Entry) -> String {
    let text = match &entry.body {
        Body::Genesis(genesis) => format!("genesis {}", genesis.key),
        Body::ComponentAdmitted(body) => {
            format!(
                "component {} admitted, {}, {} bytes",
                body.component.short(),
                body.world.name(),
                grouped(body.size)
            )
        }
        Body::AgentCreated(body) => {
            format!("agent {} created from {}{}", body.agent, body.component.short(), unenforced(&body.grants))
        }
        Body::AgentForked(body) => {
            let grants = unenforced(&body.grants);
            format!("agent {} forked from {} after turn {}{grants}", body.agent, body.from, body.turn)
        }
        Body::AgentRolledBack(body) => format!("agent {} rolled back to turn {} by {}", body.agent, body.to, body.by),
        Body::AgentQuarantined(body) => match body.reason.as_str() {
            "" => format!("agent {} quarantined by {}", body.agent, body.by),
            reason => format!("agent {} quarantined by {}: {reason}", body.agent, body.by),
        },
        Body::AgentWoken(body) => format!("agent {} woken by {}", body.agent, body.by),
        Body::AgentRemoved(body) => format!("agent {} removed", body.agent),
        Body::RulebookInForce(body) => {
            format!("rulebook {} in force: {}", body.rulebook.short(), body.files.join(", "))
        }
        Body::SwitchChanged(event) => {
            let change = if event.change == ledger::Change::Thrown { "thrown" } else { "lifted" };
            format!("kill switch `{}` {change} by {}", event.switch.name(), event.by)
        }
        Body::TrustChanged(event) => trust_line(event),
        Body::CapsSet(body) => format!("budget of {} set", body.agent),
        Body::VaultChanged(body) => vault_line(body),
        Body::ScheduleAdded(body) => format!("schedule {} of {} added by {}", body.schedule, body.agent, body.by),
        Body::ScheduleRemoved(body) => format!("schedule {} of {} removed by {}", body.schedule, body.agent, body.by),
        Body::ScheduleFired(body) => {
            format!("schedule {} of {} fired for {} UTC", body.schedule, body.agent, date(body.due))
        }
        Body::EffectOpened(body) => {
            format!("{} turn {} effect {} opened: {}", body.agent, body.turn, body.number, body.effect.summary())
        }
        Body::EffectClosed(body) => format!("{} turn {} effect {} closed", body.agent, body.turn, body.number),
        Body::InDoubt(body) => format!("{} turn {} effect {} in doubt", body.agent, body.turn, body.number),
        Body::Settled(body) => format!("{} turn {} effect {} settled", body.agent, body.turn, body.number),
        Body::Turn(turn) => {
            let ending = match &turn.ending {
                Ending::Replied(_) => "replied".to_owned(),
                Ending::Failed(_) => "failed".to_owned(),
                Ending::Stopped(stop) => format!("stopped ({})", stop.cause.name()),
            };
            let refused = turn.tape.iter().filter(|entry| entry.outcome.verdict() == "refusal").count();
            let effects = counted(turn.tape.len() as u64, "effect", "effects");
            format!(
                "{} turn {} {ending}, {effects}, {refused} refused, {} fuel{}",
                turn.agent,
                turn.turn,
                grouped(turn.fuel),
                unenforced(&turn.grants)
            )
        }
    };
    visible(&text)
}

/// What is said of a record whose agent's requests weren't checked.
fn unenforced(grants: &Grants) -> String {
    match grants.egress() {
        EgressMode::Strict => String::new(),
        mode => format!(", egress {mode}: not enforced"),
    }
}

fn vault_line(body: &VaultChanged) -> String {
    let VaultChanged { what, name, holder, slot, generation, by, .. } = body;
    let secret = name.as_deref().map_or("vault".to_owned(), |name| format!("secret {name}"));
    let place = match (slot, holder) {
        (Some(slot), Some(holder)) => {
            let way = if *what == VaultChange::Unbind { "from" } else { "to" };
            format!(" {way} slot {slot} of {holder}")
        }
        _ => String::new(),
    };
    format!("{secret} {}{place} by {by}, generation {generation}", what.name())
}

fn trust_line(event: &TrustEvent) -> String {
    let TrustEvent { agent, score, by, turn, .. } = event;
    match event.change {
        TrustChange::Set => format!("base trust of {agent} set to {score} by {by}"),
        TrustChange::Revoked => format!("{agent} revoked by {by}"),
        TrustChange::Restored => format!("{agent} restored by {by}"),
        TrustChange::Mismatch => format!("turn {} of {agent} found not to be as recorded, by {by}", turn.unwrap_or(0)),
    }
}

fn tail(reader: &Reader, lines: u64, ui: &Ui) -> Result<Code, Failure> {
    let len = reader.journal_len()?;
    let mut rows = Vec::new();
    for seq in len.saturating_sub(lines)..len {
        let entry = reader.entry(seq)?;
        ui.line(&format!("{seq:>6}  {}  {}", ui.paint(Tone::Quiet, &date(entry.time)), cut(&headline(&entry), 160)));
        rows.push(json!({ "seq": seq, "time": entry.time, "kind": entry.body.kind(), "text": headline(&entry) }));
    }
    ui.json(&rows);
    Ok(Code::Done)
}

fn show(reader: &Reader, seq: u64, ui: &Ui) -> Result<Code, Failure> {
    let bytes = reader.entry_bytes(seq)?;
    let entry = reader.entry(seq)?;
    ui.json(&json!({ "hash": Digest::of(&bytes), "entry": entry }));
    if !ui.is_json() {
        ui.line(&format!("entry {seq} · {} · {}", date(entry.time), entry.body.kind()));
        ui.line(&format!("hash  {}", Digest::of(&bytes)));
        ui.line(&format!("prev  {}", entry.prev));
        let grants = match &entry.body {
            Body::AgentCreated(body) => Some(&body.grants),
            Body::AgentForked(body) => Some(&body.grants),
            Body::Turn(turn) => Some(&turn.grants),
            _ => None,
        };
        if let Some(warning) = grants.and_then(|grants| grants.egress().warning()) {
            ui.line(&ui.paint(Tone::Bad, warning));
        }
        if let Body::Turn(turn) = &entry.body {
            // Of nothing before: then what it has after is what this turn brought, if it was kept.
            let seen: Vec<_> = labels::after(Some(&Labels::new()), turn).into_iter().collect();
            if !seen.is_empty() {
                ui.line(&visible(&format!("saw   {}", seen.join(", "))));
            }
        }
        let text = serde_json::to_string_pretty(&entry.body).map_err(|why| Failure::Failed(why.to_string()))?;
        ui.line(&crate::text::visible_lines(&text));
    }
    Ok(Code::Done)
}

/// A journal that is what was signed.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = JournalChecked)]
pub(crate) struct Checked {
    entries: u64,
    checkpoints: u64,
    agents: u64,
    /// The tree's root, in base64.
    root: String,
    /// The key that signs checkpoints, as a C2SP verifier key.
    key: String,
}

/// Checks the journal from its first byte, its signatures, and all else in the data root.
pub(crate) fn checked(reader: &Reader, progress: impl FnMut(u64)) -> Result<Checked, Failure> {
    let verified = reader.verify_journal(progress);
    let verified = verified.map_err(|why| Failure::Mismatch(format!("the journal is not what was signed: {why}")))?;
    reader.verify_state()?;
    let (checkpoint, _) = reader.head()?;
    let rows = reader.agents()?;
    for row in rows.iter().filter(|row| row.state != AgentState::Removed) {
        row.image.map(|image| read_image(reader, row, &image)).transpose()?;
        if !lazaret_host::is_told(reader, row)? {
            return Err(super::trust::untold(&row.agent));
        }
    }
    Ok(Checked {
        entries: verified.entries,
        checkpoints: verified.checkpoints,
        agents: rows.len() as u64,
        root: STANDARD.encode(checkpoint.root),
        key: reader.verifier().to_text(),
    })
}

fn verify(reader: &Reader, ui: &Ui) -> Result<Code, Failure> {
    let found = checked(reader, |done| {
        if done.is_multiple_of(10_000) {
            ui.progress(&format!("{} entries checked", grouped(done)));
        }
    });
    ui.progress_done();
    let found = found?;
    ui.json(&found);
    let ok = ui.paint(Tone::Good, "OK");
    ui.line(&format!("{ok} {}, chained and signed", counted(found.entries, "entry", "entries")));
    ui.line(&format!("{ok} {}, stored as it was written", counted(found.agents, "agent", "agents")));
    ui.line(&format!("root  {}", found.root));
    ui.line(&format!("key   {}", found.key));
    Ok(Code::Done)
}

/// That an entry is in the signed journal.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = InclusionProof)]
pub(crate) struct Proven {
    entry: u64,
    /// The entry's leaf hash, in base64.
    leaf: String,
    /// The hashes beside the way to the root, in base64.
    inclusion: Vec<String>,
    /// The signed root.
    checkpoint: String,
}

/// Proves that an entry is in the signed journal.
pub(crate) fn proven(reader: &Reader, seq: u64) -> Result<Proven, Failure> {
    let bytes = reader.entry_bytes(seq)?;
    let (checkpoint, note) = reader.head()?;
    let size = usize::try_from(checkpoint.size).unwrap_or(usize::MAX);
    let steps = reader.prover()?.inclusion(usize::try_from(seq).unwrap_or(usize::MAX), size);
    let steps =
        steps.ok_or_else(|| Failure::Input(format!("the journal has {size} entries; there is no entry {seq}")))?;
    let leaf = merkle::leaf(&bytes);
    if !merkle::verify_inclusion(&leaf, seq, checkpoint.size, &steps, &checkpoint.root) {
        return Err(Failure::Mismatch(format!("entry {seq} is not under the signed root: the journal was changed")));
    }
    let inclusion = steps.iter().map(|step| STANDARD.encode(step)).collect();
    Ok(Proven { entry: seq, leaf: STANDARD.encode(leaf), inclusion, checkpoint: note })
}

fn proof(reader: &Reader, seq: u64, ui: &Ui) -> Result<Code, Failure> {
    let proven = proven(reader, seq)?;
    ui.json(&proven);
    ui.line(&format!("leaf  {}", proven.leaf));
    proven.inclusion.iter().for_each(|step| ui.line(&format!("step  {step}")));
    ui.line("");
    ui.line(proven.checkpoint.trim_end());
    Ok(Code::Done)
}
