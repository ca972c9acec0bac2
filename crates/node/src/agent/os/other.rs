//! Windows: a process is ended by its handle, which the standard library has.

use std::fs::File;
use std::io;
use std::os::windows::io::AsHandle as _;
use std::process::{Command, ExitStatus};

/// Standard input without a buffer: what is not read stays for the command.
pub fn bare_standard_input() -> io::Result<File> {
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

/// Not told here.
pub fn end_with(_: u32) -> io::Result<()> {
    Ok(())
}

/// Not told here.
pub fn be_asked_with(_: u32) -> io::Result<()> {
    Ok(())
}

/// Not asked here.
pub fn is_parent(_: u32) -> bool {
    true
}

/// There are no orphans to be had.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// There is no session to leave.
pub fn leave_session() -> io::Result<()> {
    Ok(())
}

/// There are no process groups that a signal reaches.
pub fn own_group(_: &mut Command) {}

/// Start that program, wait for it, and end as it did.
pub fn become_program(mut command: Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// Nothing asks here.
pub fn ask(_: u32) {}

/// Nothing asks here.
pub fn ask_group(_: u32) {}

/// By its handle alone.
pub fn kill(_: u32) {}

/// Cannot be done by the number.
pub fn wait_until_ended(_: u32) -> bool {
    false
}

/// There are none.
pub fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// Nothing is adopted.
pub fn reap_orphans(_: u32) {}

/// Nothing is adopted.
pub fn end_children() {}

/// A folder of this user's is.
pub fn make_writable(_: &std::path::Path) -> io::Result<()> {
    Ok(())
}

/// Make a new file; whether it can be executed is in its name.
pub fn make_file(path: &std::path::Path, _: bool) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
