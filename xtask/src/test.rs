//! `cargo xtask test`: everything that must pass, in the order in which failures are cheapest to find.

use crate::{run, tidy, tools};
use std::path::Path;
use std::time::{Duration, Instant};

struct Step {
    name: &'static str,
    work: Work,
}

enum Work {
    /// Done in this process.
    Here(fn(&Path) -> Result<(), String>),
    /// A command line, as one would type it.
    Run(&'static str),
    /// The same, with fewer tries where tests try something at random.
    Quick(&'static str),
}

/// So many fit into half an hour on two processors. The commands in `SECURITY.md`, run by themselves, try them all.
const FEWER: &[(&str, &str)] =
    &[("LAZARET_RANDOM_GUESTS", "1500"), ("LAZARET_TAMPERINGS", "3000"), ("LAZARET_KILLS", "60"), ("FAULTS", "few")];

#[rustfmt::skip]
const STEPS: &[Step] = &[
    Step { name: "tools",   work: Work::Here(tools::ensure) },
    Step { name: "targets", work: Work::Here(tools::ensure_targets) },
    Step { name: "format",  work: Work::Run("cargo fmt --all --check") },
    Step { name: "tidy",    work: Work::Here(tidy::check) },
    Step { name: "guests",  work: Work::Run("sh guests/build.sh all") },
    Step { name: "clippy",  work: Work::Run("cargo clippy --workspace --all-targets -- -D warnings") },
    Step { name: "fuzz",    work: Work::Run("cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz") },
    Step { name: "tests",   work: Work::Quick("cargo test --workspace -- --show-output") },
    Step { name: "python",  work: Work::Run("python3 -m unittest discover -s tools") },
    Step { name: "api",     work: Work::Run("python3 tests/api/run") },
];

/// Runs the steps in order; the first that fails ends it.
pub(crate) fn all(root: &Path) -> Result<(), String> {
    let begun = Instant::now();
    for (index, step) in STEPS.iter().enumerate() {
        println!("\n== {}/{} {}{}", index + 1, STEPS.len(), step.name, typed(&step.work));
        let started = Instant::now();
        let result = match step.work {
            Work::Here(work) => work(root),
            Work::Run(line) => run::show(root, &line.split(' ').collect::<Vec<_>>()),
            Work::Quick(line) => run::show_with(root, &line.split(' ').collect::<Vec<_>>(), FEWER),
        };
        let took = seconds(started.elapsed());
        if let Err(error) = result {
            let after = seconds(begun.elapsed());
            return Err(format!(
                "{error}\n\nFAILED at {} ({took}): {index} of {} steps passed, {after}",
                step.name,
                STEPS.len()
            ));
        }
        println!("-- {} ok, {took}", step.name);
    }
    println!("\nPASSED all {} steps, {}", STEPS.len(), seconds(begun.elapsed()));
    Ok(())
}

fn typed(work: &Work) -> String {
    match work {
        Work::Here(_) => String::new(),
        Work::Run(line) | Work::Quick(line) => format!(": {line}"),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
