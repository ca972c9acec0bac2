//! One allowlist entry: its grammar, its normal form, what it covers. It refuses to know the other entries.

use std::fmt;
use std::net::IpAddr;

use crate::address::{Kind, is_wrapped, judge};
use crate::host::{Authority, Host, HostError, Name};

/// Why an entry is no rule. Each sentence says what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An empty entry.
    #[error("an empty entry allows nothing: name a host")]
    Empty,
    /// Several values in one.
    #[error("one host a flag: give --allow once per host")]
    Several,
    /// A URL or a path.
    #[error("a host is wanted, not a URL: leave out scheme and path")]
    Url,
    /// `*` alone.
    #[error("'*' alone is no pattern: give --allow-any if every host is meant")]
    Star,
    /// A star in any other place than the leading label.
    #[error("a star stands for the leading labels only, as in *.example.com")]
    StarInside,
    /// `*.com`, `*.co.uk`.
    #[error("the pattern covers a whole public suffix: name the domain below it, as in *.example.com")]
    TooBroad,
    /// `.example.com`.
    #[error("a leading dot is no pattern: write *.example.com for the names below, example.com for itself")]
    LeadingDot,
    /// A wildcard with an address.
    #[error("a wildcard cannot lead to an address: name each host, as in nexus.corp@10.0.0.5")]
    WildcardPlace,
    /// What follows the @ is no address, or what precedes it no name.
    #[error("NAME@ADDRESS wants a host name before the @ and the address it may lead to after it")]
    Place,
    /// `localhost`.
    #[error("localhost is this machine, which no name reaches: give --forward PORT")]
    Localhost,
    /// A closed address without a port.
    #[error("this is {0}: it can be allowed with its port alone, as in ADDRESS:PORT")]
    PortWanted(Kind),
    /// An address that nobody dials.
    #[error("this is {0}, which cannot be allowed")]
    NeverAllowed(Kind),
    /// An IPv4 address in an IPv6 form.
    #[error("this is an IPv4 address in an IPv6 form: give the IPv4 address itself")]
    Wrapped,
    /// The host or the port.
    #[error("{0}")]
    Host(#[from] HostError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exact(Name),
    Below(Name),
    Address(IpAddr),
    Placed(Name, IpAddr),
    Any,
}

/// One entry of the allowlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pattern: Pattern,
    /// None stands for 80 and 443.
    port: Option<u16>,
}

/// Second-level labels that registries of two-letter domains sell names below. No full list of public suffixes:
/// it catches the slip (`*.co.uk`), while names that only a tenant knows to be shared are the tenant's to know.
const REGISTRY_LABELS: [&str; 15] =
    ["ac", "co", "com", "edu", "gob", "gov", "go", "ltd", "me", "mil", "ne", "net", "or", "org", "plc"];

impl Rule {
    /// Reads one entry.
    pub(super) fn parse(entry: &str) -> Result<Rule, Problem> {
        if entry.is_empty() {
            return Err(Problem::Empty);
        }
        if entry.contains([';', ',']) || entry.contains(char::is_whitespace) {
            return Err(Problem::Several);
        }
        if entry.contains('/') {
            return Err(Problem::Url);
        }
        if entry == "*" {
            return Err(Problem::Star);
        }
        if let Some((name, place)) = entry.split_once('@') {
            return Rule::placed(name, place);
        }
        if let Some(apex) = entry.strip_prefix("*.") {
            return Rule::below(apex);
        }
        if entry.contains('*') {
            return Err(Problem::StarInside);
        }
        if entry.starts_with('.') {
            return Err(Problem::LeadingDot);
        }
        let Authority { host, port } = authority(entry)?;
        match host {
            Host::Name(name) if name.is_localhost() => Err(Problem::Localhost),
            Host::Name(name) => Ok(Rule { pattern: Pattern::Exact(name), port }),
            Host::Address(address) => {
                let kind = nameable(address)?;
                if kind != Kind::Public && port.is_none() {
                    return Err(Problem::PortWanted(kind));
                }
                Ok(Rule { pattern: Pattern::Address(address), port })
            }
        }
    }

    fn placed(name: &str, place: &str) -> Result<Rule, Problem> {
        if name.contains('*') {
            return Err(Problem::WildcardPlace);
        }
        let Host::Name(name) = name.parse()? else { return Err(Problem::Place) };
        match authority(place) {
            Ok(Authority { host: Host::Address(address), port }) => {
                nameable(address)?;
                Ok(Rule { pattern: Pattern::Placed(name, address), port })
            }
            Ok(_) => Err(Problem::Place),
            Err(error) => Err(error.into()),
        }
    }

    fn below(apex: &str) -> Result<Rule, Problem> {
        if apex.contains('*') {
            return Err(Problem::StarInside);
        }
        let Authority { host, port } = authority(apex)?;
        let Host::Name(name) = host else { return Err(Problem::StarInside) };
        if name.is_localhost() {
            return Err(Problem::Localhost);
        }
        let too_broad = match name.as_str().split_once('.') {
            None => true,
            Some((label, country)) => country.len() == 2 && REGISTRY_LABELS.contains(&label),
        };
        if too_broad {
            return Err(Problem::TooBroad);
        }
        Ok(Rule { pattern: Pattern::Below(name), port })
    }

    /// The rule behind `--allow-any`.
    pub(super) fn any() -> Rule {
        Rule { pattern: Pattern::Any, port: None }
    }

    /// True for the rule behind `--allow-any`.
    pub fn is_any(&self) -> bool {
        self.pattern == Pattern::Any
    }

    /// The flag that gave this rule.
    pub fn flag(&self) -> String {
        if self.is_any() { "--allow-any".to_owned() } else { format!("--allow {self}") }
    }

    /// The address that the name of this rule may lead to, for `name@address`.
    pub fn place(&self) -> Option<IpAddr> {
        match self.pattern {
            Pattern::Placed(_, address) => Some(address),
            _ => None,
        }
    }

    /// True when this rule's destination lies in this node's own surroundings, so that no upstream proxy can
    /// reach it for us: a name with its address, or an address that is not public.
    pub fn is_near(&self) -> bool {
        match self.pattern {
            Pattern::Placed(..) => true,
            Pattern::Address(address) => judge(address) != Kind::Public,
            Pattern::Exact(_) | Pattern::Below(_) | Pattern::Any => false,
        }
    }

    pub(super) fn names(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (Pattern::Exact(name) | Pattern::Placed(name, _), Host::Name(asked)) => name == asked,
            (Pattern::Below(apex), Host::Name(asked)) => asked.is_below(apex),
            (Pattern::Address(address), Host::Address(asked)) => address == asked,
            (Pattern::Any, Host::Name(asked)) => !asked.is_localhost(),
            (Pattern::Any, Host::Address(asked)) => judge(*asked) == Kind::Public,
            _ => false,
        }
    }

    pub(super) fn covers_port(&self, port: u16) -> bool {
        match self.port {
            Some(only) => only == port,
            None => port == 80 || port == 443,
        }
    }

    pub(super) fn leads_to(&self, address: IpAddr) -> bool {
        match self.pattern {
            Pattern::Placed(_, place) | Pattern::Address(place) => place == address,
            Pattern::Exact(_) | Pattern::Below(_) | Pattern::Any => judge(address) == Kind::Public,
        }
    }

    /// Which ports, in words.
    pub(super) fn coverage(&self) -> String {
        match self.port {
            Some(port) => format!("port {port}"),
            None => "ports 80 and 443".to_owned(),
        }
    }
}

/// A host with a port, or an IPv6 address without brackets and so without a port.
fn authority(text: &str) -> Result<Authority, HostError> {
    if !text.starts_with('[') && text.bytes().filter(|b| *b == b':').count() > 1 {
        return Ok(Authority { host: text.parse()?, port: None });
    }
    text.parse()
}

fn nameable(address: IpAddr) -> Result<Kind, Problem> {
    if is_wrapped(address) {
        return Err(Problem::Wrapped);
    }
    let kind = judge(address);
    if kind.may_be_named() { Ok(kind) } else { Err(Problem::NeverAllowed(kind)) }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Exact(name) => name.fmt(f)?,
            Pattern::Below(apex) => write!(f, "*.{apex}")?,
            Pattern::Address(address) => Host::Address(*address).fmt(f)?,
            Pattern::Placed(name, address) => write!(f, "{name}@{}", Host::Address(*address))?,
            Pattern::Any => f.write_str("any")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowlist::Allowlist;

    #[test]
    fn c010_c089_errors_name_the_entry_and_the_fix() {
        for (entry, problem) in [
            ("", Problem::Empty),
            ("a.example;b.example", Problem::Several),
            ("a.example,b.example", Problem::Several),
            ("a.example b.example", Problem::Several),
            ("a.example, b.example", Problem::Several),
            (" a.example", Problem::Several),
            ("a.example\n", Problem::Several),
            ("https://a.example/", Problem::Url),
            ("a.example/path", Problem::Url),
            ("*", Problem::Star),
            ("**", Problem::StarInside),
            ("*.*", Problem::StarInside),
            ("**.example.com", Problem::StarInside),
            ("*.*.example.com", Problem::StarInside),
            ("example.*", Problem::StarInside),
            ("ex*mple.com", Problem::StarInside),
            ("*example.com", Problem::StarInside),
            ("*:443", Problem::StarInside),
            ("*.10.0.0.1", Problem::StarInside),
            ("*.com", Problem::TooBroad),
            ("*.com.", Problem::TooBroad),
            ("*.CO.uk", Problem::TooBroad),
            ("*.com:8443", Problem::TooBroad),
            (".example.com", Problem::LeadingDot),
            ("*.example.com@10.0.0.5", Problem::WildcardPlace),
            ("*@10.0.0.5", Problem::WildcardPlace),
            ("user@example.com", Problem::Place),
            ("10.0.0.5@10.0.0.5", Problem::Place),
            ("nexus.corp@", Problem::Host(HostError::Empty)),
            ("localhost", Problem::Localhost),
            ("LOCALHOST.:8080", Problem::Localhost),
            ("*.localhost", Problem::Localhost),
            ("10.0.0.5", Problem::PortWanted(Kind::Private)),
            ("::1", Problem::PortWanted(Kind::Loopback)),
            ("169.254.169.254:80", Problem::NeverAllowed(Kind::Metadata)),
            ("x.example@169.254.169.254", Problem::NeverAllowed(Kind::Metadata)),
            ("0.0.0.0:80", Problem::NeverAllowed(Kind::Unspecified)),
            ("224.0.0.1:80", Problem::NeverAllowed(Kind::Multicast)),
            ("[::ffff:127.0.0.1]:8080", Problem::Wrapped),
            ("::1:443", Problem::Wrapped),
            ("[64:ff9b::a00:1]:80", Problem::Wrapped),
            ("2130706433", Problem::Host(HostError::Number)),
            ("127.1:8080", Problem::Host(HostError::Number)),
            ("bücher.example", Problem::Host(HostError::NotAscii)),
            ("a.example:0", Problem::Host(HostError::Port)),
            ("a.example:", Problem::Host(HostError::Port)),
            ("a..example", Problem::Host(HostError::EmptyLabel)),
            ("a.example%00.b", Problem::Host(HostError::Percent)),
            ("[fe80::1%eth0]:80", Problem::Host(HostError::Percent)),
        ] {
            let error = Allowlist::parse([entry]).expect_err(entry);
            assert_eq!(error.problem, problem, "{entry}");
            assert!(error.to_string().starts_with(&format!("--allow '{}'", entry.escape_default())));
        }
        let error = Allowlist::parse(["good.example", "a;b"]).unwrap_err();
        assert_eq!(error.to_string(), "--allow 'a;b': one host a flag: give --allow once per host");
    }

    #[test]
    fn the_normal_form_of_every_kind_of_entry() {
        for (entry, normal) in [
            ("EXAMPLE.com.", "example.com"),
            ("*.Example.COM", "*.example.com"),
            ("a.example:8443", "a.example:8443"),
            ("8.8.8.8", "8.8.8.8"),
            ("2606:4700::1", "[2606:4700::1]"),
            ("[2606:4700:0::1]:443", "[2606:4700::1]:443"),
            ("Nexus.corp@10.0.0.5", "nexus.corp@10.0.0.5"),
            ("nexus@10.0.0.5:8081", "nexus@10.0.0.5:8081"),
            ("nexus@fd00::5", "nexus@[fd00::5]"),
            ("*.example.co.uk", "*.example.co.uk"),
            ("svc.localhost@127.0.0.1:80", "svc.localhost@127.0.0.1:80"),
        ] {
            let list = Allowlist::parse([entry]).unwrap();
            assert_eq!(list.rules()[0].to_string(), normal, "{entry}");
        }
        assert_eq!(Allowlist::parse(["a.example", "A.example."]).unwrap().rules().len(), 1);
    }
}
