//! Where the tests find the programs and the files of this project.

pub mod agent_session;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The top folder of the source code.
pub fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is in a folder of the project")
}

/// The path of one of our programs, as built beside the running test.
///
/// Panics if it has not been built: `cargo test` builds all programs, `cargo test --test NAME` only
/// some.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build` with the same profile",
        path.display()
    );
    path
}

/// A port of 127.0.0.1 that refuses connections.
///
/// It is the port of a connected client, so no server can get it as long as the value exists.
pub struct RefusingPort {
    _listener: TcpListener,
    client: TcpStream,
}

impl RefusingPort {
    /// Connects the client.
    pub fn connect() -> RefusingPort {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        RefusingPort {
            _listener: listener,
            client: TcpStream::connect(address).expect("connected"),
        }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.client.local_addr().expect("its address").port()
    }
}

/// Builds a library for `LD_PRELOAD` whose `getpwnam_r` finds no user and returns `ANSWER`.
///
/// Returns its path.
pub fn failing_name_service(folder: &Path) -> String {
    let text = "#include <pwd.h>\n#include <stdlib.h>\n\
        int getpwnam_r(const char *n, struct passwd *p, char *b, size_t s, struct passwd **r)\n\
        { *r = NULL; return atoi(getenv(\"ANSWER\")); }\n";
    library(folder, text)
}

/// Builds a library for `LD_PRELOAD` with which folders cannot be synced.
///
/// Returns its path.
pub fn failing_folder_sync(folder: &Path) -> String {
    let text = "#include <errno.h>\n#include <sys/stat.h>\n#include <sys/syscall.h>\n\
        #include <unistd.h>\nint fsync(int fd)\n{ struct stat s; fstat(fd, &s);\n\
        if (S_ISDIR(s.st_mode)) { errno = EIO; return -1; }\nreturn syscall(SYS_fsync, fd); }\n";
    library(folder, text)
}

/// Builds a library of a source in C.
fn library(folder: &Path, text: &str) -> String {
    let (source, library) = (folder.join("preloaded.c"), folder.join("preloaded.so"));
    std::fs::write(&source, text).expect("written");
    let mut cc = Command::new("cc");
    let made = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(made.expect("cc starts").success());
    library.to_string_lossy().into_owned()
}

/// The command that runs a program on a terminal with this number of columns.
///
/// The caller adds the arguments. Each step waits for its first text in the output, and then types
/// the second.
pub fn on_terminal(program: &str, columns: u16, steps: &[(&str, &str)]) -> Command {
    let script = "import fcntl, os, pty, struct, sys, termios\n\
        columns, count = int(sys.argv[1]), int(sys.argv[2])\n\
        steps, command = sys.argv[3:3 + 2 * count], sys.argv[3 + 2 * count:]\n\
        pid, fd = pty.fork()\n\
        if pid == 0:\n\
        \x20   fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 40, columns, 0, 0))\n\
        \x20   os.execv(command[0], command)\n\
        out, since = b'', 0\n\
        while True:\n\
        \x20   try: chunk = os.read(fd, 65536)\n\
        \x20   except OSError: break\n\
        \x20   if not chunk: break\n\
        \x20   out += chunk\n\
        \x20   if steps and steps[0].encode() in out[since:]:\n\
        \x20       since = len(out)\n\
        \x20       os.write(fd, steps[1].encode())\n\
        \x20       steps = steps[2:]\n\
        sys.stdout.buffer.write(out)\n\
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let mut command = Command::new("python3");
    command.args(["-c", script, &columns.to_string(), &steps.len().to_string()]);
    command.args(steps.iter().flat_map(|(seen, typed)| [seen, typed]));
    command.arg(program);
    command
}
