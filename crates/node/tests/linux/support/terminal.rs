//! A program at a terminal of its own, and this test as the person before it.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Gid, Uid};
use rustix::pty::OpenptFlags;
use rustix::termios::{Termios, Winsize};

use super::Place;

pub struct Terminal {
    pub child: Child,
    outside: OwnedFd,
    /// Kept open, so that the settings can be read after everybody has left.
    inside: OwnedFd,
    seen: String,
    /// Up to here `seen` has been asked for.
    read: usize,
}

impl Terminal {
    /// Start `command` (words; the first is a program) as the leader of a new session with a terminal.
    pub fn start(place: &Place, command: &[&std::ffi::OsStr]) -> Terminal {
        let outside =
            rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        rustix::pty::grantpt(&outside).unwrap();
        rustix::pty::unlockpt(&outside).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let inside = rustix::pty::ioctl_tiocgptpeer(&outside, flags).unwrap();
        let owner = (Uid::from_raw(place.user.uid()), Gid::from_raw(place.user.gid()));
        rustix::fs::fchown(&inside, Some(owner.0), Some(owner.1)).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&outside, size).unwrap();
        let mut setsid: Command = place.command("/usr/bin/setsid");
        setsid.arg("--ctty").args(command).env("TERM", "dumb").env("PS1", "$ ").current_dir(&place.work);
        let end = || Stdio::from(inside.try_clone().unwrap());
        let child = setsid.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Terminal { child, outside, inside, seen: String::new(), read: 0 }
    }

    /// Type.
    pub fn send(&self, keys: &str) {
        let mut rest = keys.as_bytes();
        while !rest.is_empty() {
            let written = rustix::io::write(&self.outside, rest).unwrap();
            rest = &rest[written..];
        }
    }

    /// Wait until this is on the screen, after what was waited for before. Gives all that came with it.
    #[track_caller]
    pub fn expect(&mut self, words: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen[self.read..].find(words) {
                let end = self.read + at + words.len();
                let came = self.seen[self.read..end].to_owned();
                self.read = end;
                return came;
            }
            assert!(start.elapsed() < Duration::from_secs(15), "no {words:?} on the screen:\n{}", self.seen);
            self.take(Duration::from_millis(100));
        }
    }

    /// Read what is there, or comes within that time.
    fn take(&mut self, limit: Duration) {
        let mut polled = [PollFd::new(&self.outside, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
        if rustix::event::poll(&mut polled, Some(&limit)).unwrap_or(0) == 0 {
            return;
        }
        let mut bytes = [0; 4096];
        if let Ok(read) = rustix::io::read(&self.outside, &mut bytes) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    /// All that is and was on the screen.
    pub fn screen(&mut self) -> &str {
        self.take(Duration::from_millis(100));
        &self.seen
    }

    pub fn settings(&self) -> Termios {
        rustix::termios::tcgetattr(&self.inside).unwrap()
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.outside, size).unwrap();
    }

    /// The status of the program, which must end soon.
    #[track_caller]
    pub fn end(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            self.take(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < Duration::from_secs(15), "it goes on:\n{}", self.seen);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Settings that a person would notice, to compare.
pub fn essence(settings: &Termios) -> String {
    format!(
        "{:?} {:?} {:?} {:?}",
        settings.input_modes, settings.output_modes, settings.control_modes, settings.local_modes
    )
}
