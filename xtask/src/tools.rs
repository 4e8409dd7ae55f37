//! The programs that the tests need, and how each is had. A need that can't be met is an error, never a skipped test.

use crate::run;
use std::path::Path;

/// A program, what stops without it, and where it comes from.
struct Tool {
    program: &'static str,
    wanted_by: &'static str,
    source: Source,
}

enum Source {
    /// A Debian package of the same name: installed here when we are root.
    Debian,
    /// A part of the machine that is the developer's choice: we only say that it is missing.
    Yours,
}

#[rustfmt::skip]
const TOOLS: &[Tool] = &[
    Tool { program: "git", wanted_by: "tidy, which reads the list of files", source: Source::Yours },
    Tool { program: "cc", wanted_by: "the build, which compiles SQLite", source: Source::Yours },
    Tool { program: "python3", wanted_by: "the second bundle checker, the Python agent and the run over the HTTP interface", source: Source::Yours },
    Tool { program: "node", wanted_by: "the JavaScript agent", source: Source::Yours },
    Tool { program: "npm", wanted_by: "the JavaScript agent", source: Source::Yours },
    Tool { program: "strace", wanted_by: "the crash tests, which inject faults", source: Source::Debian },
];

/// What the guests in Rust compile to; `rust-toolchain.toml` names the same.
const TARGETS: &[&str] = &["wasm32-unknown-unknown", "wasm32-wasip2"];

/// Every tool is there afterwards, or the error names all that are missing.
pub(crate) fn ensure(root: &Path) -> Result<(), String> {
    let missing: Vec<String> =
        TOOLS.iter().filter(|tool| !present(tool.program)).filter_map(|tool| obtain(root, tool).err()).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing.join("\n")),
    }
}

/// The standard library for each wasm target is there afterwards.
pub(crate) fn ensure_targets(root: &Path) -> Result<(), String> {
    let sysroot = run::capture(root, &["rustc", "--print", "sysroot"])?;
    let installed = |target: &&str| Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir();
    for target in TARGETS.iter().filter(|target| !installed(target)) {
        println!("installing target {target}");
        run::show(root, &["rustup", "target", "add", target])?;
    }
    Ok(())
}

fn obtain(root: &Path, tool: &Tool) -> Result<(), String> {
    let Tool { program, wanted_by, source } = tool;
    let missing = format!("`{program}` is missing; wanted by {wanted_by}");
    let Source::Debian = source else {
        return Err(format!("{missing}: install it and run this again"));
    };
    if !present("apt-get") || !is_root(root) {
        return Err(format!("{missing}: install it (on Debian: `sudo apt-get install {program}`) and run this again"));
    }
    println!("installing {program}");
    let install = ["apt-get", "install", "-y", "--no-install-recommends", program];
    // An image without package lists has to fetch them first.
    run::show(root, &install)
        .or_else(|_| run::show(root, &["apt-get", "update"]).and_then(|()| run::show(root, &install)))
        .map_err(|error| format!("{missing}: {error}"))
}

fn present(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn is_root(root: &Path) -> bool {
    run::capture(root, &["id", "-u"]).is_ok_and(|uid| uid.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_an_error_that_says_what_wants_it() {
        let tool = Tool { program: "no-such-tool", wanted_by: "a test", source: Source::Yours };
        let error = obtain(Path::new("."), &tool).unwrap_err();
        assert_eq!(error, "`no-such-tool` is missing; wanted by a test: install it and run this again");
        assert!(!present(tool.program));
    }

    #[test]
    fn the_targets_are_those_of_the_toolchain_file() {
        let toolchain = std::fs::read_to_string(crate::root().join("rust-toolchain.toml")).unwrap();
        let listed = toolchain.lines().find(|line| line.starts_with("targets")).unwrap();
        for target in TARGETS {
            assert!(listed.contains(target), "{target} is not in rust-toolchain.toml");
        }
    }
}
