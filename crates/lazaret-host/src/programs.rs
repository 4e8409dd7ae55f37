//! Components: admitted once, compiled once, kept by digest.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use lazaret_gate::record::{Body, ComponentAdmitted};
use lazaret_gate::{AgentId, Blob, Digest};
use lazaret_guest::{Admitted, Program};
use lazaret_store::{Batch, Change};

use crate::error::HostError;
use crate::host::{Host, lock};
use crate::limits::WARM_PROGRAMS;

/// What the key for sealing compiled code is derived for.
const CODE_KEY: &str = "lazaret 2026-11 compiled code";

impl Host {
    /// Admits a component and remembers it. Admitting the same bytes again changes nothing.
    pub fn admit(&self, bytes: &[u8]) -> Result<Program, HostError> {
        let digest = Digest::of(bytes);
        if self.store.has_blob(&digest)? {
            return self.program(&digest);
        }
        let Admitted { program, .. } = self.engine.admit(bytes)?;
        let entry = ComponentAdmitted {
            component: digest,
            size: bytes.len() as u64,
            world: program.lives(),
            engine: self.engine.digest(),
        };
        let changes = vec![Change::Blob(Blob::of(bytes))];
        self.store.commit(Batch { entries: vec![Body::ComponentAdmitted(entry)], changes })?;
        self.keep_compiled(&digest, &program);
        self.remember(&digest, &program);
        Ok(program)
    }

    /// An admitted component, ready to run.
    pub fn program(&self, digest: &Digest) -> Result<Program, HostError> {
        if let Some(program) = lock(&self.programs).get(digest) {
            return Ok(program.clone());
        }
        let key = self.store.secret(CODE_KEY);
        let program =
            match read_file(&self.compiled_path(digest)).and_then(|code| self.engine.unseal(&code, &key, digest)) {
                Some(program) => program,
                None => {
                    let program = self.engine.admit(&self.store.blob(digest)?)?.program;
                    self.keep_compiled(digest, &program);
                    program
                }
            };
        self.remember(digest, &program);
        Ok(program)
    }

    fn remember(&self, digest: &Digest, program: &Program) {
        let mut programs = lock(&self.programs);
        if programs.len() >= WARM_PROGRAMS {
            programs.clear();
        }
        programs.insert(*digest, program.clone());
    }

    fn compiled_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("compiled").join(format!("{digest}.{}", self.engine.digest().short()))
    }

    /// Keeps compiled code for the next process. It is a cache: if it can't be written, the next process compiles anew.
    fn keep_compiled(&self, digest: &Digest, program: &Program) {
        let path = self.compiled_path(digest);
        if let Ok(sealed) = program.seal(&self.store.secret(CODE_KEY)) {
            let _ = write_file(&path, &sealed);
        }
    }

    /// Whether an agent's component can be run by this engine.
    pub(crate) fn check_engine(&self, agent: &AgentId, engine: &Digest) -> Result<(), HostError> {
        let is = self.engine.digest();
        if *engine == is { Ok(()) } else { Err(HostError::OtherEngine { agent: agent.clone(), was: *engine, is }) }
    }
}

#[expect(clippy::disallowed_methods, reason = "compiled code is a cache in the data root, read and written only here")]
fn read_file(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

/// Whole or not at all: a half-written file would only cost a compilation, but it would cost it each time.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "compiled code is a cache in the data root, read and written only here"
)]
fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let mut file = std::fs::File::create(&part)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}
