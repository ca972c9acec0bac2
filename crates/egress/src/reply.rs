//! The proxy's own answers: a line of text for people, JSON for programs, and always a header that says the same.
//! It refuses to decide.
//!
//! A denial carries `X-Oz0-Denied: {"host":…,"port":…,"reason":…,"rule":…,"fix":…}`. The body is one line of text,
//! or that JSON when the request's `Accept` names `application/json`.

use serde::Serialize;

use crate::reason::Reason;

/// The answer that opens a tunnel.
pub(crate) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What one connection too many gets.
pub(crate) const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
Connection: close\r\nContent-Length: 56\r\n\r\nbusy: this run has as many connections open as it may.\r\n";

/// An answer that the proxy gives itself.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    pub(crate) reason: Reason,
    /// What was asked for; none when the head did not tell.
    pub(crate) target: Option<(&'a str, u16)>,
    pub(crate) rule: Option<&'a str>,
    pub(crate) detail: Option<&'a str>,
    pub(crate) json: bool,
    pub(crate) is_head: bool,
    pub(crate) keep_alive: bool,
}

/// The machine form of a denial.
#[derive(Serialize)]
struct Denied<'a> {
    host: &'a str,
    port: u16,
    reason: Reason,
    /// The flag that named the host and yet did not let it pass; none when the default, which is to deny, did.
    rule: Option<&'a str>,
    fix: Option<String>,
}

impl Reply<'_> {
    /// Appends the answer to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let machine = self.target.and_then(|(host, port)| {
            let fix = self.reason.fix(host, port);
            serde_json::to_string(&Denied { host, port, reason: self.reason, rule: self.rule, fix }).ok()
        });
        let (kind, body) = match &machine {
            Some(json) if self.json => ("application/json", format!("{json}\n")),
            _ => ("text/plain; charset=utf-8", self.line()),
        };
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, phrase(self.status));
        if self.status == 407 {
            head.push_str("Proxy-Authenticate: Basic realm=\"oz0\"\r\n");
        }
        if let Some(json) = machine.filter(|_| self.status == 403) {
            // Hosts in normal form and flags are ASCII, so the JSON fits a header.
            head.push_str(&format!("X-Oz0-Denied: {json}\r\n"));
        }
        head.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len()));
        if !self.keep_alive {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        out.extend_from_slice(head.as_bytes());
        if !self.is_head {
            out.extend_from_slice(body.as_bytes());
        }
    }

    fn line(&self) -> String {
        let mut line = match (self.status, self.target) {
            (403, Some((host, port))) => format!("denied: {host}:{port}: {}", self.reason),
            (_, Some((host, port))) if self.status >= 500 => format!("{host}:{port}: {}", self.reason),
            _ => self.reason.to_string(),
        };
        if let Some(detail) = self.detail {
            line.push_str(": ");
            // A detail may quote what a server sent.
            line.extend(detail.chars().map(|letter| if letter.is_control() { '?' } else { letter }));
        }
        if let Some(fix) = self.target.and_then(|(host, port)| self.reason.fix(host, port)) {
            line.push_str("; to allow it: ");
            line.push_str(&fix);
        }
        line.push('\n');
        line
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        _ => "Error",
    }
}

/// The status that goes with a reason that is not the head's fault.
pub(crate) fn status_of(reason: Reason) -> u16 {
    match reason {
        Reason::Allowed => 200,
        Reason::Malformed => 400,
        Reason::HeadTooLarge => 431,
        Reason::SlowHead => 408,
        Reason::TokenMissing | Reason::TokenWrong => 407,
        Reason::NotAllowed | Reason::PortNotAllowed | Reason::PrivateAddress | Reason::PortNotForwarded => {
            403
        }
        Reason::LookupFailed | Reason::ConnectFailed | Reason::UpstreamRefused | Reason::BadAnswer => 502,
        Reason::TooManyConnections => 503,
        Reason::NameLookup => 403,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c178_a_denial_says_host_port_rule_and_fix() {
        let reply = Reply {
            status: 403,
            reason: Reason::NotAllowed,
            target: Some(("b.example", 8443)),
            rule: None,
            detail: None,
            json: false,
            is_head: false,
            keep_alive: true,
        };
        let text = |reply: &Reply<'_>| {
            let mut out = Vec::new();
            reply.write(&mut out);
            String::from_utf8(out).unwrap()
        };
        let json = r#"{"host":"b.example","port":8443,"reason":"not-allowed","rule":null,"fix":"--allow b.example:8443"}"#;
        let line =
            "denied: b.example:8443: no --allow names this host; to allow it: --allow b.example:8443\n";
        let head = |kind: &str, body: &str, rest: &str| {
            format!(
                "HTTP/1.1 403 Forbidden\r\nX-Oz0-Denied: {json}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{rest}\r\n",
                body.len()
            )
        };
        assert_eq!(text(&reply), head("text/plain; charset=utf-8", line, "") + line);
        let program = Reply { json: true, keep_alive: false, ..reply };
        let body = format!("{json}\n");
        assert_eq!(text(&program), head("application/json", &body, "Connection: close\r\n") + &body);
    }

    #[test]
    fn the_answer_to_one_too_many_has_its_right_length() {
        let (head, body) = TOO_MANY.split_at(TOO_MANY.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4);
        let head = str::from_utf8(head).unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{} bytes", body.len());
    }
}
