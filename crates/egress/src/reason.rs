//! Why a connection was allowed, denied or failed: a closed set. Machines get the code, people the sentence. It
//! refuses to know how the answer is written on the wire.

use std::fmt;

use serde::Serialize;

/// The closed set. The serialised form is the stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A rule or a forwarded port covers it.
    Allowed,
    /// The head is ambiguous or broken.
    Malformed,
    /// The head, or one of its parts, is too large.
    HeadTooLarge,
    /// The head did not arrive in time.
    SlowHead,
    /// No token came with the request.
    TokenMissing,
    /// A token came that is not this run's.
    TokenWrong,
    /// No rule names the host.
    NotAllowed,
    /// A rule names the host, on other ports.
    PortNotAllowed,
    /// The host is, or leads to, addresses that are not public.
    PrivateAddress,
    /// A loopback URL whose port is not forwarded.
    PortNotForwarded,
    /// The name has no address, or the resolver failed.
    LookupFailed,
    /// No address took the connection.
    ConnectFailed,
    /// The upstream proxy did not open the way.
    UpstreamRefused,
    /// The origin's answer is ambiguous or broken.
    BadAnswer,
    /// As many connections as there may be.
    TooManyConnections,
    /// A program asked the resolver itself.
    NameLookup,
}

impl Reason {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Allowed => "allowed",
            Reason::Malformed => "malformed",
            Reason::HeadTooLarge => "head-too-large",
            Reason::SlowHead => "slow-head",
            Reason::TokenMissing => "token-missing",
            Reason::TokenWrong => "token-wrong",
            Reason::NotAllowed => "not-allowed",
            Reason::PortNotAllowed => "port-not-allowed",
            Reason::PrivateAddress => "private-address",
            Reason::PortNotForwarded => "port-not-forwarded",
            Reason::LookupFailed => "lookup-failed",
            Reason::ConnectFailed => "connect-failed",
            Reason::UpstreamRefused => "upstream-refused",
            Reason::BadAnswer => "bad-answer",
            Reason::TooManyConnections => "too-many-connections",
            Reason::NameLookup => "name-lookup",
        }
    }

    /// The flag that would allow it, when one would. `host` is in normal form.
    pub fn fix(self, host: &str, port: u16) -> Option<String> {
        match self {
            Reason::NotAllowed if port == 80 || port == 443 => Some(format!("--allow {host}")),
            Reason::NotAllowed | Reason::PortNotAllowed => Some(format!("--allow {host}:{port}")),
            Reason::PrivateAddress if is_address(host) => Some(format!("--allow {host}:{port}")),
            Reason::PrivateAddress => Some(match port {
                80 | 443 => format!("--allow {host}@ADDRESS"),
                _ => format!("--allow {host}@ADDRESS:{port}"),
            }),
            Reason::PortNotForwarded => Some(format!("--forward {port}")),
            _ => None,
        }
    }
}

/// A host in normal form is an address when it stands in brackets or is four decimal parts.
fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Allowed => "allowed",
            Reason::Malformed => "the request is ambiguous or broken",
            Reason::HeadTooLarge => "the request's head is too large",
            Reason::SlowHead => "the request's head did not arrive in time",
            Reason::TokenMissing => "the proxy wants the run's token",
            Reason::TokenWrong => "the token is not this run's",
            Reason::NotAllowed => "no --allow names this host",
            Reason::PortNotAllowed => "an --allow names this host, but not this port",
            Reason::PrivateAddress => "it is or leads to an address that is not public",
            Reason::PortNotForwarded => "this loopback port is not forwarded",
            Reason::LookupFailed => "the name could not be looked up",
            Reason::ConnectFailed => "no address of the host took the connection",
            Reason::UpstreamRefused => "the upstream proxy did not open the way",
            Reason::BadAnswer => "the host's answer is ambiguous or broken",
            Reason::TooManyConnections => "too many connections at once",
            Reason::NameLookup => "this program does not use the proxy",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_serialised_form() {
        for reason in [Reason::Allowed, Reason::TokenWrong, Reason::PortNotForwarded, Reason::NameLookup] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.code());
        }
    }

    #[test]
    fn fixes_are_flags_that_parse() {
        for (reason, host, port) in [
            (Reason::NotAllowed, "b.example", 443),
            (Reason::NotAllowed, "b.example", 22),
            (Reason::PortNotAllowed, "[2606:4700::1]", 8443),
            (Reason::PrivateAddress, "10.0.0.5", 80),
        ] {
            let fix = reason.fix(host, port).unwrap();
            let entry = fix.strip_prefix("--allow ").unwrap();
            let list = crate::Allowlist::parse([entry]).unwrap();
            assert!(list.rule_for(&host.parse().unwrap(), port).is_ok(), "{fix}");
        }
    }
}
