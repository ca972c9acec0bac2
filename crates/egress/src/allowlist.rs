//! The allowlist of a run: which hosts and ports it may reach, and which rule says so. It refuses to know the
//! network: no name is looked up here, addresses come from the caller.
//!
//! There are no deny entries (what is not named is denied) and no address ranges, so no rule can shadow another.

mod rule;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::{Kind, judge};
use crate::host::Host;
use crate::reason::Reason;
pub use rule::{Problem, Rule};

/// The documented grammar: a pattern and what it covers. `sandbox explain` prints it.
const GRAMMAR: [(&str, &str); 8] = [
    ("example.com", "that name alone, ports 80 and 443, on public addresses"),
    ("example.com:8443", "that name alone, that port alone"),
    ("*.example.com", "every name below it (a., a.b.), not example.com itself; ports 80 and 443"),
    ("*.example.com:8443", "the same on that port alone"),
    ("203.0.113.5, [2001:db8::5]:443", "that address alone; one that is not public needs its port"),
    (
        "nexus.corp@10.0.0.5",
        "that name, and it may lead to that address; ports 80 and 443, or :PORT at the end",
    ),
    ("nexus.corp@[fd00::5]:8081", "the same with an IPv6 address and a port"),
    ("--allow-any", "every name and public address, ports 80 and 443; '*' itself is an error"),
];

/// An entry that is no rule: which one, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--allow '{}': {problem}", entry.escape_default())]
pub struct AllowlistError {
    /// The entry as it was given.
    pub entry: String,
    /// What is wrong with it, fix included.
    #[source]
    pub problem: Problem,
}

/// The hosts that a run may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Allowlist {
    rules: Vec<Rule>,
}

/// The form that is handed to another process. Reading it goes through the same parser as the command line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    any: bool,
    allow: Vec<String>,
}

impl From<Allowlist> for Written {
    fn from(list: Allowlist) -> Written {
        let (any, named): (Vec<_>, Vec<_>) = list.rules.iter().partition(|rule| rule.is_any());
        Written { any: !any.is_empty(), allow: named.iter().map(|rule| rule.to_string()).collect() }
    }
}

impl TryFrom<Written> for Allowlist {
    type Error = AllowlistError;

    fn try_from(written: Written) -> Result<Allowlist, AllowlistError> {
        let list = Allowlist::parse(written.allow)?;
        Ok(if written.any { list.with_any() } else { list })
    }
}

impl Allowlist {
    /// Reads entries, each a rule of its own. The same rule given twice is kept once.
    pub fn parse<I>(entries: I) -> Result<Allowlist, AllowlistError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut rules = Vec::new();
        for entry in entries {
            let entry = entry.as_ref();
            let rule =
                Rule::parse(entry).map_err(|problem| AllowlistError { entry: entry.to_owned(), problem })?;
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        Ok(Allowlist { rules })
    }

    /// Adds the rule that covers every name and every public address on ports 80 and 443. A step of its own, so
    /// that no pattern can mean it by accident.
    pub fn with_any(mut self) -> Allowlist {
        if !self.rules.iter().any(Rule::is_any) {
            self.rules.push(Rule::any());
        }
        self
    }

    /// The rules in the order given, in normal form when printed.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The table of patterns and what each covers.
    pub fn grammar() -> impl Iterator<Item = (&'static str, &'static str)> {
        GRAMMAR.into_iter()
    }

    /// The first question of a decision: does a rule name this host and port? The answer for a name still hangs
    /// on where it leads, see [`Allowlist::permits`].
    pub fn rule_for(&self, host: &Host, port: u16) -> Result<&Rule, Reason> {
        let mut reason = match host {
            Host::Address(address) if judge(*address) != Kind::Public => Reason::PrivateAddress,
            _ => Reason::NotAllowed,
        };
        for rule in &self.rules {
            if rule.names(host) {
                if rule.covers_port(port) {
                    return Ok(rule);
                }
                reason = Reason::PortNotAllowed;
            }
        }
        Err(reason)
    }

    /// The second question: which rule lets this host and port be dialled at this address?
    pub fn permits(&self, host: &Host, port: u16, address: IpAddr) -> Option<&Rule> {
        self.naming(host, port).find(|rule| rule.leads_to(address))
    }

    /// True when a rule for this host and port leads into the node's own surroundings, see [`Rule::is_near`].
    pub(crate) fn is_near(&self, host: &Host, port: u16) -> bool {
        self.naming(host, port).any(Rule::is_near)
    }

    /// As [`Allowlist::permits`], by rules that lead into the node's own surroundings alone.
    pub(crate) fn permits_near(&self, host: &Host, port: u16, address: IpAddr) -> bool {
        self.naming(host, port).any(|rule| rule.is_near() && rule.leads_to(address))
    }

    fn naming(&self, host: &Host, port: u16) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.names(host) && rule.covers_port(port))
    }

    /// What would be decided for this host and port, and by which rule. [`crate::decide::explain`] adds the
    /// forwarded ports.
    pub fn explain(&self, host: &Host, port: u16) -> Explanation {
        let (verdict, rule, reason) = match self.rule_for(host, port) {
            Ok(rule) => (Verdict::Allowed, Some(rule.flag()), Reason::Allowed),
            Err(reason) => (Verdict::Denied, None, reason),
        };
        let leads_to = self.naming(host, port).filter_map(Rule::place).collect();
        let fix = reason.fix(&host.to_string(), port);
        Explanation { host: host.to_string(), port, verdict, rule, leads_to, reason, fix }
    }
}

impl fmt::Display for Allowlist {
    /// Every rule with the ports it covers, one a line: how a plan prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return f.write_str("nothing");
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{rule} ({})", rule.coverage())?;
        }
        Ok(())
    }
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The connection may be tried.
    Allowed,
    /// It is refused.
    Denied,
}

/// Why a host and port are allowed or denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The host in normal form.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Yes or no.
    pub verdict: Verdict,
    /// The flag that decided, as `--allow *.example.com`; none when nothing names the host and port.
    pub rule: Option<String>,
    /// Addresses outside the public ones that the name may lead to.
    pub leads_to: Vec<IpAddr>,
    /// The stable code of the reason.
    pub reason: Reason,
    /// The flag that would allow it, when one would.
    pub fix: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        let Some(flag) = &self.rule else {
            write!(f, "{host}:{port}: denied, {}", self.reason)?;
            return match &self.fix {
                Some(fix) => write!(f, "; to allow it: {fix}"),
                None => Ok(()),
            };
        };
        write!(f, "{host}:{port}: allowed by {flag}")?;
        let is_name = matches!(host.parse(), Ok(Host::Name(_)));
        if is_name && self.leads_to.is_empty() && flag.starts_with("--allow") {
            f.write_str("; when it leads to a public address")?;
        }
        for address in &self.leads_to {
            write!(f, "; may lead to {address}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(entries: &[&str]) -> Allowlist {
        Allowlist::parse(entries).unwrap()
    }

    fn allows(list: &Allowlist, host: &str, port: u16) -> bool {
        list.rule_for(&host.parse().unwrap(), port).is_ok()
    }

    #[test]
    fn c089_what_each_pattern_covers() {
        let below = list(&["*.example.com"]);
        for (host, covered) in [
            ("example.com", false),
            ("a.example.com", true),
            ("a.b.example.com", true),
            ("notexample.com", false),
            ("example.com.evil.test", false),
            ("A.Example.COM.", true),
        ] {
            assert_eq!(allows(&below, host, 443), covered, "{host}");
        }
        let exact = list(&["EXAMPLE.com."]);
        assert!(allows(&exact, "example.com", 80) && allows(&exact, "example.com.", 443));
        assert!(!allows(&exact, "a.example.com", 443) && !allows(&exact, "example.com", 8443));
        let port = list(&["example.com:8443"]);
        assert!(allows(&port, "example.com", 8443) && !allows(&port, "example.com", 443));
        assert_eq!(port.rule_for(&"example.com".parse().unwrap(), 443), Err(Reason::PortNotAllowed));
    }

    #[test]
    fn c086_an_address_with_its_port_is_a_narrow_exception() {
        let list = list(&["127.0.0.1:8080", "[::1]:8080"]);
        assert!(allows(&list, "127.0.0.1", 8080) && allows(&list, "[::1]", 8080));
        for (host, port) in
            [("127.0.0.1", 8081), ("localhost", 8080), ("127.0.0.2", 8080), ("::ffff:127.0.0.1", 8080)]
        {
            assert!(!allows(&list, host, port), "{host}:{port}");
        }
    }

    #[test]
    fn a_name_leads_to_public_addresses_and_to_those_it_names() {
        let list = list(&["open.example", "nexus.corp@10.0.0.5:8081", "*.example.com"]);
        let permits = |host: &str, port, to: &str| {
            list.permits(&host.parse().unwrap(), port, to.parse().unwrap()).is_some()
        };
        assert!(permits("open.example", 443, "8.8.8.8"));
        assert!(!permits("open.example", 443, "10.0.0.5"));
        assert!(!permits("open.example", 443, "::ffff:127.0.0.1"));
        assert!(permits("nexus.corp", 8081, "10.0.0.5"));
        assert!(!permits("nexus.corp", 8081, "10.0.0.6"), "only the address that is named");
        assert!(!permits("nexus.corp", 8081, "8.8.8.8"), "only the address that is named");
        assert!(!permits("nexus.corp", 443, "10.0.0.5"), "only on its port");
        assert!(!permits("a.example.com", 443, "169.254.169.254"));
        assert!(!permits("8.8.8.8", 443, "8.8.8.8"), "an address that no rule names");
    }

    #[test]
    fn c146_near_and_far_rules_of_one_name_are_told_apart() {
        let list = list(&["both.example", "both.example@10.0.0.5", "far.example", "10.0.0.5:80", "8.8.8.8"]);
        let host = |text: &str| text.parse::<Host>().unwrap();
        assert!(list.is_near(&host("both.example"), 443) && list.is_near(&host("10.0.0.5"), 80));
        assert!(!list.is_near(&host("far.example"), 443) && !list.is_near(&host("8.8.8.8"), 443));
        assert!(list.permits_near(&host("both.example"), 443, "10.0.0.5".parse().unwrap()));
        assert!(!list.permits_near(&host("both.example"), 443, "8.8.8.8".parse().unwrap()));
        assert!(list.permits(&host("both.example"), 443, "8.8.8.8".parse().unwrap()).is_some());
    }

    #[test]
    fn any_covers_names_and_public_addresses_and_nothing_private() {
        let any = Allowlist::default().with_any().with_any();
        assert_eq!(any.rules().len(), 1);
        assert!(allows(&any, "whatever.example", 443) && allows(&any, "8.8.8.8", 80));
        assert!(!allows(&any, "whatever.example", 22));
        assert!(
            !allows(&any, "10.0.0.1", 80) && !allows(&any, "127.0.0.1", 80) && !allows(&any, "localhost", 80)
        );
        let host = "whatever.example".parse().unwrap();
        assert!(any.permits(&host, 443, "10.0.0.1".parse().unwrap()).is_none());
    }

    #[test]
    fn c178_an_explanation_names_rule_or_fix() {
        let list = list(&["*.example.com", "nexus.corp@10.0.0.5"]);
        let text = |host: &str, port| list.explain(&host.parse().unwrap(), port).to_string();
        assert_eq!(
            text("a.example.com", 443),
            "a.example.com:443: allowed by --allow *.example.com; when it leads to a public address"
        );
        assert_eq!(
            text("b.example", 443),
            "b.example:443: denied, no --allow names this host; to allow it: --allow b.example"
        );
        assert_eq!(
            text("nexus.corp", 443),
            "nexus.corp:443: allowed by --allow nexus.corp@10.0.0.5; may lead to 10.0.0.5"
        );
        let json = serde_json::to_value(list.explain(&"b.example".parse().unwrap(), 22)).unwrap();
        assert_eq!(json["fix"], "--allow b.example:22");
        assert_eq!(json["reason"], "not-allowed");
        assert_eq!(json["verdict"], "denied");
    }

    #[test]
    fn it_survives_being_handed_over() {
        let list =
            list(&["*.Example.com:8443", "nexus.corp@[FD00::5]:8081", "10.0.0.1:22", "a.example"]).with_any();
        let json = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<Allowlist>(&json).unwrap(), list);
        assert_eq!(
            json,
            r#"{"any":true,"allow":["*.example.com:8443","nexus.corp@[fd00::5]:8081","10.0.0.1:22","a.example"]}"#
        );
        let error = serde_json::from_str::<Allowlist>(r#"{"any":false,"allow":["*"]}"#).unwrap_err();
        assert!(error.to_string().contains("--allow-any"), "{error}");
    }

    proptest! {
        #[test]
        fn the_order_of_entries_never_changes_a_verdict(
            entries in proptest::sample::subsequence(
                vec!["a.example", "*.a.example", "b.a.example:8443", "10.0.0.5:80", "n.a.example@10.0.0.5"], 0..=5),
            seed in any::<u64>(),
            host in proptest::sample::select(vec!["a.example", "b.a.example", "n.a.example", "10.0.0.5"]),
            port in proptest::sample::select(vec![80u16, 443, 8443]),
            to in proptest::sample::select(vec!["10.0.0.5", "8.8.8.8", "127.0.0.1"]),
        ) {
            let forward = Allowlist::parse(&entries).unwrap();
            let mut turned = entries.clone();
            if !turned.is_empty() {
                let by = seed as usize % turned.len();
                turned.rotate_left(by);
                turned.reverse();
            }
            let turned = Allowlist::parse(&turned).unwrap();
            let (host, to) = (host.parse().unwrap(), to.parse().unwrap());
            prop_assert_eq!(forward.rule_for(&host, port).is_ok(), turned.rule_for(&host, port).is_ok());
            prop_assert_eq!(forward.permits(&host, port, to).is_some(), turned.permits(&host, port, to).is_some());
        }

        #[test]
        fn what_parses_prints_as_itself(entry in "[a-zA-Z0-9*.:@\\[\\]_-]{0,30}") {
            if let Ok(list) = Allowlist::parse([&entry]) {
                let printed = list.rules()[0].to_string();
                prop_assert_eq!(Allowlist::parse([&printed]).unwrap(), list);
            }
        }

        #[test]
        fn a_wildcard_never_covers_a_name_outside(prefix in "[a-z0-9.-]{0,12}", suffix in "[a-z0-9.-]{0,12}") {
            let list = list(&["*.example.com"]);
            if let Ok(host) = format!("{prefix}example.com{suffix}").parse::<Host>() {
                let expected = host.to_string().ends_with(".example.com");
                prop_assert_eq!(list.rule_for(&host, 443).is_ok(), expected);
            }
        }
    }
}
