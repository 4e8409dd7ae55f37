//! `lazaret verify`

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazaret_gate::bundle::Descent;
use lazaret_gate::limits::MAX_BUNDLE;
use lazaret_guest::Engine;
use lazaret_host::HostError;
use serde_json::json;

use super::{read_input, replay};
use crate::failure::{Code, Failure};
use crate::text::{counted, grouped};
use crate::ui::{Tone, Ui};

/// Check a bundle: signatures, proofs, digests, and every turn by running it again
///
/// Needs no data root, no network and no trust in who made the bundle. What it can't tell is whose key it is: compare the
/// key it prints with the one you expect, or give it with `--key`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The bundle; `-` is standard input
    bundle: PathBuf,

    /// The key that must have signed it
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<Code, Failure> {
    let bytes = read_input(&args.bundle, MAX_BUNDLE)?;
    let engine = Engine::new().map_err(HostError::from)?;
    let mut done = 0_u64;
    let report = lazaret_host::verify_bundle(&engine, &bytes, |seq, record, verdict| {
        done += 1;
        if *verdict == lazaret_host::Verdict::Match {
            ui.progress(&format!("{} turns re-executed", grouped(done)));
        } else {
            ui.progress_done();
            replay::show_verdict(ui, seq, record, verdict);
        }
    })?;
    ui.progress_done();
    let checked = &report.checked;
    if let Some(key) = &args.key
        && *key != checked.key
    {
        return Err(Failure::Mismatch(format!("the bundle is signed by `{}`, not by `{key}`", checked.key)));
    }
    let verdicts: Vec<_> = report.verdicts.iter().map(|(_, _, _, verdict)| verdict.clone()).collect();
    let code = replay::code(verdicts.iter());
    let rows = report
        .verdicts
        .iter()
        .map(|(seq, agent, turn, verdict)| json!({ "entry": seq, "agent": agent, "turn": turn, "result": verdict }));
    ui.json(&json!({
        "key": checked.key, "journal_size": checked.checkpoint.size, "root": STANDARD.encode(checked.checkpoint.root),
        "entries": checked.entries.len(), "older_checkpoints": checked.older, "blobs": checked.blobs.len(),
        "turns": rows.collect::<Vec<_>>(), "match": code == Code::Done,
        "descents": checked.descents.iter().map(|it| json!({
            "entry": it.seq, "agent": it.agent, "from": it.from, "turn": it.turn, "shown": it.shown,
        })).collect::<Vec<_>>(),
    }));
    let ok = ui.paint(Tone::Good, "ok");
    ui.line(&format!("{ok}  signature   {}", checked.key));
    let entries = counted(checked.entries.len() as u64, "entry", "entries");
    ui.line(&format!("{ok}  inclusion   {entries} of a journal of {}", grouped(checked.checkpoint.size)));
    ui.line(&format!("{ok}  consistency {}", counted(checked.older as u64, "older checkpoint", "older checkpoints")));
    ui.line(&format!("{ok}  digests     {} components, images and pages", grouped(checked.blobs.len() as u64)));
    for descent in &checked.descents {
        let shown = if descent.shown { ok.clone() } else { ui.paint(Tone::Odd, "??") };
        ui.line(&format!("{shown}  lineage     {}", lineage(descent)));
    }
    let run = if code == Code::Done { ok } else { ui.paint(Tone::Bad, "no") };
    ui.line(&format!("{run}  re-executed {}", counted(verdicts.len() as u64, "turn", "turns")));
    replay::tally(ui, &verdicts);
    Ok(code)
}

/// Where a state came from, in words.
fn lineage(descent: &Descent) -> String {
    let Descent { agent, from, turn, shown, .. } = descent;
    let point = if *turn == 0 { "before its first turn".to_owned() } else { format!("after turn {turn}") };
    let what = if agent == from {
        format!("{agent} rolled back to what it was {point}")
    } else {
        format!("{agent} forked from {from} as it was {point}")
    };
    let entry = if *turn == 0 { format!("how `{from}` began") } else { format!("turn {turn} of `{from}`") };
    if *shown { what } else { format!("{what}: not shown, because {entry} is not in the bundle") }
}
