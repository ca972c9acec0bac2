//! One decision: token, forwarded ports, allowlist, in this order, from values alone. It refuses to know sockets;
//! where a name leads is judged by `dial`, with the same allowlist.

use crate::allowlist::{Allowlist, Explanation, Rule, Verdict};
use crate::host::Host;
use crate::reason::Reason;
use crate::token::Token;

/// Where a request that passed goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// To this node's own loopback, on a forwarded port.
    Forwarded,
    /// To the addresses that the rules for its host and port permit; this rule let it pass.
    Allowed(&'a Rule),
}

/// Decides on one request, anew for each one on a connection.
pub fn decide<'a>(
    allowlist: &'a Allowlist,
    forward: &[u16],
    token: &Token,
    credentials: Option<&[u8]>,
    host: &Host,
    port: u16,
) -> Result<Decision<'a>, Reason> {
    token.check(credentials)?;
    if host.is_own_loopback() && forward.contains(&port) {
        return Ok(Decision::Forwarded);
    }
    match allowlist.rule_for(host, port) {
        Ok(rule) => Ok(Decision::Allowed(rule)),
        Err(_) if host.is_own_loopback() => Err(Reason::PortNotForwarded),
        Err(reason) => Err(reason),
    }
}

/// What [`decide`] would say to a request that has the token, with the flag behind it.
pub fn explain(allowlist: &Allowlist, forward: &[u16], host: &Host, port: u16) -> Explanation {
    let mut explanation = allowlist.explain(host, port);
    if !host.is_own_loopback() {
        return explanation;
    }
    if forward.contains(&port) {
        explanation.verdict = Verdict::Allowed;
        explanation.rule = Some(format!("--forward {port}"));
        explanation.reason = Reason::Allowed;
        explanation.fix = None;
    } else if explanation.verdict == Verdict::Denied {
        explanation.reason = Reason::PortNotForwarded;
        explanation.fix = Reason::PortNotForwarded.fix(&explanation.host, port);
    }
    explanation
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn decide_with(credentials: bool, host: &str, port: u16) -> Result<String, Reason> {
        let token = Token::generate().unwrap();
        let url = token.proxy_url(([127, 0, 0, 1], 1).into());
        let user = url.strip_prefix("http://").unwrap().strip_suffix("@127.0.0.1:1").unwrap();
        let field = format!("Basic {}", STANDARD.encode(user));
        let allowlist = Allowlist::parse(["a.example", "127.0.0.1:8080"]).unwrap();
        let field = credentials.then_some(field.as_bytes());
        decide(&allowlist, &[4000], &token, field, &host.parse().unwrap(), port).map(|d| match d {
            Decision::Forwarded => "forwarded".to_owned(),
            Decision::Allowed(rule) => rule.to_string(),
        })
    }

    #[test]
    fn the_token_comes_first() {
        assert_eq!(decide_with(false, "a.example", 443), Err(Reason::TokenMissing));
        assert_eq!(decide_with(false, "127.0.0.1", 4000), Err(Reason::TokenMissing));
        assert_eq!(decide_with(true, "a.example", 443), Ok("a.example".to_owned()));
    }

    #[test]
    fn c008_an_explanation_names_the_forwarded_port() {
        let list = Allowlist::parse(["127.0.0.1:8080"]).unwrap();
        let text = |host: &str, port| explain(&list, &[4000], &host.parse().unwrap(), port).to_string();
        assert_eq!(text("localhost", 4000), "localhost:4000: allowed by --forward 4000");
        assert_eq!(text("127.0.0.1", 8080), "127.0.0.1:8080: allowed by --allow 127.0.0.1:8080");
        assert_eq!(
            text("[::1]", 4001),
            "[::1]:4001: denied, this loopback port is not forwarded; to allow it: --forward 4001"
        );
    }

    #[test]
    fn a_forwarded_port_is_reached_by_its_loopback_urls_alone() {
        for host in ["127.0.0.1", "localhost", "LOCALHOST.", "[::1]"] {
            assert_eq!(decide_with(true, host, 4000), Ok("forwarded".to_owned()));
            assert_eq!(decide_with(true, host, 4001), Err(Reason::PortNotForwarded));
        }
        for host in ["127.0.0.2", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"] {
            assert_eq!(decide_with(true, host, 4000), Err(Reason::PrivateAddress), "{host}");
        }
        assert_eq!(decide_with(true, "a.localhost", 4000), Err(Reason::NotAllowed));
        assert_eq!(decide_with(true, "127.0.0.1", 8080), Ok("127.0.0.1:8080".to_owned()));
    }
}
