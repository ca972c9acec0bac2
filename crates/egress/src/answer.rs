//! The head of an origin's answer: where its body ends, what may be passed back. Ambiguity is an error, as in
//! requests. It refuses to know what was asked, but for what changes the framing.

use httparse::Header;

use crate::framing::{Body, Framing};
use crate::request::Version;
use crate::request::fields::{Single, ends_its_line, has_token, plain_length, single};
use crate::request::fields::{write_end_to_end, write_framing};

/// Why an answer is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("its answer is no HTTP/1 head")]
    Syntax,
    #[error("its answer has both or several lengths, or an odd one")]
    Framing,
    #[error("it asks for a proxy's credentials or changes the protocol unasked")]
    Status,
}

/// What the request was, as far as its answer depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) version: Version,
    pub(crate) is_head: bool,
    pub(crate) upgrades: bool,
    pub(crate) keep_alive: bool,
}

/// What an answer's head says.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Body,
    /// True when the origin's connection may carry a next request.
    pub(crate) keep_alive: bool,
    /// True when the client's connection ends with this answer.
    pub(crate) closes_client: bool,
}

impl Answer {
    /// True for answers that another one follows.
    pub(crate) fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Reads one whole head and appends to `out` what goes to the client.
    pub(crate) fn pass(head: &[u8], asked: Asked, out: &mut Vec<u8>) -> Result<Answer, AnswerError> {
        let mut fields = [httparse::EMPTY_HEADER; crate::request::MOST_FIELDS];
        let mut parsed = httparse::Response::new(&mut fields);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            _ => return Err(AnswerError::Syntax),
        }
        let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
            return Err(AnswerError::Syntax);
        };
        if !(100..600).contains(&status) {
            return Err(AnswerError::Syntax);
        }
        // A client would answer a 407 with the run's token, which is none of the origin's business.
        if status == 407 || status == 101 && !asked.upgrades {
            return Err(AnswerError::Status);
        }
        let fields: &[Header<'_>] = parsed.headers;
        let declared = read_framing(fields, minor, head)?;
        let framing = match (status, declared) {
            (100..200 | 204 | 304, _) => Framing::Empty,
            _ if asked.is_head => Framing::Empty,
            (_, declared) => declared,
        };
        let chunks_unknown = framing == Framing::Chunked && asked.version == Version::Http10;
        let keep_alive =
            minor == 1 && framing != Framing::UntilClose && !has_token(fields, "connection", b"close");
        let closes_client = !asked.keep_alive || chunks_unknown || framing == Framing::UntilClose;
        let answer = Answer {
            status,
            body: if chunks_unknown { Body::bare(framing) } else { Body::new(framing) },
            keep_alive,
            closes_client,
        };
        if answer.is_interim() && asked.version == Version::Http10 {
            return Ok(answer);
        }
        let phrase = parsed.reason.unwrap_or("");
        out.extend_from_slice(format!("HTTP/1.1 {status} {phrase}\r\n").as_bytes());
        write_end_to_end(fields, out);
        if status == 101 {
            if let Single::One(to) = single(fields, "upgrade") {
                out.extend_from_slice(b"Upgrade: ");
                out.extend_from_slice(to);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"Connection: upgrade\r\n");
        } else if status >= 200 {
            // A HEAD's and a 304's length speaks of the body that a GET would have.
            match (status, declared) {
                (204, _) | (_, Framing::Empty | Framing::UntilClose) => {}
                (_, Framing::Chunked) if chunks_unknown => {}
                (_, declared) => write_framing(declared, out),
            }
            if closes_client {
                out.extend_from_slice(b"Connection: close\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
        Ok(answer)
    }
}

fn read_framing(fields: &[Header<'_>], minor: u8, head: &[u8]) -> Result<Framing, AnswerError> {
    match (single(fields, "content-length"), single(fields, "transfer-encoding")) {
        (Single::None, Single::None) => Ok(Framing::UntilClose),
        (Single::One(value), Single::None) if ends_its_line(value, head) => {
            plain_length(value).map(Framing::Length).ok_or(AnswerError::Framing)
        }
        (Single::None, Single::One(value))
            if minor == 1 && value.eq_ignore_ascii_case(b"chunked") && ends_its_line(value, head) =>
        {
            Ok(Framing::Chunked)
        }
        _ => Err(AnswerError::Framing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Asked =
        Asked { version: Version::Http11, is_head: false, upgrades: false, keep_alive: true };

    fn pass(head: &str, asked: Asked) -> Result<(Answer, String), AnswerError> {
        let mut out = Vec::new();
        Answer::pass(head.as_bytes(), asked, &mut out).map(|answer| (answer, String::from_utf8(out).unwrap()))
    }

    #[test]
    fn c103_heads_without_bodies() {
        for (status, is_head, sent) in [
            ("200 OK", true, "Content-Length: 9\r\n"),
            ("304 Not Modified", false, "Content-Length: 9\r\n"),
            ("204 No Content", false, ""),
        ] {
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n");
            let (answer, out) = pass(&head, Asked { is_head, ..PLAIN }).unwrap();
            assert!(answer.body.is_done() && answer.keep_alive, "{status}");
            assert_eq!(out, format!("HTTP/1.1 {status}\r\n{sent}\r\n"));
        }
        let (answer, out) = pass("HTTP/1.1 100 Continue\r\n\r\n", PLAIN).unwrap();
        assert!(answer.is_interim() && answer.body.is_done());
        assert_eq!(out, "HTTP/1.1 100 Continue\r\n\r\n");
    }

    #[test]
    fn hop_fields_stay_on_their_hop() {
        let head = "HTTP/1.1 200 OK\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nProxy-Authenticate: Basic\r\n\
                    X-Oz0-Denied: spoofed\r\nSet-Cookie: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (answer, out) = pass(head, PLAIN).unwrap();
        assert!(!answer.keep_alive && !answer.closes_client);
        assert_eq!(out, "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let (_, out) = pass(head, Asked { version: Version::Http10, keep_alive: false, ..PLAIN }).unwrap();
        assert_eq!(out, "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nConnection: close\r\n\r\n");
        let (answer, _) = pass("HTTP/1.1 200 OK\r\n\r\n", PLAIN).unwrap();
        assert!(answer.closes_client && answer.body.ends_with_connection());
    }

    #[test]
    fn c100_ambiguous_answers_are_errors() {
        for (head, error) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                AnswerError::Framing,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", AnswerError::Framing),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", AnswerError::Framing),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", AnswerError::Framing),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", AnswerError::Framing),
            ("HTTP/1.1 407 Go\r\nContent-Length: 0\r\n\r\n", AnswerError::Status),
            ("HTTP/1.1 101 Go\r\n\r\n", AnswerError::Status),
            ("HTTP/1.1 999 Go\r\n\r\n", AnswerError::Syntax),
            ("SSH-2.0-x\r\n\r\n", AnswerError::Syntax),
        ] {
            assert_eq!(pass(head, PLAIN).map(|(_, out)| out), Err(error), "{head}");
        }
    }
}
