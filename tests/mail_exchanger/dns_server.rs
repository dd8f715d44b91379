//! `unbound` on loopback, with zones below a root of the test, signed by `ldns-signzone`.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Maximum number of times that another port is tried.
const MAX_STARTS: usize = 10;

/// Zones below the root.
///
/// `example.` is signed, `unsigned.` is not, the parent of `bogus.` has a wrong key. Queries for
/// `refused.` are refused.
#[derive(Default)]
pub(crate) struct Zones {
    pub(crate) example: String,
    pub(crate) unsigned: String,
}

/// A DNS server that ends with the test.
pub(crate) struct RunningDns {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl RunningDns {
    pub(crate) fn start(zones: &Zones) -> RunningDns {
        let folder = tempfile::tempdir().unwrap();
        write_zones(folder.path(), zones);
        for _ in 0..MAX_STARTS {
            let port = free_port();
            fs::write(folder.path().join("unbound.conf"), config(folder.path(), port)).unwrap();
            let mut child = spawn_unbound(folder.path());
            if answers(&mut child, port) {
                return RunningDns { folder, port, child };
            }
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        panic!("unbound does not start:\n{log}");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The public key of the root.
    pub(crate) fn trust_anchor(&self) -> PathBuf {
        self.folder.path().join("root.key")
    }

    /// Ends the server.
    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for RunningDns {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A port on which a UDP socket receives queries and never answers.
pub(crate) fn silent_dns() -> (UdpSocket, TcpListener, SocketAddr) {
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = udp.local_addr().unwrap();
        if let Ok(tcp) = TcpListener::bind(address) {
            return (udp, tcp, address);
        }
    }
}

fn free_port() -> u16 {
    let (_udp, _tcp, address) = silent_dns();
    address.port()
}

fn spawn_unbound(folder: &Path) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    // Debian has it in a folder that is not in the PATH of every user.
    Command::new("unbound")
        .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
        .args(["-d", "-p", "-c", "unbound.conf"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("these tests need unbound (Debian package unbound)")
}

fn answers(child: &mut Child, port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().ok();
    child.wait().unwrap();
    false
}

fn config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    let mut text = format!(
        "server:\n interface: 127.0.0.1@{port}\n username: \"\"\n chroot: \"\"\n\
         \x20directory: \"{folder}\"\n pidfile: \"\"\n use-syslog: no\n\
         \x20num-threads: 1\n qname-minimisation: no\n harden-below-nxdomain: no\n\
         \x20trust-anchor-file: \"{folder}/root.key\"\n trust-anchor-signaling: no\n\
         \x20local-zone: \"refused.\" refuse\n\
         remote-control:\n control-enable: no\n"
    );
    let zones =
        [(".", "root"), ("example.", "example"), ("unsigned.", "unsigned"), ("bogus.", "bogus")];
    for (name, file) in zones {
        writeln!(
            text,
            "auth-zone:\n name: \"{name}\"\n zonefile: \"{folder}/{file}.zone\"\n\
             \x20for-downstream: no\n for-upstream: yes\n fallback-enabled: no"
        )
        .unwrap();
    }
    text
}

fn write_zones(folder: &Path, zones: &Zones) {
    let head = |name: &str| {
        format!(
            "$ORIGIN {name}\n$TTL 300\n@ SOA ns.example. root.example. 1 3600 600 86400 300\n\
             @ NS ns.example.\n"
        )
    };
    let example = format!("{}ns A 127.0.0.1\n{}\n", head("example."), zones.example);
    let example_ds = sign(folder, "example.", &example);
    let bogus = format!("{}@ MX 10 mx.example.\n@ A 127.0.0.1\n", head("bogus."));
    sign(folder, "bogus.", &bogus);
    let other_ds = generate_key(folder, "bogus.").1;
    let unsigned = format!("{}{}\n", head("unsigned."), zones.unsigned);
    fs::write(folder.join("unsigned.zone"), unsigned).unwrap();
    let root = format!(
        "{}ns.example. A 127.0.0.1\nexample. NS ns.example.\n{example_ds}\n\
         bogus. NS ns.example.\n{other_ds}\nunsigned. NS ns.example.\n",
        head(".")
    );
    sign(folder, ".", &root);
}

/// Signs a zone, and returns the DS record of its key.
fn sign(folder: &Path, origin: &str, text: &str) -> String {
    let name = if origin == "." { "root" } else { origin.trim_end_matches('.') };
    let (key, ds) = generate_key(folder, origin);
    fs::copy(folder.join(format!("{key}.key")), folder.join(format!("{name}.key"))).unwrap();
    fs::write(folder.join(format!("{name}.plain")), text).unwrap();
    let output = format!("{name}.zone");
    let plain = format!("{name}.plain");
    run(folder, "ldns-signzone", &["-o", origin, "-f", &output, &plain, &key]);
    ds
}

/// Generates a key, and returns the base of its files and its DS record.
fn generate_key(folder: &Path, origin: &str) -> (String, String) {
    let key = run(folder, "ldns-keygen", &["-a", "ECDSAP256SHA256", "-k", origin]);
    let key = key.trim().to_string();
    let ds = fs::read_to_string(folder.join(format!("{key}.ds"))).unwrap_or_else(|_| {
        let file = format!("{key}.key");
        run(folder, "ldns-key2ds", &["-n", "-2", &file])
    });
    (key, ds)
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{program} (Debian package ldnsutils): {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{program}: {}", text(output.stderr));
    text(output.stdout)
}
