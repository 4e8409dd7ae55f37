//! `lazaret stop`

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use lazaret_link::{LinkError, Reply, Request};
use serde_json::json;

use super::data_dir;
use crate::cli::Cli;
use crate::door;
use crate::failure::{Code, Failure};
use crate::text::counted;
use crate::ui::{Tone, Ui};

/// How long a keeper may take to end after its time to wait is over.
const GRACE: Duration = Duration::from_secs(5);

/// Stop the keeper: let what is under way end, and take no more
///
/// What has not ended in time is cut off, and taken up where it was when the keeper runs again. `lazaret kill all` stops
/// agents at once, and leaves the keeper running.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to wait for turns that are under way, like `10s`, `2m` or `500ms`
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    within: Duration,
}

/// A time as people write it.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a time; write it like 10s, 2m or 500ms");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let ms = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    let ms = number.checked_mul(ms).filter(|ms| *ms <= 86_400_000).ok_or("at most a day, 24h")?;
    Ok(Duration::from_millis(ms))
}

pub(crate) fn run(args: &Args, cli: &Cli, ui: &Ui) -> Result<Code, Failure> {
    let root = data_dir(cli)?;
    let Some(mut client) = door::keeper_of(&root)? else { return Err(LinkError::Nobody.into()) };
    let within_ms = args.within.as_millis() as u64;
    let Reply::Stopping { under_way } = client.ask(Request::Stop { within_ms })? else {
        return Err(door::unexpected());
    };
    if under_way > 0 {
        ui.note(Tone::Quiet, &format!("waiting for {} to end", counted(under_way, "request", "requests")));
    }
    let begun = Instant::now();
    client.wait_for_end(args.within + GRACE);
    while !is_free(&root) {
        if begun.elapsed() > args.within + GRACE {
            return Err(Failure::Failed("the keeper did not stop in time; its process has to be ended by hand".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    ui.json(&json!({ "stopped": true, "under_way": under_way }));
    ui.line(&format!("{} the keeper", ui.paint(Tone::Good, "stopped")));
    Ok(Code::Done)
}

/// Whether nobody has the data root open.
fn is_free(root: &Path) -> bool {
    File::open(root.join("lazaret.lock")).is_ok_and(|lock| lock.try_lock_shared().is_ok())
}
