//! What this machine and data root give the keeper to stand on. Only what was looked at just now is said.

use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use lazaret_guest::native::heap::{Creator, Scan};
use lazaret_host::now;
use serde::Serialize;
use utoipa::ToSchema;

use super::Answer;
use crate::keeper::http::Api;
use crate::keeper::http::problem::Always;

/// One thing that was looked at.
#[derive(Serialize, ToSchema)]
pub(crate) struct Finding {
    name: &'static str,
    /// Whether it is as it should be.
    ok: bool,
    /// What was found.
    found: String,
}

/// What was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct Findings {
    /// Whether all of it is as it should be.
    ok: bool,
    findings: Vec<Finding>,
}

/// 2026: whatever shows less was never set.
const SET: u64 = 1_767_225_600_000;

/// Files and folders of the data root, and the most that their modes may allow.
const CLOSED: &[&str] = &["", "run", "run/http", "ipc.token", "host.key", "approver.key"];

fn modes(root: &Path) -> Finding {
    let me = rustix::process::geteuid().as_raw();
    let mut open = Vec::new();
    for name in CLOSED {
        let Ok(about) = std::fs::symlink_metadata(root.join(name)) else { continue };
        if about.mode() & 0o077 != 0 || about.uid() != me {
            let name = if name.is_empty() { "the data root" } else { name };
            open.push(format!("{name} is {:o} of user {}", about.mode() & 0o7777, about.uid()));
        }
    }
    let found = if open.is_empty() { "closed to other users".to_owned() } else { open.join(", ") };
    Finding { name: "data-root-modes", ok: open.is_empty(), found }
}

/// Whether what is flushed is, and how long that takes.
fn flush(root: &Path) -> Finding {
    let path = root.join(format!("run/flush-{}", std::process::id()));
    let begun = Instant::now();
    let options = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
    let done = options.and_then(|mut file| {
        std::io::Write::write_all(&mut file, &[0; 4096])?;
        file.sync_all()
    });
    let micros = begun.elapsed().as_micros();
    let _ = std::fs::remove_file(&path);
    let found = match &done {
        Ok(()) => format!("4 KiB written and flushed in {micros} µs"),
        Err(why) => why.to_string(),
    };
    Finding { name: "fsync", ok: done.is_ok(), found }
}

fn room(root: &Path) -> Finding {
    match rustix::fs::statvfs(root) {
        Ok(about) => {
            let free = about.f_bavail.saturating_mul(about.f_frsize) >> 20;
            Finding { name: "disk", ok: free >= 64, found: format!("{free} MiB free") }
        }
        Err(why) => Finding { name: "disk", ok: false, found: why.to_string() },
    }
}

fn scan() -> Finding {
    let (ok, found) = match Creator::new().scan() {
        Scan::Kernel => (true, "the kernel names the pages that a turn changed"),
        Scan::Everything => (false, "the kernel can't name changed pages (Linux 6.7 can): every page is compared"),
    };
    Finding { name: "pagemap-scan", ok, found: found.to_owned() }
}

fn clock() -> Finding {
    let at = now();
    let (set, boot) = (at.moment.wall_ms >= SET, at.boot != "unknown");
    let found = match (set, boot) {
        (true, true) => "set, and this boot has a name".to_owned(),
        (false, _) => format!("it says {} ms since 1970, which is too early", at.moment.wall_ms),
        (true, false) => "set, but this boot has no name: approvals can't tell boots apart".to_owned(),
    };
    Finding { name: "clock", ok: set && boot, found }
}

/// Says what this host can enforce, and whether the data root is as it should be.
#[utoipa::path(
    get, path = "/v1/doctor", operation_id = "doctor", tag = "operator",
    responses((status = 200, description = "What was found", body = Findings), Always)
)]
pub(crate) async fn doctor(State(api): State<Api>) -> Answer<Findings> {
    let root = api.root().to_owned();
    let look = move |host: &lazaret_host::Host| {
        let engine = format!("wasmtime, configuration {}", host.engine().digest());
        let engine = Finding { name: "engine", ok: true, found: engine };
        let journal = match host.store().journal_len() {
            Ok(len) => Finding { name: "journal", ok: true, found: format!("{len} entries") },
            Err(why) => Finding { name: "journal", ok: false, found: why.to_string() },
        };
        let findings = vec![engine, scan(), flush(&root), room(&root), modes(&root), clock(), journal];
        Ok(Findings { ok: findings.iter().all(|finding| finding.ok), findings })
    };
    api.read(look).await.map(Json)
}
