//! Death and disk errors at every write, flush and rename: the vault opens, and each secret is the old or the new value.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests start and kill processes and touch the disk, and one that can't go on has failed"
)]

mod common;
mod vaults;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::dir;
use lazaret_store::vault::{Scope, Source, Unlock, Vault, VaultError};
use vaults::*;

const OPERATION: &str = "LAZARET_TEST_VAULT_OPERATION";
const ROOT: &str = "LAZARET_TEST_VAULT_ROOT";

const OLD: &str = "the value before";
const NEW: &str = "the value after that";
const OLD_WORDS: &str = "correct horse battery staple";
const NEW_WORDS: &str = "an entirely different passphrase";

/// What can be cut off. The first five are what an operator types; the others change the file in the same way.
const OPERATIONS: [&str; 9] = [
    "set",
    "set again",
    "rotate",
    "rotate-master to a key file",
    "rotate-master to a passphrase",
    "init",
    "bind",
    "remove",
    "set many",
];

/// Everything that changes a file or its name.
const CALLS: [&str; 9] =
    ["fsync", "fdatasync", "write", "pwrite64", "rename", "renameat", "unlink", "mkdir", "ftruncate"];

fn second_key(root: &Path) -> PathBuf {
    root.join("second-key")
}

/// How the vault is unlocked before the operation.
fn before(operation: &str, root: &Path) -> Source {
    match operation {
        "rotate-master to a passphrase" => passphrase(OLD_WORDS),
        _ => key_file(root),
    }
}

fn unlocks(operation: &str, root: &Path) -> [Unlock; 2] {
    match operation {
        "rotate-master to a passphrase" => [OLD_WORDS, NEW_WORDS].map(|words| Unlock::Passphrase(secret(words))),
        "rotate-master to a key file" => [by_key_file(root), Unlock::KeyFile { path: second_key(root) }],
        _ => [by_key_file(root), by_key_file(root)],
    }
}

/// The vault as it is before anything is cut off.
fn prepare(operation: &str, root: &Path) {
    if operation == "init" {
        return;
    }
    let vault = Vault::init(root, &before(operation, root), now).unwrap();
    set(&vault, "beside", "a value beside it");
    if operation != "set" {
        set(&vault, "target", OLD);
    }
}

fn act(operation: &str, root: &Path) -> Result<(), VaultError> {
    let [old, _] = unlocks(operation, root);
    if operation == "init" {
        let vault = Vault::init(root, &before(operation, root), now)?;
        return vault.audit().map(drop);
    }
    let vault = Vault::unlock(root, &old, now)?;
    let target = name("target");
    let done = match operation {
        "set" | "set again" => vault.set(&target, &Scope::Global, &secret(NEW)).map(drop),
        "rotate" => vault.rotate(&target, &secret(NEW)).map(drop),
        "rotate-master to a key file" => vault.rotate_master(&Source::KeyFile { path: second_key(root) }),
        "rotate-master to a passphrase" => vault.rotate_master(&passphrase(NEW_WORDS)),
        "bind" => vault.bind(&binding("agent:clerk", "key", "target")).map(drop),
        "remove" => vault.remove(&target),
        "set many" => {
            let (scope, more, new) = (Scope::Global, name("more"), secret(NEW));
            vault.set_many(&[(&more, &scope, &new), (&target, &scope, &new)])
        }
        other => panic!("{other}"),
    };
    if let Err(why) = done {
        // Whatever failed, this process goes on with what is on disk.
        return match vault.audit() {
            Ok(_) | Err(VaultError::Rotated) => Err(why),
            Err(worse) => panic!("{operation}: after {why}: {worse}"),
        };
    }
    Ok(())
}

/// What is there afterwards: whether it is the new state. Panics if it is neither that nor the old one.
fn check(operation: &str, root: &Path, told: &str) -> bool {
    let status = Vault::status(root).unwrap_or_else(|why| panic!("{told}: {why}"));
    if operation == "init" && status.is_none() {
        Vault::init(root, &before(operation, root), now).unwrap_or_else(|why| panic!("{told}: {why}"));
        return false;
    }
    let mut opened = unlocks(operation, root).into_iter().map(|unlock| Vault::unlock(root, &unlock, now)).enumerate();
    let (which, vault) = opened
        .find_map(|(which, vault)| Some((which, vault.ok()?)))
        .unwrap_or_else(|| panic!("{told}: it doesn't open"));
    let audit = vault.audit().unwrap_or_else(|why| panic!("{told}: {why}"));
    if operation != "init" {
        assert_eq!(value(&vault, "beside").unwrap(), "a value beside it", "{told}");
    }
    let target = value(&vault, "target").ok();
    let is_new = match operation {
        "init" => true,
        "set" => target.is_some(),
        "remove" => target.is_none(),
        "bind" => audit.status.bindings == 1,
        operation if operation.starts_with("rotate-master") => which == 1,
        _ => target.as_deref() == Some(NEW),
    };
    let lawful = match operation {
        "init" => None,
        "set" => is_new.then_some(NEW),
        "remove" => (!is_new).then_some(OLD),
        "bind" => Some(OLD),
        operation if operation.starts_with("rotate-master") => Some(OLD),
        _ => Some(if is_new { NEW } else { OLD }),
    };
    assert_eq!(target.as_deref(), lawful, "{told}");
    if operation == "set many" {
        assert_eq!(value(&vault, "more").is_ok(), is_new, "{told}: all or none");
    }
    // Nothing that was left behind is in the way.
    set(&vault, "afterwards", "a value afterwards");
    is_new
}

/// Runs one operation in a process of its own, and gives what it said and what strace saw it do to the vault's files.
fn traced(operation: &str, root: &Path, options: &[&str]) -> (std::process::Output, String) {
    let log = root.join("strace.log");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-qq"]).args(options).arg("-o").arg(&log);
    for path in ["", "vault", "vault/lock", "vault/secrets.sealed", "vault/secrets.sealed.new", "key", "second-key"] {
        command.arg("-P").arg(root.join(path));
    }
    let child = command
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "death_and_errors_at_every_call"])
        .env(OPERATION, operation)
        .env(ROOT, root)
        .output()
        .unwrap();
    (child, std::fs::read_to_string(&log).unwrap_or_default())
}

/// Runs one operation with one fault; gives whether the fault struck, and whether the new state is there.
fn run(operation: &str, call: &str, fault: &str, at: u32) -> (bool, bool) {
    let dir = dir();
    let root = dir.path();
    prepare(operation, root);
    let inject = format!("inject={call}:{fault}:when={at}");
    let (child, log) = traced(operation, root, &["-e", &format!("trace={call}"), "-e", &inject]);
    let (said, errors) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    let told = format!("{operation}, {call} {at} {fault}: {said}{errors}");
    assert!(!errors.contains("panicked"), "{told}");
    let struck = log.contains("INJECTED") || log.contains("killed by SIGKILL");
    let is_new = check(operation, root, &told);
    assert!(struck || said.contains("did it"), "{told}");
    assert!(is_new || !said.contains("did it"), "{told}: it was acknowledged");
    (struck, is_new)
}

#[test]
fn death_and_errors_at_every_call() {
    if let (Some(operation), Some(root)) = (std::env::var_os(OPERATION), std::env::var_os(ROOT)) {
        return match act(operation.to_str().unwrap(), Path::new(&root)) {
            Ok(()) => println!("did it"),
            Err(why) => println!("failed: {why}"),
        };
    }
    let strace = Command::new("strace").arg("-V").output();
    assert!(strace.is_ok(), "strace is needed to inject faults; install it, e.g. with apt-get install strace");
    let mut counts: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    for operation in OPERATIONS {
        let [mut deaths, mut errors, mut new] = [0; 3];
        for call in CALLS {
            for at in 1.. {
                let (struck, is_new) = run(operation, call, "signal=KILL", at);
                if !struck {
                    break;
                }
                deaths += 1;
                new += u32::from(is_new);
                for error in ["error=EIO", "error=ENOSPC"] {
                    run(operation, call, error, at);
                    errors += 1;
                }
            }
        }
        counts.insert(operation, [deaths, errors, new]);
    }
    let (mut deaths, mut errors) = (0, 0);
    for (operation, [killed, failed, new]) in &counts {
        println!("vault crash: {operation}: {killed} deaths ({new} after it was done), {failed} disk errors");
        assert!(*killed >= 4, "{operation}: write, flush, rename, flush of the directory");
        (deaths, errors) = (deaths + killed, errors + failed);
    }
    println!(
        "vault crash: {deaths} deaths, {errors} disk errors: 0 vaults that don't open, 0 values neither old nor new, 0 acknowledged and lost"
    );
}

/// A killed process leaves what it wrote to the kernel; a power cut only what was flushed. So the order matters: nothing gets
/// its name before it is on disk, and a new key is on disk before anything is sealed with it.
#[test]
fn what_gets_its_name_is_on_disk() {
    for (operation, expected) in [
        ("set", "write secrets.sealed.new, fsync secrets.sealed.new, rename secrets.sealed.new, fsync vault"),
        (
            "rotate-master to a key file",
            "write second-key, fsync second-key, fsync ., \
             write secrets.sealed.new, fsync secrets.sealed.new, rename secrets.sealed.new, fsync vault",
        ),
    ] {
        let dir = dir();
        prepare(operation, dir.path());
        let (child, log) = traced(operation, dir.path(), &["-e", "trace=write,fsync,rename"]);
        assert!(String::from_utf8_lossy(&child.stdout).contains("did it"));
        let root = dir.path().file_name().unwrap().to_str().unwrap();
        let calls = log.lines().filter_map(|line| {
            let (call, rest) = line.split_once(' ')?.1.trim_start().split_once('(')?;
            let path = rest.split(['<', '>', '"']).nth(1)?.rsplit('/').next()?;
            Some(format!("{call} {}", if path == root { "." } else { path }))
        });
        assert_eq!(calls.collect::<Vec<_>>().join(", "), expected, "{log}");
    }
}

const WRITER: &str = "LAZARET_TEST_VAULT_WRITER";

#[test]
fn many_processes_write_one_vault() {
    const EACH: usize = 20;
    if let (Some(writer), Some(root)) = (std::env::var(WRITER).ok(), std::env::var_os(ROOT)) {
        let vault = unlock(Path::new(&root)).unwrap();
        for n in 0..EACH {
            set(&vault, &format!("{writer}-{n}"), &format!("value {n} of {writer}"));
        }
        return;
    }
    let dir = dir();
    let vault = init(dir.path());
    let writers = ["ann", "bob", "cyd", "dan"];
    let children = writers.map(|writer| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "many_processes_write_one_vault"]).env(WRITER, writer).env(ROOT, dir.path());
        command.spawn().unwrap()
    });
    for n in 0..EACH {
        set(&vault, &format!("here-{n}"), "a value from here");
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for writer in writers {
        for n in 0..EACH {
            assert_eq!(value(&vault, &format!("{writer}-{n}")).unwrap(), format!("value {n} of {writer}"));
        }
    }
    assert_eq!(vault.list().unwrap().len(), EACH * 5);
    assert_eq!(vault.mark().unwrap().generation, 1 + EACH as u64 * 5, "no write was lost, none was done twice");
}

#[test]
fn what_one_process_does_the_other_sees_at_once() {
    let dir = dir();
    let one = init(dir.path());
    let two = unlock(dir.path()).unwrap();
    set(&one, "a", "the first value");
    assert_eq!(value(&two, "a").unwrap(), "the first value");
    set(&two, "a", "the second value");
    assert_eq!(value(&one, "a").unwrap(), "the second value");
    assert_eq!(one.mark(), two.mark());
    one.remove(&name("a")).unwrap();
    assert!(matches!(value(&two, "a"), Err(VaultError::NoSuchSecret { .. })));
    one.rotate_master(&Source::KeyFile { path: second_key(dir.path()) }).unwrap();
    assert_eq!(two.mark(), Err(VaultError::Rotated));
    assert_eq!(two.set(&name("b"), &Scope::Global, &secret("some value")), Err(VaultError::Rotated));
    std::fs::remove_file(file(dir.path())).unwrap();
    assert!(matches!(one.mark(), Err(VaultError::Missing { .. })));
}

#[test]
fn a_writer_that_never_ends_is_not_waited_for_for_ever() {
    let dir = dir();
    let vault = init(dir.path());
    let lock = std::fs::File::open(dir.path().join("vault/lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(vault.set(&name("a"), &Scope::Global, &secret("some value")), Err(VaultError::Busy));
    assert_eq!(vault.mark().unwrap().generation, 1, "reading goes on");
    drop(lock);
    set(&vault, "a", "some value");
}
