//! The bridge: inside a container it listens on the loopback, forwards each connection to the proxy's socket, starts
//! the command with the proxy's address in its variables, and ends as the command ends. What it carries it does not
//! know; whoever connects needs the run's token, which the proxy asks for.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use oz0_egress::forward::{Destination, Forwarder};
use oz0_egress::{BindError, Listener};

use crate::environ::{PROXY_ONCE, with_port};
use crate::report::Status;

/// As many connections as the proxy takes, and some that it turns away itself.
const MOST: usize = 512;

/// Why a command was not run over a bridge.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// No command.
    #[error("the bridge has no command to start")]
    NoCommand,
    /// It could not listen.
    #[error("the bridge inside the container: {0}")]
    Listen(#[from] BindError),
    /// It could not forward.
    #[error("the bridge inside the container: {0}")]
    Forward(io::Error),
    /// The command could not be started.
    #[error("{}: {error}", crate::text::escape(.program))]
    Start {
        /// The program.
        program: OsString,
        /// What the system answered.
        error: io::Error,
    },
    /// The command could not be waited for.
    #[error("waiting for the command: {0}")]
    Wait(io::Error),
}

impl BridgeError {
    /// The exit status that tells it from the command's own.
    pub fn status(&self) -> Status {
        match self {
            BridgeError::Start { error, .. } if error.kind() == io::ErrorKind::NotFound => Status::NotFound,
            BridgeError::Start { .. } => Status::NotExecutable,
            _ => Status::Sandbox,
        }
    }
}

/// Run `command` with a bridge to `socket`. `variable` answers for this process's own variables.
pub fn run(
    socket: &Path,
    command: &[OsString],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<ExitStatus, BridgeError> {
    let (program, arguments) = command.split_first().ok_or(BridgeError::NoCommand)?;
    let listener = Listener::first_of(IpAddr::V4(Ipv4Addr::LOCALHOST), 0..=0)?;
    let port = listener.local_addr().map(|address| address.port()).unwrap_or_default();
    let forwarder = Forwarder::start(listener, Destination::Unix(socket.to_owned()), MOST)
        .map_err(BridgeError::Forward)?;
    let mut start = Command::new(program);
    start.args(arguments);
    for name in PROXY_ONCE {
        if let Some(url) = variable(name).and_then(|url| with_port(&url, port)) {
            start.env(name, url);
        }
    }
    hear_interrupts();
    let started = start.spawn().map_err(|error| BridgeError::Start { program: program.clone(), error });
    let ended = started.and_then(|mut child| child.wait().map_err(BridgeError::Wait));
    // What the command has sent may still be on its way.
    forwarder.stop(Duration::from_secs(2));
    ended
}

/// Ctrl-C at a console reaches every program there. The command answers it, and the bridge ends as the command does.
#[cfg(windows)]
fn hear_interrupts() {
    // Without it Ctrl-C ends the bridge, and with it the run: that is less than asked, and no less confined.
    let _ = crate::sys::windows::console::Interrupts::listen();
}

#[cfg(not(windows))]
fn hear_interrupts() {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    /// The command's own variable leads over the bridge to the proxy's socket, bytes go both ways, and the status
    /// is the command's.
    #[test]
    fn a_command_reaches_the_proxy_and_its_status_comes_out() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("proxy");
        let listener = UnixListener::bind(&socket).unwrap();
        let proxy = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut heard = [0; 5];
            connection.read_exact(&mut heard).unwrap();
            connection.write_all(b"there").unwrap();
            heard
        });
        let script = "import os, socket, sys\n\
                      host, port = os.environ['HTTP_PROXY'].rpartition('@')[2].split(':')\n\
                      peer = socket.create_connection((host, int(port)))\n\
                      peer.sendall(b'hello')\n\
                      sys.exit(42 if peer.recv(5) == b'there' and os.environ.get('HTTPS_PROXY') is None else 1)";
        let command = ["/usr/bin/python3", "-c", script].map(OsString::from);
        let url = |name: &str| (name == "HTTP_PROXY").then(|| "http://oz0:token@127.0.0.1:0".to_owned());
        let status = run(&socket, &command, url).unwrap();
        assert_eq!(status.code(), Some(42));
        assert_eq!(&proxy.join().unwrap(), b"hello");
    }

    #[test]
    fn nothing_is_started_without_a_command() {
        assert!(matches!(run(Path::new("/none"), &[], |_| None), Err(BridgeError::NoCommand)));
    }

    #[test]
    fn a_command_that_does_not_start_is_told_from_one_that_ran() {
        let error = run(Path::new("/none"), &["/no/such/program".into()], |_| None).unwrap_err();
        assert_eq!(error.status(), Status::NotFound);
        let error = run(Path::new("/none"), &["/etc/hostname".into()], |_| None).unwrap_err();
        assert_eq!(error.status(), Status::NotExecutable);
    }
}
