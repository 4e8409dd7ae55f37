//! A disk that fails and a process that dies, at every place where it can matter: no acknowledged turn is lost, the
//! chain verifies, nothing that left the host is done twice. `tests/faults/README.md` says how.
//!
//! `cargo test -p lazaret --test faults -- [SCENE or FAULT…]` runs a part; `FAULTS=all` tries every write and not some,
//! `FAULTS=few` every third flush and fewer writes.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test starts and kills processes and touches the disk, and one that can't go on has failed"
)]

#[path = "faults/check.rs"]
mod check;
#[path = "faults/drive.rs"]
mod drive;
#[path = "faults/facts.rs"]
mod facts;
#[path = "faults/inject.rs"]
mod inject;
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/server.rs"]
mod server;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use check::{Run, Seen, Stage};
use inject::{Bench, CONTROL, FAULTS, Fault, plain};
use scene::{Scene, Step, Words};

/// Places of a kind of which a scene has more than this are tried evenly spread; a fault at one flush is tried at each.
const SOME: u64 = 5;

/// The same where few are tried, and of flushes every so many.
const FEW: u64 = 2;
const FEW_FLUSHES: u64 = 3;

/// How many places are tried.
#[derive(Clone, Copy)]
enum Reach {
    Few,
    Some,
    All,
}

impl Reach {
    /// From one place to the next. Odd, because what is written often goes in pairs, and both of a pair should have their turn.
    fn step(self, fault: &Fault, count: u64) -> u64 {
        match (self, fault.strikes_one_flush()) {
            (Self::All, _) | (Self::Some, true) => 1,
            (Self::Few, true) => FEW_FLUSHES,
            (Self::Some, false) => count.div_ceil(SOME) | 1,
            (Self::Few, false) => count.div_ceil(FEW) | 1,
        }
    }
}

/// As many runs at once.
const THREADS: usize = 2;

/// Runs without end mean that the fault is never reached, or that it always is.
const MOST: u64 = 20_000;

static RUNS: AtomicU64 = AtomicU64::new(1);

/// Everything that the runs share.
struct Theatre {
    stage: Stage,
    bench: Bench,
    dir: PathBuf,
    reach: Reach,
    problems: Mutex<Vec<String>>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, root, component, script] = arguments.as_slice()
        && word == drive::DRIVE
    {
        return drive::drive(Path::new(root), Path::new(component), Path::new(script));
    }
    if arguments.iter().any(|word| word == "--list") {
        println!("faults: test");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = arguments.into_iter().filter(|word| !word.starts_with("--")).collect();
    match faults(&wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("\nfaults: FAILED\n{why}");
            ExitCode::FAILURE
        }
    }
}

fn faults(wanted: &[String]) -> Result<(), String> {
    let begun = Instant::now();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let component = repository.join("guests/build/rust-counter.wasm");
    if !component.exists() {
        return Err("guests/build/rust-counter.wasm isn't built yet: run `guests/build.sh rust`".to_owned());
    }
    let data = repository.join("tests/faults");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|why| why.to_string())?;
    let stage = Stage {
        lazaret: kept(Path::new(env!("CARGO_BIN_EXE_lazaret")), &dir.join("lazaret"))?,
        driver: kept(&std::env::current_exe().map_err(|why| why.to_string())?, &dir.join("driver"))?,
        component: component.display().to_string(),
        server: server::Server::start(),
    };
    let bench = Bench::set_up(&data.join("disk.c"), &dir)?;
    let reach = match std::env::var("FAULTS").as_deref() {
        Ok("all") => Reach::All,
        Ok("few") => Reach::Few,
        _ => Reach::Some,
    };
    let theatre = Theatre { stage, bench, dir, reach, problems: Mutex::default() };
    let scenes = Scene::read_all(&data);
    let is_wanted = |scene: &Scene, fault: &Fault| {
        let named = |word: &String| word == "faults" || scene.name == *word || fault.name.contains(word.as_str());
        scene.is_for(fault.name) && wanted.iter().all(named)
    };
    scenes.iter().for_each(|scene| println!("{:<9} {}", scene.name, scene.about));
    let mut jobs = VecDeque::new();
    for scene in &scenes {
        theatre.prepare(scene)?;
        jobs.extend(FAULTS.iter().filter(|fault| is_wanted(scene, fault)).map(|fault| (scene, fault)));
    }
    if jobs.is_empty() {
        println!("faults: nothing is called {wanted:?}, so nothing was run");
        return Ok(());
    }
    theatre.control(&scenes)?;
    let table = theatre.play(jobs);
    report(&theatre, &table, begun)
}

/// Gives a program a name of its own: a build meanwhile must not change what is tested.
fn kept(program: &Path, name: &Path) -> Result<String, String> {
    let linked = fs::hard_link(program, name).or_else(|_| fs::copy(program, name).map(drop));
    linked.map(|()| name.display().to_string()).map_err(|why| why.to_string())
}

type Table = BTreeMap<(usize, String), Seen>;

impl Theatre {
    fn run<'a>(&'a self, scene: &'a Scene) -> Run<'a> {
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let home = self.dir.join(run.to_string());
        fs::create_dir_all(&home).expect("a directory");
        Run { stage: &self.stage, scene, words: Words { port: self.stage.server.port, run }, home }
    }

    /// Makes the data root that a scene starts from.
    fn prepare(&self, scene: &Scene) -> Result<(), String> {
        if scene.fresh {
            return Ok(());
        }
        let run = self.run(scene);
        let mut script = scene.births(run.words);
        if scene.command {
            // All but the last message; that one is the command.
            let messages = scene.messages(run.words);
            let before = &messages[..messages.len() - 1];
            script.extend(before.iter().map(|(agent, text)| format!("send {agent} {text}")));
        }
        let line = run.driving("prepare", &script);
        let ran = plain(&line.iter().map(String::as_str).collect::<Vec<_>>());
        if ran.code != Some(0) || ran.out.contains("error") {
            return Err(format!("`{}` can't be prepared: {}{}", scene.name, ran.out, ran.err));
        }
        fs::rename(run.root(), self.dir.join(&scene.name)).map_err(|why| why.to_string())
    }

    /// The command line that is hit, in a fresh copy of the scene's data root.
    fn set(&self, run: &Run<'_>) -> Vec<String> {
        let scene = run.scene;
        if !scene.fresh {
            copy(&self.dir.join(&scene.name), &run.root());
        }
        if scene.command {
            let messages = scene.messages(run.words);
            let (agent, text) = messages.last().expect("a message");
            let root = run.root().display().to_string();
            let line = [self.stage.lazaret.as_str(), "--data-dir", &root, "--json", "agent", "send", agent, text];
            return line.map(str::to_owned).to_vec();
        }
        let mut script = if scene.fresh { scene.births(run.words) } else { Vec::new() };
        script.extend(scene.steps(run.words).iter().map(Step::line));
        run.driving("script", &script)
    }

    /// Hits a scene with a fault at one place after the other.
    fn hit(&self, scene: &Scene, fault: &Fault) -> Result<Seen, String> {
        let run = self.run(scene);
        let line = self.set(&run);
        let places = self.bench.places(fault, &run.home, &line.iter().map(String::as_str).collect::<Vec<_>>());
        let _ = fs::remove_dir_all(&run.home);
        let mut seen = Seen::default();
        for (call, count) in places {
            let step = self.reach.step(fault, count);
            for nth in (1..MOST).step_by(usize::try_from(step).unwrap_or(1)) {
                let place = format!("{} · {} · {call} {nth}", scene.name, fault.name);
                let (hit, one) = self.hit_once(scene, fault, call, nth).map_err(|why| format!("{place} {why}"))?;
                seen.add(&one);
                match (hit, nth) {
                    (true, _) => {}
                    (false, 1) => return Err(format!("{place}: it never struck, so nothing was tested")),
                    (false, _) => break,
                }
            }
        }
        Ok(seen)
    }

    /// One run, and whether it was hit.
    fn hit_once(&self, scene: &Scene, fault: &Fault, call: &str, nth: u64) -> Result<(bool, Seen), String> {
        let run = self.run(scene);
        let line = self.set(&run);
        let ran = self.bench.hit(fault, call, nth, &run.home, &line.iter().map(String::as_str).collect::<Vec<_>>());
        let may_die = matches!(fault.group, "kill" | "power" | "control") || fault.name.ends_with("kill");
        let seen = run
            .check(&ran, may_die)
            .map_err(|why| format!("({}):\n  {}", run.home.display(), why.replace('\n', "\n  ")))?;
        let _ = fs::remove_dir_all(&run.home);
        Ok((ran.hit, seen))
    }

    /// Sees that the checks can fail: after enough writes that were never really flushed, a turn must be missed.
    fn control(&self, scenes: &[Scene]) -> Result<(), String> {
        let quiet = scenes.iter().find(|scene| scene.name == "quiet").ok_or("there is no scene `quiet`")?;
        match self.hit_once(quiet, &CONTROL, "", 100) {
            Err(why) if why.contains("an acknowledged turn is lost") => {
                println!("control: {}: noticed", CONTROL.name);
                Ok(())
            }
            Err(why) => Err(format!("{}: {why}", CONTROL.name)),
            Ok(_) => Err(format!("{}: nothing was noticed, so the checks are worth nothing", CONTROL.name)),
        }
    }

    /// All of it, a few at a time.
    fn play(&self, jobs: VecDeque<(&Scene, &'static Fault)>) -> Table {
        let (jobs, table) = (Mutex::new(jobs), Mutex::new(Table::new()));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Some((scene, fault)) = { jobs.lock().expect("jobs").pop_front() } {
                        match self.hit(scene, fault) {
                            Ok(seen) => {
                                let row = FAULTS.iter().position(|other| other.name == fault.name).unwrap_or(0);
                                table.lock().expect("table").entry((row, scene.name.clone())).or_default().add(&seen);
                            }
                            Err(why) => {
                                println!("FAILED {why}");
                                self.problems.lock().expect("problems").push(why);
                            }
                        }
                    }
                });
            }
        });
        table.into_inner().expect("table")
    }
}

/// A data root is small and flat: one directory below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    fs::set_permissions(to, fs::metadata(from).expect("a directory").permissions()).expect("a mode");
    for file in fs::read_dir(from).expect("a directory").map(|file| file.expect("a file")) {
        let target = to.join(file.file_name());
        if file.path().is_dir() {
            copy(&file.path(), &target);
        } else {
            fs::copy(file.path(), &target).expect("a copy");
        }
    }
}

fn report(theatre: &Theatre, table: &Table, begun: Instant) -> Result<(), String> {
    let mut all = Seen::default();
    let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
    println!(
        "\n{:<40} {:>5} {:>7} {:>7} {:>8} {:>9} {:>9} {:>8}",
        "fault", "runs", "acked", "errors", "resumed", "in doubt", "replayed", "effects"
    );
    for (row, fault) in FAULTS.iter().enumerate() {
        let mut seen = Seen::default();
        table.iter().filter(|((of, _), _)| *of == row).for_each(|(_, one)| seen.add(one));
        *groups.entry(fault.group).or_default() += seen.runs;
        all.add(&seen);
        if seen.runs == 0 {
            continue;
        }
        println!(
            "{:<40} {:>5} {:>7} {:>7} {:>8} {:>9} {:>9} {:>8}",
            fault.name,
            seen.runs,
            seen.acknowledged,
            seen.errors,
            seen.resumed,
            seen.in_doubt,
            seen.replayed,
            seen.effects
        );
    }
    let problems = theatre.problems.lock().expect("problems");
    if !problems.is_empty() {
        return Err(format!("{} pairs of scene and fault:\n{}", problems.len(), problems.join("\n")));
    }
    let groups =
        ["kill", "EIO", "ENOSPC", "short", "power"].map(|name| format!("{name} {}", groups.get(name).unwrap_or(&0)));
    println!(
        "\nfaults: {} runs ({}): {} turns acknowledged, 0 lost; {} effects, 0 run twice ({} GET sent again); \
         chain verified {} times; {} replays MATCH; {} in doubt, settled; {} s",
        all.runs,
        groups.join(", "),
        all.acknowledged,
        all.effects,
        all.retried,
        all.verified,
        all.replayed,
        all.in_doubt,
        begun.elapsed().as_secs()
    );
    let _ = fs::remove_dir_all(&theatre.dir);
    Ok(())
}
