//! Typed ids, each with its prefix and exactly one spelling. Knows no source of randomness.

use std::fmt;
use std::str::FromStr;

use crate::Unknown;
use crate::word::exact_text;

/// Digits and letters, in the order of their values: ids sort as their bytes do.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
/// 128 bits, five a letter.
const LETTERS: usize = 26;

fn write(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: [u8; 16]) -> fmt::Result {
    let number = u128::from_be_bytes(bytes);
    let mut text = [0; LETTERS];
    for (place, letter) in text.iter_mut().enumerate() {
        // The first letter holds the three bits that are left over.
        let shift = 5 * (LETTERS - 1 - place);
        *letter = ALPHABET[(number >> shift) as usize & 31];
    }
    f.write_str(prefix)?;
    text.iter().try_for_each(|letter| fmt::Write::write_char(f, char::from(*letter)))
}

fn read(text: &str, prefix: &str) -> Option<[u8; 16]> {
    let letters = text.strip_prefix(prefix)?;
    if letters.len() != LETTERS {
        return None;
    }
    letters
        .bytes()
        .try_fold(0_u128, |number, letter| {
            let value = ALPHABET.iter().position(|known| *known == letter)? as u128;
            // More than 128 bits would be a second spelling.
            (number >> 123 == 0).then_some(number << 5 | value)
        })
        .map(u128::to_be_bytes)
}

macro_rules! ids {
    ($($(#[$meta:meta])* $Name:ident = $prefix:literal, $expected:literal;)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $Name([u8; 16]);

        impl $Name {
            /// The id with these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> $Name {
                $Name(bytes)
            }

            /// Its bytes.
            pub const fn bytes(self) -> [u8; 16] {
                self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(f, $prefix, self.0)
            }
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $Name {
            type Err = Unknown;

            fn from_str(text: &str) -> Result<Self, Unknown> {
                read(text, $prefix).map($Name).ok_or(Unknown { expected: $expected })
            }
        }

        exact_text!($Name);
    )+};
}

ids! {
    /// A tenant.
    TenantId = "tenant-", "a tenant's id";
    /// A node: the first bytes of its public key's digest, so that a node knows its id before anyone else does.
    NodeId = "node-", "a node's id";
    /// One start of a node's program.
    StartId = "start-", "a start's id";
    /// What turns something that comes in into a job.
    TriggerId = "trigger-", "a trigger's id";
    /// A job. Later ones sort later.
    JobId = "job-", "a job's id";
    /// What a sender calls one delivery, digested: its own spelling is kept nowhere.
    DeliveryId = "delivery-", "a delivery's id";
}

impl JobId {
    /// The job accepted at this time, with ten bytes of chance.
    pub fn new(at: super::Timestamp, chance: [u8; 10]) -> JobId {
        let mut bytes = [0; 16];
        let (time, rest) = bytes.split_at_mut(6);
        time.copy_from_slice(&at.milliseconds().to_be_bytes()[2..]);
        rest.copy_from_slice(&chance);
        JobId(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id = NodeId::from_bytes([0xff; 16]);
        assert_eq!(id.to_string(), "node-7vvvvvvvvvvvvvvvvvvvvvvvvv");
        assert_eq!(NodeId::from_bytes([0; 16]).to_string(), "node-00000000000000000000000000");
        for other in [
            "",
            "node-",
            "7vvvvvvvvvvvvvvvvvvvvvvvvv",
            "job-7vvvvvvvvvvvvvvvvvvvvvvvvv",
            "node-8vvvvvvvvvvvvvvvvvvvvvvvvv",
            "node-7VVVVVVVVVVVVVVVVVVVVVVVVV",
            "node-7vvvvvvvvvvvvvvvvvvvvvvvvw",
            "node-7vvvvvvvvvvvvvvvvvvvvvvvv",
            "node-07vvvvvvvvvvvvvvvvvvvvvvvvv",
            "node-7vvvvvvvvvvvvvvvvvvvvvvvvv ",
        ] {
            assert!(other.parse::<NodeId>().is_err(), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: [u8; 16], other: [u8; 16]) {
            let (one, two) = (JobId::from_bytes(bytes), JobId::from_bytes(other));
            prop_assert_eq!(one.to_string().parse(), Ok(one));
            prop_assert_eq!(one.cmp(&two), one.to_string().cmp(&two.to_string()));
        }

        #[test]
        fn no_text_has_a_second_spelling(text in "job-[0-9a-v]{25,27}") {
            if let Ok(id) = text.parse::<JobId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
