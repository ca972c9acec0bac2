//! What the node and the init of a run say to each other, over a socket that keeps messages whole.

use rustix::io::Errno;

use super::stage::{Call, Failure};

/// From the init to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromInit {
    /// A step failed; the init ends.
    Failed(Failure),
    /// With it come the proxy's listener and the resolver's socket.
    Network,
    /// With it comes the terminal's master.
    Terminal,
    /// The command's process is confined and waits for [`GO`] before it starts the command.
    Ready,
    /// The command did not start.
    NotStarted(Start),
    /// The command ended.
    Ended {
        /// Its wait status.
        status: i32,
        /// No other process of the run is left: only the init itself still is, and ends now.
        alone: bool,
    },
    /// The command stopped by this signal.
    Stopped(i32),
    /// The command goes on.
    Continued,
}

/// Why a command did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// No such program on the run's PATH.
    NotFound,
    /// There, but not to be executed: what the kernel answered.
    NotExecutable(Errno),
}

/// The node's word that the command may start.
pub const GO: u8 = b'g';

/// From the node to the init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToInit {
    /// Send this signal to the command's process group.
    Signal(i32),
}

/// Every message is this long.
pub const LENGTH: usize = 12;

impl FromInit {
    /// The message's bytes.
    pub fn encode(self) -> [u8; LENGTH] {
        let (tag, a, b, value) = match self {
            FromInit::Failed(Failure { step, call, errno }) => {
                (1, call.number(), step.unwrap_or(u16::MAX), errno.raw_os_error())
            }
            FromInit::Network => (2, 0, 0, 0),
            FromInit::Terminal => (2, 1, 0, 0),
            FromInit::Ready => (3, 0, 0, 0),
            FromInit::NotStarted(Start::NotFound) => (4, 0, 0, 0),
            FromInit::NotStarted(Start::NotExecutable(errno)) => (4, 1, 0, errno.raw_os_error()),
            FromInit::Ended { status, alone } => (5, u8::from(alone), 0, status),
            FromInit::Stopped(signal) => (6, 0, 0, signal),
            FromInit::Continued => (7, 0, 0, 0),
        };
        let mut bytes = [0; LENGTH];
        bytes[0] = tag;
        bytes[1] = a;
        bytes[2..4].copy_from_slice(&b.to_le_bytes());
        bytes[4..8].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Read a message.
    pub fn decode(bytes: &[u8]) -> Option<FromInit> {
        let bytes: [u8; LENGTH] = bytes.try_into().ok()?;
        let small = u16::from_le_bytes([bytes[2], bytes[3]]);
        let value = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Some(match bytes[0] {
            1 => FromInit::Failed(Failure {
                step: (small != u16::MAX).then_some(small),
                call: Call::from_number(bytes[1])?,
                errno: Errno::from_raw_os_error(value),
            }),
            2 if bytes[1] == 0 => FromInit::Network,
            2 => FromInit::Terminal,
            3 => FromInit::Ready,
            4 if bytes[1] == 0 => FromInit::NotStarted(Start::NotFound),
            4 => FromInit::NotStarted(Start::NotExecutable(Errno::from_raw_os_error(value))),
            5 => FromInit::Ended { status: value, alone: bytes[1] != 0 },
            6 => FromInit::Stopped(value),
            7 => FromInit::Continued,
            _ => return None,
        })
    }
}

impl ToInit {
    /// The message's bytes.
    pub fn encode(self) -> [u8; 4] {
        let ToInit::Signal(number) = self;
        number.to_le_bytes()
    }

    /// Read a message.
    pub fn decode(bytes: &[u8]) -> Option<ToInit> {
        Some(ToInit::Signal(i32::from_le_bytes(bytes.try_into().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_went() {
        for message in [
            FromInit::Failed(Failure { step: Some(7), call: Call::MoveMount, errno: Errno::PERM }),
            FromInit::Failed(Failure { step: None, call: Call::Hand, errno: Errno::INVAL }),
            FromInit::Network,
            FromInit::Terminal,
            FromInit::Ready,
            FromInit::NotStarted(Start::NotFound),
            FromInit::NotStarted(Start::NotExecutable(Errno::ACCESS)),
            FromInit::Ended { status: 0x0b00, alone: true },
            FromInit::Ended { status: 9, alone: false },
            FromInit::Stopped(20),
            FromInit::Continued,
        ] {
            assert_eq!(FromInit::decode(&message.encode()), Some(message));
        }
        assert_eq!(FromInit::decode(&[9; LENGTH]), None);
        assert_eq!(FromInit::decode(&[1; 3]), None);
        assert_eq!(ToInit::decode(&ToInit::Signal(15).encode()), Some(ToInit::Signal(15)));
    }
}
