//! `lazaret vault`

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lazaret_host::{HostError, Locked, vault_status};
use lazaret_link::{Hidden, KeySource, Reply, Request, VaultRequest, VaultView};
use lazaret_store::Store;
use serde_json::json;

use super::{data_dir, operator};
use crate::cli::Cli;
use crate::door::{Door, keeper_of, unexpected};
use crate::failure::{Code, Failure};
use crate::prompt::{NEW_PASSPHRASE_FILE, PASSPHRASE_FILE, new_passphrase, passphrase};
use crate::text::counted;
use crate::ui::{Tone, Ui};

/// Keep secrets sealed: make, lock and unlock the vault
///
/// Secrets lie in one sealed file in the data root. Its master key is derived from a passphrase, or lies in a file or in the
/// system's keyring. A vault with a key file or a keyring unlocks by itself when a secret is needed; one with a passphrase
/// is unlocked by `lazaret vault unlock` in the keeper, or reads the file that `LAZARET_VAULT_PASSPHRASE_FILE` names.
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lazaret vault init --passphrase
  lazaret vault init --key-file ~/keys/lazaret.key
  lazaret vault unlock
  lazaret vault rotate-master --keyring";

#[derive(Subcommand)]
enum Command {
    /// Make a vault; where its key comes from has to be said
    Init(SourceArgs),
    /// Show how the vault stands, without unlocking it
    Status,
    /// Let the keeper forget the keys until they are given again
    Lock,
    /// Give the keeper the keys
    Unlock,
    /// Give the vault another master key; values stay as they are sealed
    RotateMaster(SourceArgs),
}

/// Where a new master key comes from.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct SourceArgs {
    /// Derive it from a passphrase of 12 characters or more, which is asked for on the terminal
    #[arg(long)]
    passphrase: bool,
    /// Keep it in this file, which is made if there is none; best outside of the data root
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// Keep it in the system's keyring
    #[arg(long)]
    keyring: bool,
}

impl SourceArgs {
    /// What a keeper is told, which may have another working directory.
    fn source(&self, variable: &'static str) -> Result<KeySource, Failure> {
        let Some(path) = &self.key_file else {
            return Ok(if self.passphrase {
                KeySource::Passphrase(new_passphrase(variable)?)
            } else {
                KeySource::Keyring
            });
        };
        let fail = |why| Failure::File { what: "can't find", path: path.display().to_string(), why };
        let path = std::path::absolute(path).map_err(fail)?;
        let text = path.to_str().ok_or_else(|| Failure::Input(format!("`{}` is not UTF-8", path.display())))?;
        Ok(KeySource::KeyFile(text.to_owned()))
    }
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    match &args.command {
        Command::Init(from) => {
            let source = from.source(PASSPHRASE_FILE)?;
            let init = VaultRequest::Init { source, by: operator() };
            let view = asked(&mut Door::open(cli, ui)?, init)?;
            ui.json(&view);
            ui.line(&format!("{} a vault that {} opens", ui.paint(Tone::Good, "made"), key_of(&view)));
            warn_of_key(from, &data_dir(cli)?, ui);
            Ok(Code::Done)
        }
        Command::Status => status(cli, ui),
        Command::Lock => lock(cli, ui),
        Command::Unlock => unlock(cli, ui),
        Command::RotateMaster(from) => {
            let mut door = unlocked(cli, ui)?;
            let source = from.source(NEW_PASSPHRASE_FILE)?;
            let view = asked(&mut door, VaultRequest::RotateMaster { source, by: operator() })?;
            ui.json(&view);
            ui.line(&format!(
                "{} the master key: now {} opens the vault",
                ui.paint(Tone::Good, "rotated"),
                key_of(&view)
            ));
            warn_of_key(from, &data_dir(cli)?, ui);
            let note = "older copies of the vault's file still open with the old key: destroy one or the other";
            ui.aside(Tone::Quiet, "note:", note);
            Ok(Code::Done)
        }
    }
}

/// What somebody should know about the key that they chose.
fn warn_of_key(from: &SourceArgs, root: &Path, ui: &Ui) {
    if from.passphrase {
        ui.aside(Tone::Quiet, "note:", "nobody can open the vault without the passphrase: keep it where it isn't lost");
    }
    let inside = |path: &PathBuf| path.canonicalize().ok()?.starts_with(root.canonicalize().ok()?).then_some(());
    if from.key_file.as_ref().and_then(inside).is_some() {
        let note = "the key file lies in the data root, so whoever copies that has both; `lazaret vault rotate-master` \
                    moves the key elsewhere";
        ui.aside(Tone::Odd, "note:", note);
    }
}

fn asked(door: &mut Door, request: VaultRequest) -> Result<VaultView, Failure> {
    match door.ask(Request::Vault(request))? {
        Reply::Vault(view) => Ok(*view),
        _ => Err(unexpected()),
    }
}

/// Somebody who answers what needs the vault's keys. A keeper has them or says that it is locked; without one, this process
/// gets them for itself.
pub(crate) fn unlocked(cli: &Cli, ui: &Ui) -> Result<Door, Failure> {
    there_is(cli)?;
    let mut door = Door::open(cli, ui)?;
    if matches!(door, Door::Here(_)) && asked(&mut door, VaultRequest::Status)?.kind == "passphrase" {
        asked(&mut door, VaultRequest::Unlock { passphrase: Some(passphrase()?) })?;
    }
    Ok(door)
}

/// A data root isn't made by looking into it.
fn there_is(cli: &Cli) -> Result<PathBuf, Failure> {
    let root = data_dir(cli)?;
    if root.exists() { Ok(root) } else { Err(HostError::Locked(Locked::Missing).into()) }
}

fn lock(cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let root = there_is(cli)?;
    let Some(mut keeper) = keeper_of(&root)? else {
        ui.json(&json!({ "locked": true, "keeper": false, "had_keys": false }));
        ui.line("no keeper runs on this data root, so nobody holds the vault's keys");
        return Ok(Code::Done);
    };
    let Reply::Locked(had_keys) = keeper.ask(Request::Vault(VaultRequest::Lock))? else { return Err(unexpected()) };
    ui.json(&json!({ "locked": true, "keeper": true, "had_keys": had_keys }));
    let word = ui.paint(Tone::Good, "locked");
    ui.line(&match had_keys {
        true => format!("{word}: the keeper has forgotten the keys"),
        false => format!("{word}: the keeper had no keys, and gets none by itself"),
    });
    Ok(Code::Done)
}

fn unlock(cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    there_is(cli)?;
    let mut door = Door::open(cli, ui)?;
    let kept = matches!(door, Door::There { .. });
    let kind = asked(&mut door, VaultRequest::Status)?.kind;
    let passphrase: Option<Hidden> = if kind == "passphrase" { Some(passphrase()?) } else { None };
    let view = asked(&mut door, VaultRequest::Unlock { passphrase })?;
    ui.json(&json!({ "keeper": kept, "vault": view }));
    if kept {
        ui.line(&format!(
            "{}: the keeper has the keys until it ends or is told to lock",
            ui.paint(Tone::Good, "unlocked")
        ));
        return Ok(Code::Done);
    }
    ui.line(&format!("{} is right: {} opens the vault", ui.paint(Tone::Good, "the key"), key_of(&view)));
    let note = "no keeper runs on this data root, so nobody holds it; `lazaret serve` starts one";
    ui.aside(Tone::Odd, "note:", note);
    Ok(Code::Done)
}

fn status(cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let root = there_is(cli)?;
    let (view, kept) = match keeper_of(&root)? {
        Some(mut keeper) => match keeper.ask(Request::Vault(VaultRequest::Status))? {
            Reply::Vault(view) => (*view, true),
            _ => return Err(unexpected()),
        },
        None => (vault_status(&root, &Store::open_read_only(&root)?)?, false),
    };
    ui.json(&json!({ "keeper": kept, "vault": view }));
    let field = |name: &str, value: &str| ui.line(&format!("{} {value}", ui.paint(Tone::Quiet, &format!("{name:<8}"))));
    field("vault", &format!("{}, generation {}", view.id, view.generation));
    field("key", &format!("{}, number {}", key_of(&view), view.epoch));
    let secrets = counted(view.secrets, "secret", "secrets");
    field("holds", &format!("{secrets} in {}", counted(view.bindings, "slot", "slots")));
    let by_itself = view.kind != "passphrase";
    field(
        "state",
        match (kept, view.unlocked) {
            (true, true) => "unlocked: the keeper has the keys",
            (true, false) if by_itself => {
                "locked; the keeper unlocks it when a secret is needed, unless it was told to lock"
            }
            (true, false) => "locked; `lazaret vault unlock` gives the keeper the keys",
            (false, _) => "locked; no keeper runs",
        },
    );
    Ok(Code::Done)
}

fn key_of(view: &VaultView) -> String {
    match (&view.key_file, view.kind.as_str()) {
        (Some(path), _) => format!("the key file `{}`", crate::text::visible(path)),
        (None, "keyring") => "a key in the system's keyring".to_owned(),
        (None, _) => "a passphrase".to_owned(),
    }
}
