//! The keeper as a service: what it tells its manager, and the socket that it is handed.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
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
    std::fs::create_dir(&scene.root).unwrap();
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
    let service = std::fs::read_to_string(folder.join("lazaret.service")).unwrap();
    for line in ["Type=notify", "WatchdogSec=", "NoNewPrivileges=yes", "UMask=0077"] {
        assert!(service.contains(line), "{line}");
    }
    // The unit says why. `unshare -m`, `mount --bind /dev/null /proc/kmsg` and then `unshare -Urpf --mount-proc true` show it.
    let forbidding = [
        "RestrictNamespaces",
        "PrivateUsers",
        "SystemCallFilter",
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectHostname",
        "ProtectClock",
        "ProtectProc",
        "ProcSubset",
        "MemoryDenyWriteExecute",
    ];
    let sets = |name: &&str| service.lines().any(|line| line.starts_with(&format!("{name}=")));
    let found: Vec<_> = forbidding.iter().filter(|name| sets(name)).collect();
    assert!(found.is_empty(), "{found:?}: jails need user namespaces with a /proc of their own");
    let socket = std::fs::read_to_string(folder.join("lazaret.socket")).unwrap();
    assert!(socket.contains("SocketMode=0600") && socket.contains("DirectoryMode=0700"));
    // The program that the unit names need not be installed where this runs.
    let dir = tempfile::tempdir().unwrap();
    let here = service.replace("%h/.cargo/bin/lazaret", env!("CARGO_BIN_EXE_lazaret"));
    std::fs::write(dir.path().join("lazaret.service"), here).unwrap();
    std::fs::write(dir.path().join("lazaret.socket"), socket).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--user", "./lazaret.service", "./lazaret.socket"]);
    match verify.current_dir(dir.path()).env("XDG_RUNTIME_DIR", dir.path()).output() {
        Ok(said) => assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr)),
        Err(why) => station::say(&format!("SKIPPED: systemd-analyze can't be run here: {why}")),
    }
}
