//! Logs, on standard error: lines for people on a terminal, JSON elsewhere. Text that came from outside is made visible
//! before it gets here; a token never does.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;

use crate::failure::Failure;

/// How much is logged: error, warn, info, debug or off.
const LEVEL: &str = "LAZARET_LOG";

/// Starts logging.
pub(crate) fn start() -> Result<(), Failure> {
    let text = std::env::var(LEVEL).unwrap_or_default();
    let level = match text.as_str() {
        "" | "info" => LevelFilter::INFO,
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "debug" => LevelFilter::DEBUG,
        _ => {
            let why = format!("{LEVEL} is `{text}`; it can be off, error, warn, info or debug");
            return Err(Failure::Input(why));
        }
    };
    // A line that can't be written is lost: the disk is full, or nobody reads. To complain of it where it can't be written would
    // take down the thread that has something to answer.
    let logs = tracing_subscriber::fmt().log_internal_errors(false);
    let logs = logs.with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let terminal = std::io::stderr().is_terminal();
    // It can be started only once; whoever was first logs.
    let _ = if terminal {
        logs.with_ansi(false).compact().try_init()
    } else {
        logs.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    Ok(())
}
