//! `lazaret init`

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use crate::failure::{Code, Failure};
use crate::ui::{Tone, Ui};

/// Start a new agent from a template
///
/// Writes a small agent that builds and runs, with `wit/host.wit`: everything an agent can ask for.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory to make; it must not exist
    #[arg(default_value = "agent")]
    dir: PathBuf,

    /// What to write it in
    #[arg(long, value_enum)]
    lang: Lang,
}

#[derive(Clone, Copy, ValueEnum)]
enum Lang {
    Rust,
    Js,
    Python,
    C,
}

/// A file of a template: where it goes, what it says.
type File = (&'static str, &'static str);

macro_rules! template {
    ($lang:literal: $($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../guests/templates/", $lang, "/", $file)))),*]
    };
}

const RUST: &[File] = template!("rust": "README.md", "Cargo.toml", ".cargo/config.toml", ".gitignore", "src/lib.rs");
const JS: &[File] = template!("js": "README.md", "package.json", ".gitignore", "agent.js");
const PYTHON: &[File] = template!("python": "README.md", "requirements.txt", ".gitignore", "app.py");
const C: &[File] = template!("c": "README.md", "build.sh", ".gitignore", "agent.c");

/// C has no component tool of its own, so it brings ours along.
const COMPONENTIZE: &[File] = &[
    ("componentize/Cargo.toml", include_str!("../../../../guests/componentize/Cargo.toml")),
    ("componentize/Cargo.lock", include_str!("../../../../guests/componentize/Cargo.lock")),
    ("componentize/src/main.rs", include_str!("../../../../guests/componentize/src/main.rs")),
];

const WIT: File = ("wit/host.wit", include_str!("../../../../wit/host.wit"));

impl Lang {
    fn files(self) -> impl Iterator<Item = &'static File> {
        let (template, tools): (&[File], &[File]) = match self {
            Self::Rust => (RUST, &[]),
            Self::Js => (JS, &[]),
            Self::Python => (PYTHON, &[]),
            Self::C => (C, COMPONENTIZE),
        };
        template.iter().chain(tools).chain(std::iter::once(&WIT))
    }
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<Code, Failure> {
    if args.dir.exists() {
        return Err(Failure::Input(format!("`{}` exists already; name a directory that doesn't", args.dir.display())));
    }
    let mut written = Vec::new();
    for (name, text) in args.lang.files() {
        let path = args.dir.join(name);
        write(&path, text).map_err(|why| Failure::File {
            what: "can't write",
            path: path.display().to_string(),
            why,
        })?;
        written.push(path.display().to_string());
    }
    ui.json(&json!({ "files": written }));
    written.iter().for_each(|path| ui.line(&format!("{} {path}", ui.paint(Tone::Good, "wrote"))));
    ui.line(&format!("\nbuild it as {} says, then:", args.dir.join("README.md").display()));
    ui.line("  lazaret agent create NAME COMPONENT");
    ui.line("  lazaret agent send NAME MESSAGE");
    Ok(Code::Done)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, text)
}
