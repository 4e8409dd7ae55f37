//! The keeper as a service: what it tells its manager, and the socket that it is handed.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::scene::Scene;
use crate::station;

fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let len = socket.recv(&mut bytes).expect("the service says something");
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

fn tells(scene: &Scene, socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = scene.command(&["serve"]);
    let mut keeper = scene.serve_with(command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "200000"));
    assert_eq!(heard(socket), "READY=1");
    assert_eq!([heard(socket), heard(socket)], ["WATCHDOG=1", "WATCHDOG=1"]);
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    let last = std::iter::repeat_with(|| heard(socket)).find(|text| text != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
}

#[test]
fn the_service_manager_is_told() {
    let scene = Scene::new();
    let path = scene.dir().join("notify");
    tells(&scene, &UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
    let name = format!("lazaret-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    tells(&scene, &UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

/// Does what a service manager does before it starts a service with a socket.
const MANAGER: &str = r"
import os, socket, sys
path = sys.argv[1]
os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o600)
listener.listen(16)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ['LISTEN_PID'] = str(os.getpid())
os.environ['LISTEN_FDS'] = '1'
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_socket_that_is_handed_over_is_used_and_left() {
    let scene = Scene::new();
    fs::create_dir(&scene.root).unwrap();
    station::done(Command::new("chmod").arg("700").arg(&scene.root));
    let path = scene.root.join("run/keeper.sock");
    let mut command = Command::new("python3");
    command.args(["-c", MANAGER]).arg(&path).args([env!("CARGO_BIN_EXE_lazaret"), "--data-dir"]).arg(&scene.root);
    let mut keeper = scene.serve_with(command.arg("serve").env("LAZARET_PRESET", "open"));
    scene.agent("a");
    assert!(scene.done(&["agent", "send", "a", "add 1"]).contains("total=1"));
    scene.done(&["stop"]);
    assert_eq!(keeper.end(), Some(0));
    assert!(path.exists(), "the socket is the manager's");
}

#[test]
fn the_units_are_what_systemd_understands() {
    let folder = station::workspace().join("dist/systemd");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    for of in ["user", "system"] {
        let service = read(&format!("{of}/lazaret.service"));
        for line in ["Type=notify", "WatchdogSec=", "NoNewPrivileges=yes", "UMask=0077"] {
            assert!(service.contains(line), "{of}: {line}");
        }
        // The units say why. `unshare -m`, `mount --bind /dev/null /proc/kmsg` and then `unshare -Urpf --mount-proc true` show it.
        let mut forbidding = vec!["RestrictNamespaces", "PrivateUsers", "SystemCallFilter", "MemoryDenyWriteExecute"];
        forbidding.extend([
            "ProtectKernelTunables",
            "ProtectKernelLogs",
            "ProtectHostname",
            "ProtectProc",
            "ProcSubset",
        ]);
        if of == "user" {
            // A user's manager leaves these out without a word.
            forbidding.extend(["ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectControlGroups"]);
            forbidding.extend(["ReadWritePaths", "ProtectKernelModules", "ProtectClock"]);
        }
        let sets = |name: &&str| service.lines().any(|line| line.starts_with(&format!("{name}=")));
        let found: Vec<_> = forbidding.iter().filter(|name| sets(name)).collect();
        assert!(found.is_empty(), "{of}: {found:?}");
        let socket = read(&format!("{of}/lazaret.socket"));
        assert!(socket.contains("SocketMode=0600"));
        // The program that the unit names need not be installed where this runs.
        let dir = tempfile::tempdir().unwrap();
        let here = service.replace("%h/.cargo/bin/lazaret", env!("CARGO_BIN_EXE_lazaret"));
        let here = here.replace("/usr/local/bin/lazaret", env!("CARGO_BIN_EXE_lazaret"));
        fs::write(dir.path().join("lazaret.service"), here).unwrap();
        fs::write(dir.path().join("lazaret.socket"), socket).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", &format!("--{of}"), "./lazaret.service", "./lazaret.socket"]);
        match verify.current_dir(dir.path()).env("XDG_RUNTIME_DIR", dir.path()).output() {
            Ok(said) => assert!(said.status.success(), "{of}: {}", String::from_utf8_lossy(&said.stderr)),
            Err(why) => station::say(&format!("SKIPPED: systemd-analyze can't be run here: {why}")),
        }
    }
}

/// A real systemd, in namespaces of its own: readiness, sockets, watchdog, what the units forbid, and that jails can be made.
#[test]
fn both_units_do_under_a_systemd_what_they_say() {
    let own = ["--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--cgroup"];
    let may = Command::new("unshare").args(own).arg("true").output().is_ok_and(|done| done.status.success());
    let has_systemd = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"].iter().any(|path| fs::exists(path).unwrap());
    if !may || !has_systemd {
        station::say("SKIPPED: a systemd can't be booted here; that takes root, its capabilities and systemd");
        return;
    }
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut boot = Command::new("unshare");
    boot.args(own).arg(station::workspace().join("tests/service/boot"));
    boot.args([env!("CARGO_BIN_EXE_lazaret").as_ref(), station::guests().join("rust-counter.wasm").as_os_str()]);
    let mut boot =
        boot.arg(said.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let read = || fs::read_to_string(said.path()).unwrap();
    for _ in 0..1_200 {
        if boot.try_wait().unwrap().is_some() || read().ends_with("the end\n") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = boot.kill();
    let output = boot.wait_with_output().unwrap();
    let (text, wrong) = (read(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(text.ends_with("the end\n") && !text.contains("NOT "), "{text}{wrong}");
    station::say(&format!("both units under a systemd: {} things looked at, 0 wrong", text.matches("ok ").count()));
}
