//! One validator and one normal form for every host that enters: allowlist entries, request targets, `Host`
//! fields, upstream proxies. It refuses to know what is allowed, and never looks a name up.
//!
//! The normal form of a name is lower case ASCII without its one trailing dot. An address is an address only in
//! its full form: four decimal parts, or an IPv6 literal (in brackets wherever a port may follow).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Longest name that the DNS can hold in text form.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Why a text is not a host, or not a host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing was given.
    #[error("the host is empty")]
    Empty,
    /// A byte above 0x7f: look-alike letters are never compared.
    #[error("the host is not ASCII: give its xn-- form")]
    NotAscii,
    /// A percent sign: an escape or a zone id, neither is taken.
    #[error("the host holds a percent sign: neither escapes nor zone ids are taken")]
    Percent,
    /// Any other byte that no host name has.
    #[error("the host holds the byte {0:#04x}: letters, digits, '-', '.' and '_' are taken")]
    Byte(u8),
    /// Two dots in a row, or a dot at the start.
    #[error("the host has an empty label")]
    EmptyLabel,
    /// A label begins or ends with a hyphen.
    #[error("a label of the host begins or ends with '-'")]
    Hyphen,
    /// Longer than the DNS can hold.
    #[error("the host is longer than a name may be (253, and 63 a label)")]
    TooLong,
    /// `127.1`, `2130706433`, `0x7f.1`, `010.0.0.1`, and kin.
    #[error("the host is a number or a short form of an address: write all four decimal parts")]
    Number,
    /// Brackets that do not hold an IPv6 literal, or are not closed.
    #[error("brackets belong around an IPv6 address and nothing else")]
    Brackets,
    /// Several colons without brackets.
    #[error("several colons: an IPv6 address stands in brackets, once, with the port after them")]
    Colons,
    /// Not 1 to 65535 in plain decimal digits.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

/// A host name in normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// The name in normal form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for `localhost` and everything below it: RFC 6761 binds both to loopback.
    pub fn is_localhost(&self) -> bool {
        self.0.strip_suffix("localhost").is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// True when this name lies below `apex`, at any depth, and is not `apex` itself.
    pub fn is_below(&self, apex: &Name) -> bool {
        self.0.strip_suffix(apex.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host: a name to look up, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name in normal form.
    Name(Name),
    /// An address, its bytes kept as they were written: a wrapped IPv4 address is not unwrapped here.
    Address(IpAddr),
}

impl Host {
    /// Reads a host that has neither brackets nor port: a name or an IPv4 address.
    fn plain(text: &str) -> Result<Host, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {}
                b'%' => return Err(HostError::Percent),
                b'[' | b']' => return Err(HostError::Brackets),
                b':' => return Err(HostError::Colons),
                0x80.. => return Err(HostError::NotAscii),
                other => return Err(HostError::Byte(other)),
            }
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.len() > LONGEST_NAME {
            return Err(HostError::TooLong);
        }
        let mut last = name;
        for label in name.split('.') {
            match label.len() {
                0 => return Err(HostError::EmptyLabel),
                1..=LONGEST_LABEL => {}
                _ => return Err(HostError::TooLong),
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err(HostError::Hyphen);
            }
            last = label;
        }
        // What ends in a number is an address for every resolver (inet_aton), so it is one here or nothing. The
        // trailing dot is no part of an address.
        if is_numeric(last) {
            return match text.parse::<Ipv4Addr>() {
                Ok(address) => Ok(Host::Address(address.into())),
                Err(_) => Err(HostError::Number),
            };
        }
        Ok(Host::Name(Name(name.to_ascii_lowercase())))
    }

    /// The three ways to write "this machine" that reach a forwarded port.
    pub fn is_own_loopback(&self) -> bool {
        match self {
            Host::Name(name) => name.as_str() == "localhost",
            Host::Address(address) => *address == Ipv4Addr::LOCALHOST || *address == Ipv6Addr::LOCALHOST,
        }
    }

    /// The host with its port, as a request line or an `--allow` wants it.
    pub fn with_port(&self, port: u16) -> impl fmt::Display {
        WithPort { host: self, port }
    }
}

/// A label that inet_aton would read as a number: decimal or octal digits, or 0x and hex digits (even none).
fn is_numeric(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|b| b.is_ascii_digit()) || hex.is_some_and(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl FromStr for Host {
    type Err = HostError;

    /// A name, an IPv4 address, or an IPv6 address with or without brackets. No port.
    fn from_str(text: &str) -> Result<Host, HostError> {
        if let Some(inner) = text.strip_prefix('[') {
            return bracketed(inner.strip_suffix(']').ok_or(HostError::Brackets)?);
        }
        if text.bytes().filter(|b| *b == b':').count() > 1 {
            return bracketed(text).map_err(|error| match error {
                HostError::Brackets => HostError::Colons,
                other => other,
            });
        }
        Host::plain(text)
    }
}

fn bracketed(inner: &str) -> Result<Host, HostError> {
    if inner.contains('%') {
        return Err(HostError::Percent);
    }
    inner.parse::<Ipv6Addr>().map(|address| Host::Address(address.into())).map_err(|_| HostError::Brackets)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(f),
            Host::Address(IpAddr::V4(address)) => address.fmt(f),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

struct WithPort<'a> {
    host: &'a Host,
    port: u16,
}

impl fmt::Display for WithPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A host and, perhaps, a port: `host`, `host:port`, `[v6]`, `[v6]:port`. Userinfo is never taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    /// The host in normal form.
    pub host: Host,
    /// The port, when one was written.
    pub port: Option<u16>,
}

impl FromStr for Authority {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Authority, HostError> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (inner, after) = rest.split_once(']').ok_or(HostError::Brackets)?;
            let host = bracketed(inner)?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or(HostError::Brackets)?)),
            }
        } else {
            match text.split_once(':') {
                None => (Host::plain(text)?, None),
                Some((_, rest)) if rest.contains(':') => return Err(HostError::Colons),
                Some((host, port)) => (Host::plain(host)?, Some(port)),
            }
        };
        Ok(Authority { host, port: port.map(parse_port).transpose()? })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => self.host.with_port(port).fmt(f),
            None => self.host.fmt(f),
        }
    }
}

/// A port in plain decimal: no sign, no leading zero, never 0.
pub(crate) fn parse_port(text: &str) -> Result<u16, HostError> {
    let plain = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().map_err(|_| HostError::Port) } else { Err(HostError::Port) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> String {
        match text.parse::<Host>() {
            Ok(Host::Name(name)) => name.to_string(),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn c092_one_normal_form() {
        for text in ["example.com", "EXAMPLE.com", "example.com.", "ExAmPlE.CoM."] {
            assert_eq!(name(text), "example.com");
        }
        assert_eq!(name("a_b.xn--bcher-kva.example"), "a_b.xn--bcher-kva.example");
    }

    #[test]
    fn c092_c094_odd_names_are_errors() {
        for (text, error) in [
            ("", HostError::Empty),
            (".", HostError::EmptyLabel),
            ("example.com..", HostError::EmptyLabel),
            (".example.com", HostError::EmptyLabel),
            ("a..example.com", HostError::EmptyLabel),
            ("example.com%00.evil.test", HostError::Percent),
            ("exa mple.com", HostError::Byte(b' ')),
            ("example.com\t", HostError::Byte(b'\t')),
            ("attacker.example\0.google.com", HostError::Byte(0)),
            ("user@example.com", HostError::Byte(b'@')),
            ("a\\b.example", HostError::Byte(b'\\')),
            ("bücher.example", HostError::NotAscii),
            ("-a.example", HostError::Hyphen),
            ("a-.example", HostError::Hyphen),
        ] {
            assert_eq!(text.parse::<Host>(), Err(error), "{text:?}");
        }
        assert_eq!("a".repeat(64).parse::<Host>(), Err(HostError::TooLong));
        assert_eq!(vec!["a".repeat(60); 5].join(".").parse::<Host>(), Err(HostError::TooLong));
    }

    #[test]
    fn numbers_that_resolvers_take_for_addresses_are_errors() {
        for text in [
            "2130706433",
            "127.1",
            "0x7f.1",
            "010.0.0.1",
            "0x7f000001",
            "127.0.0.1.",
            "1.2.3.4.5",
            "256.1.1.1",
            "0x",
            "0X7F.0.0.1",
            "a.example.1",
            "1.2.3.0x4",
            "127.0.0.01",
            "017700000001",
        ] {
            assert_eq!(text.parse::<Host>(), Err(HostError::Number), "{text}");
        }
        assert_eq!("127.0.0.1".parse(), Ok(Host::Address([127, 0, 0, 1].into())));
        assert_eq!(name("1.2.3.4.example"), "1.2.3.4.example");
        assert_eq!(name("0xyz"), "0xyz");
    }

    #[test]
    fn c097_authorities() {
        for (text, error) in [
            ("[allowed.example]:443", HostError::Brackets),
            ("[::1", HostError::Brackets),
            ("::1:443", HostError::Colons),
            ("allowed.example:443:443", HostError::Colons),
            ("[::1]443", HostError::Brackets),
            ("[::1]:", HostError::Port),
            ("[::1%lo]:443", HostError::Percent),
            ("[fe80::1%25eth0]:443", HostError::Percent),
            ("[127.0.0.1]:80", HostError::Brackets),
            ("a.example:", HostError::Port),
            ("a.example:0", HostError::Port),
            ("a.example:99999", HostError::Port),
            ("a.example:65536", HostError::Port),
            ("a.example:+80", HostError::Port),
            ("a.example:080", HostError::Port),
            ("a.example:8 0", HostError::Port),
            (":443", HostError::Empty),
        ] {
            assert_eq!(text.parse::<Authority>(), Err(error), "{text:?}");
        }
        assert_eq!("[::1]:443".parse::<Authority>().unwrap().to_string(), "[::1]:443");
        assert_eq!("A.example.:65535".parse::<Authority>().unwrap().to_string(), "a.example:65535");
    }

    proptest! {
        #[test]
        fn the_normal_form_is_a_fixed_point(text in "[ -~]{0,40}") {
            if let Ok(authority) = text.parse::<Authority>() {
                let shown = authority.to_string();
                prop_assert_eq!(shown.parse::<Authority>(), Ok(authority));
                prop_assert!(!shown.bytes().any(|b| b.is_ascii_uppercase() || b == b' ' || b == b'%'));
            }
        }

        #[test]
        fn nothing_that_is_parsed_holds_odd_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = std::str::from_utf8(&bytes)
                && let Ok(Host::Name(name)) = text.parse::<Host>() {
                prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)));
                prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
            }
        }
    }
}
