//! Who runs a test's programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::session;

/// Number of the user and of the group `nobody`.
const NOBODY: u32 = 65534;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The suite was started by root.
    Root,
    /// By root, which becomes this user.
    Nobody,
    /// By an ordinary user.
    Caller,
}

impl User {
    /// Those that can be had here.
    pub fn all() -> &'static [User] {
        match rustix::process::getuid().is_root() {
            true => &[User::Root, User::Nobody],
            false => &[User::Caller],
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Nobody => "nobody",
            User::Caller => "this_user",
        }
    }

    pub fn uid(self) -> u32 {
        match self {
            User::Nobody => NOBODY,
            _ => rustix::process::getuid().as_raw(),
        }
    }

    pub fn gid(self) -> u32 {
        match self {
            User::Nobody => NOBODY,
            _ => rustix::process::getgid().as_raw(),
        }
    }

    /// Make a path this user's.
    pub fn own(self, path: &Path) {
        if self == User::Nobody {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// A program as this user; on cgroup version 2 from inside the folder that was delegated.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        match (self, session::entry()) {
            (User::Nobody, Some(entry)) => {
                let mut command = Command::new("/bin/sh");
                let enter = "echo $$ > \"$0\" && exec /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
                command.args(["-c", enter]).arg(entry).arg(program);
                command
            }
            (User::Nobody, None) => other(NOBODY, program),
            _ => Command::new(program),
        }
    }
}

/// A program as any user at all, from root.
pub fn other(uid: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/usr/bin/setpriv");
    let id = uid.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
    command
}
