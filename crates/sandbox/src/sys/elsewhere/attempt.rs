//! What the self-test and its subjects do that the standard library does not offer. On a system without tier 1 none
//! of it is done, and each says so: a check that asks for it is undecided there.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn not_here<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "the self-test has no such act on this system"))
}

/// Numbers that the standard library gives no kind. None is met, since nothing is tried.
pub fn is_unsupported(_: i32) -> bool {
    false
}

/// The same.
pub fn is_exhausted(_: i32) -> bool {
    false
}

/// CPU time that this process has used: not known.
pub fn cpu_time() -> Duration {
    Duration::ZERO
}

/// Leave the session and its terminal.
pub fn leave_session() -> io::Result<()> {
    not_here()
}

/// Take no signal any more that can be refused.
pub fn turn_deaf() {}

/// Say this process's number on standard error, and let go of that.
pub fn say_pid_and_close_stderr() -> io::Result<()> {
    not_here()
}

/// Open an ICMP socket that leads to `address`.
pub fn icmp_towards(_: Ipv4Addr) -> io::Result<()> {
    not_here()
}

/// Every process that is seen, but for this one.
pub fn others() -> io::Result<Vec<i32>> {
    not_here()
}

/// What of a process of one's own can be looked into outside a container, or else nothing is shown by a refusal.
pub const LEAST_OPEN: [&str; 0] = [];

/// Each way to read what another process knows or to act through it, and what came of it.
pub fn look_into(_: i32) -> Vec<(&'static str, io::Result<()>)> {
    Vec::new()
}

/// Open a folder so that every program started from here inherits it.
pub fn open_inheritable(_: &Path) -> io::Result<File> {
    not_here()
}

/// Other names of the absolute `path`.
pub fn aliases(_: &Path, _: &Path, _: &File, _: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// End a process. None that would need it is started here.
pub fn end(_: i32) {}

/// Is there a process of this number? Never, as far as is known here.
pub fn is_there(_: i32) -> bool {
    false
}

/// From here on standard input is empty.
pub fn empty_input() -> io::Result<()> {
    not_here()
}

/// Make a link.
pub fn link(_: &Path, _: &Path) -> io::Result<()> {
    not_here()
}
