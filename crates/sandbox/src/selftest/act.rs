//! What a subject may be asked to try, and what it answers: plain data, one JSON text each.
//!
//! An answer keeps "the system refused" apart from "it could not be tried", since only the first says anything
//! about a sandbox. No answer carries the contents of a file or the run's token.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sys::attempt;
use crate::text;

/// One thing to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// Open a file for writing, made when it is not there, and add a line.
    Write(#[serde(with = "text::path")] PathBuf),
    /// Open a file and read it.
    Read(#[serde(with = "text::path")] PathBuf),
    /// List a folder.
    List(#[serde(with = "text::path")] PathBuf),
    /// Give a file or folder another name.
    Rename {
        /// What.
        #[serde(with = "text::path")]
        from: PathBuf,
        /// Its new name.
        #[serde(with = "text::path")]
        to: PathBuf,
    },
    /// Open a TCP connection.
    Connect(SocketAddr),
    /// Send a datagram with these words.
    Send {
        /// Where to.
        address: SocketAddr,
        /// What it says.
        words: String,
    },
    /// Open an ICMP socket that leads to this address. Nothing is sent.
    Ping(Ipv4Addr),
    /// Listen, reach oneself there when asked to, then greet whoever connects until told to end.
    Serve {
        /// Where.
        addresses: Vec<SocketAddr>,
        /// How a peer is greeted.
        greeting: String,
        /// Whether it must reach itself.
        reach: bool,
    },
    /// Listen on the loopback and reach oneself there.
    DialItself,
    /// Say where the proxy is.
    FindProxy,
    /// Ask for a page through the proxy.
    Fetch {
        /// Which.
        url: String,
        /// With which token.
        token: TokenUsed,
    },
    /// Start this many processes that stay until all were started.
    Start(u32),
    /// Use memory: start `processes` that touch `bytes` each, and stay until all have.
    Touch {
        /// How many.
        processes: u32,
        /// How much each.
        bytes: u64,
    },
    /// Use CPU for a time, with this many threads.
    Burn {
        /// How long.
        milliseconds: u64,
        /// How many.
        threads: u32,
    },
    /// Name all variables, and say the values of these.
    Variables {
        /// Which values are asked for.
        values: Vec<String>,
    },
    /// Try to read what other processes know, and to trace them.
    Spy(Spied),
    /// Start a process that leaves: a session of its own, its parent gone, deaf to signals.
    Leave,
    /// Be that process: `generations` more start each other first.
    Linger {
        /// How many.
        generations: u32,
    },
    /// Be a process that touches memory and stays until its standard input ends.
    Hold {
        /// How much.
        bytes: u64,
    },
}

/// Whose token a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenUsed {
    /// The run's own, from its variables.
    Own,
    /// None.
    None,
    /// One of the right form that is nobody's.
    Other,
}

/// Who is spied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spied {
    /// Every process that is seen, but for oneself.
    Others,
    /// A process that the subject starts for it: what anybody may do.
    OwnChild,
}

/// What came of an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done; what was seen.
    Done(Seen),
    /// The system refused the very thing that was tried.
    Refused(Refused),
    /// It could not be tried.
    Untried(String),
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Nothing to tell.
    Nothing,
    /// So many: bytes read, names listed, processes started.
    Count(u64),
    /// An address.
    Address(SocketAddr),
    /// A process, by its number.
    Process(i32),
    /// The proxy's answer.
    Reply {
        /// Its status.
        status: u16,
        /// Its body.
        body: String,
    },
    /// CPU time used in a time, in microseconds.
    Cpu {
        /// Used.
        used: u64,
        /// Passed.
        passed: u64,
    },
    /// Variables.
    Variables {
        /// The names of all.
        names: Vec<String>,
        /// The values of those that were asked for.
        values: BTreeMap<String, String>,
    },
    /// What was tried on other processes.
    Spied(Vec<Attempt>),
}

/// One thing tried on one other process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The process.
    pub process: i32,
    /// What was tried: a file's name in its folder of /proc, or a call.
    pub what: String,
    /// None: it was done.
    pub refused: Option<Refused>,
}

/// A refusal: its kind on every system, and this system's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The kind.
    pub kind: RefusalKind,
    /// The system's number, when it gave one.
    pub code: Option<i32>,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Access denied.
    Denied,
    /// A read-only file system.
    ReadOnly,
    /// In use, as a mount point is that is to be renamed.
    Busy,
    /// Not there.
    NotFound,
    /// Nobody listens.
    ConnectionRefused,
    /// No way leads there.
    Unreachable,
    /// The system has no such thing, or says so.
    Unsupported,
    /// No answer.
    TimedOut,
    /// No more of it.
    Exhausted,
    /// The process was killed.
    Killed,
    /// Anything else.
    Other,
}

impl Refused {
    /// What an OS error is.
    pub fn from_error(error: &io::Error) -> Refused {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied => RefusalKind::Denied,
            io::ErrorKind::ReadOnlyFilesystem => RefusalKind::ReadOnly,
            io::ErrorKind::ResourceBusy => RefusalKind::Busy,
            io::ErrorKind::NotFound => RefusalKind::NotFound,
            io::ErrorKind::ConnectionRefused => RefusalKind::ConnectionRefused,
            io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::AddrNotAvailable => RefusalKind::Unreachable,
            io::ErrorKind::TimedOut => RefusalKind::TimedOut,
            io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory | io::ErrorKind::StorageFull => {
                RefusalKind::Exhausted
            }
            io::ErrorKind::Unsupported => RefusalKind::Unsupported,
            _ if error.raw_os_error().is_some_and(attempt::is_unsupported) => RefusalKind::Unsupported,
            _ if error.raw_os_error().is_some_and(attempt::is_exhausted) => RefusalKind::Exhausted,
            _ => RefusalKind::Other,
        };
        Refused { kind, code: error.raw_os_error() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.kind) {
            (Some(code), _) => write!(f, "{}", io::Error::from_raw_os_error(code)),
            (None, RefusalKind::Killed) => f.write_str("killed"),
            (None, RefusalKind::TimedOut) => f.write_str("no answer"),
            (None, kind) => write!(f, "{kind:?}"),
        }
    }
}

impl Answer {
    /// Done, or refused with this error.
    pub fn of<T>(result: io::Result<T>, seen: impl FnOnce(T) -> Seen) -> Answer {
        match result {
            Ok(value) => Answer::Done(seen(value)),
            Err(error) => Answer::Refused(Refused::from_error(&error)),
        }
    }

    /// A step before the one in question failed.
    pub fn untried(what: &str, error: impl fmt::Display) -> Answer {
        Answer::Untried(format!("{what}: {error}"))
    }
}

/// The act in words, for the line of a check.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Write(path) => write!(f, "writing {}", text::escape(path)),
            Act::Read(path) => write!(f, "reading {}", text::escape(path)),
            Act::List(path) => write!(f, "listing {}", text::escape(path)),
            Act::Rename { from, .. } => write!(f, "renaming {}", text::escape(from)),
            Act::Connect(address) => write!(f, "connecting to {address}"),
            Act::Send { address, .. } => write!(f, "a datagram to {address}"),
            Act::Ping(_) => f.write_str("ICMP"),
            Act::Serve { .. } => f.write_str("listening"),
            Act::DialItself => f.write_str("reaching itself on the loopback"),
            Act::FindProxy => f.write_str("finding the proxy"),
            Act::Fetch { url, token } => {
                let how = match token {
                    TokenUsed::Own => "",
                    TokenUsed::None => " without the token",
                    TokenUsed::Other => " with another token",
                };
                write!(f, "{url} through the proxy{how}")
            }
            Act::Start(number) => write!(f, "starting {number} processes"),
            Act::Touch { processes: 1, bytes } => write!(f, "{} MiB in one process", bytes >> 20),
            Act::Touch { processes, bytes } => {
                write!(f, "{} MiB in each of {processes} processes", bytes >> 20)
            }
            Act::Burn { .. } => f.write_str("using CPU"),
            Act::Variables { .. } => f.write_str("reading the variables"),
            Act::Spy(Spied::Others) => f.write_str("looking into other processes"),
            Act::Spy(Spied::OwnChild) => f.write_str("looking into a process of its own"),
            Act::Leave | Act::Linger { .. } => f.write_str("leaving a process behind"),
            Act::Hold { .. } => f.write_str("staying"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_come_back_as_they_went_whatever_a_path_holds() {
        let odd = text::tests::odd_path();
        for act in [
            Act::Read(odd.clone()),
            Act::Rename { from: odd.clone(), to: odd },
            Act::Connect("[::ffff:127.0.0.1]:80".parse().unwrap()),
            Act::Fetch { url: "http://127.0.0.1:1/".into(), token: TokenUsed::None },
            Act::FindProxy,
            Act::Spy(Spied::Others),
        ] {
            let json = serde_json::to_string(&act).unwrap();
            assert_eq!(serde_json::from_str::<Act>(&json).unwrap(), act, "{json}");
        }
        assert!(serde_json::from_str::<Act>(r#"{"erase":"/"}"#).is_err());
    }

    #[test]
    fn refusals_keep_their_number_and_have_a_kind() {
        // As Linux numbers them, and as Windows does, a socket's apart from a file's.
        let (linux, windows) = (0, 1);
        let numbers = [
            ([13, 5], RefusalKind::Denied),
            ([1, 10013], RefusalKind::Denied),
            ([30, 19], RefusalKind::ReadOnly),
            ([16, 170], RefusalKind::Busy),
            ([2, 3], RefusalKind::NotFound),
            ([111, 10061], RefusalKind::ConnectionRefused),
            ([101, 10051], RefusalKind::Unreachable),
            ([97, 10047], RefusalKind::Unsupported),
            ([11, 1816], RefusalKind::Exhausted),
            ([12, 1455], RefusalKind::Exhausted),
            ([18, 17], RefusalKind::Other),
        ];
        for (codes, kind) in numbers {
            let code = codes[if cfg!(windows) { windows } else { linux }];
            let refused = Refused::from_error(&io::Error::from_raw_os_error(code));
            assert_eq!((refused.kind, refused.code), (kind, Some(code)), "{code}");
        }
    }
}
