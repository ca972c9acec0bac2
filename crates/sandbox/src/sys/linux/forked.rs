//! For tests: something done in a forked child, where none of the test harness's other threads runs. What it does
//! to itself (another user, closed namespaces, a filter) ends with it.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitOptions};

/// How long a child may take.
const LONGEST: Duration = Duration::from_secs(60);

/// Do `body` in a forked child; when it panics there, panic here with its words.
pub fn in_child(body: impl FnOnce()) {
    let (mut answer, mut say) = std::io::pipe().unwrap();
    // SAFETY: no pointer is passed. The C library's allocator may be used after its own fork; the child takes no
    // lock of the harness's (it neither prints nor spawns, unless it fails) and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        drop(answer);
        let said = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(()) => "ok".to_owned(),
            Err(panic) => match panic.downcast::<String>() {
                Ok(message) => *message,
                Err(panic) => panic.downcast_ref::<&str>().map_or("a panic", |message| message).to_owned(),
            },
        };
        let _ = say.write_all(said.as_bytes());
        super::process::exit_now(0);
    }
    drop(say);
    let child = Pid::from_raw(child).unwrap();
    let end = Instant::now() + LONGEST;
    let mut said = Vec::new();
    let timely = loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::from_borrowed_fd(answer.as_fd(), PollFlags::IN)];
        let left = Timespec::try_from(left).unwrap();
        if rustix::event::poll(&mut polled, Some(&left)) == Ok(0) {
            break false;
        }
        let mut bytes = [0u8; 4096];
        match answer.read(&mut bytes).unwrap() {
            0 => break true,
            length => said.extend_from_slice(&bytes[..length]),
        }
    };
    let _ = rustix::process::kill_process(child, Signal::KILL);
    rustix::process::waitpid(Some(child), WaitOptions::empty()).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(timely, "the child did not end: {said}");
    assert!(said == "ok", "in the child: {said}");
}
