//! Heads that are taken, and the table of those that are not.

use super::*;
use crate::host::HostError;
use proptest::prelude::*;

fn parse<T>(head: &[u8], look: impl FnOnce(Result<Request<'_, '_>, RequestError>) -> T) -> T {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    look(Request::parse(head, &mut fields))
}

fn error(head: &str) -> RequestError {
    parse(head.as_bytes(), |result| result.expect_err(head))
}

fn onward(head: &str) -> String {
    parse(head.as_bytes(), |result| {
        let mut out = Vec::new();
        result.expect(head).write_onward(&mut out);
        String::from_utf8(out).unwrap()
    })
}

#[test]
fn a_tunnel_and_a_request() {
    parse(
        b"CONNECT A.example.:443 HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic eA==\r\n\r\n",
        |r| {
            let request = r.unwrap();
            assert_eq!(
                (request.form, request.host.to_string(), request.port),
                (Form::Connect, "a.example".into(), 443)
            );
            assert_eq!(request.credentials, Some(&b"Basic eA=="[..]));
            assert!(request.keep_alive && !request.upgrades && !request.accepts_json);
        },
    );
    parse(b"get HTTP://a.example HTTP/1.0\r\nAccept: text/html, application/json\r\n\r\n", |r| {
        let request = r.unwrap();
        assert_eq!((request.method, request.form, request.port), ("get", Form::Absolute { path: "/" }, 80));
        assert!(!request.keep_alive && request.accepts_json);
    });
}

#[test]
fn c098_the_target_decides_and_host_is_rewritten() {
    let sent = onward(
        "GET http://Allowed.Example:8080/a?b HTTP/1.1\r\nHost: denied.example\r\nX-Kept: 1\r\n\
         Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nConnection: x-gone, keep-alive\r\n\
         X-Gone: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\nProxy: evil\r\nUpgrade: h2c\r\n\r\n",
    );
    assert_eq!(sent, "GET /a?b HTTP/1.1\r\nHost: allowed.example:8080\r\nX-Kept: 1\r\n\r\n");
    assert_eq!(
        onward("OPTIONS http://[::1]:8080 HTTP/1.1\r\nHost: x\r\n\r\n"),
        "OPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"
    );
}

#[test]
fn c103_framing_is_kept_for_every_method() {
    for (fields, framing, sent) in [
        ("Transfer-Encoding: Chunked\r\n", Framing::Chunked, "Transfer-Encoding: chunked\r\n"),
        ("Content-Length: 38\r\n", Framing::Length(38), "Content-Length: 38\r\n"),
        ("Content-Length: 0\r\n", Framing::Length(0), "Content-Length: 0\r\n"),
        ("", Framing::Empty, ""),
    ] {
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PROPFIND"] {
            let head = format!("{method} http://a.example/x HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
            parse(head.as_bytes(), |r| assert_eq!(r.unwrap().framing, framing));
            assert_eq!(onward(&head), format!("{method} /x HTTP/1.1\r\nHost: a.example\r\n{sent}\r\n"));
        }
    }
    // A Connection field cannot strip what frames the body or names the host.
    let sent = onward(
        "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\
         Connection: content-length, host, close\r\n\r\n",
    );
    assert_eq!(sent, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n");
}

#[test]
fn c112_an_upgrade_is_passed_on() {
    let sent = onward(
        "GET http://ws.example/chat HTTP/1.1\r\nHost: ws.example\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n",
    );
    assert!(
        sent.ends_with("Sec-WebSocket-Key: eA==\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
        "{sent}"
    );
}

/// One request whose target and further head lines vary.
fn with(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: allowed.example\r\n{fields}\r\n")
}

#[test]
fn c100_c101_ambiguous_framing_is_an_error() {
    for (fields, expected) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", RequestError::LengthAndCoding),
        ("Transfer-Encoding: chunked\t\r\n", RequestError::Coding),
        ("Transfer-Encoding: chunked \r\n", RequestError::Coding),
        ("Transfer-Encoding: xchunked\r\n", RequestError::Coding),
        ("Transfer-Encoding: \"chunked\"\r\n", RequestError::Coding),
        ("Transfer-Encoding: identity\r\n", RequestError::Coding),
        ("Transfer-Encoding:\r\n", RequestError::Coding),
        ("tRANSFER-ENCODING : chunked\r\n", RequestError::Syntax),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", RequestError::Coding),
        ("Transfer-Encoding: gzip, chunked\r\n", RequestError::Coding),
        ("Transfer-Encoding: chunked, chunked\r\n", RequestError::Coding),
        ("Transfer-Encoding:\r\n chunked\r\n", RequestError::Fold),
        ("Transfer-Encoding: \x0bchunked\r\n", RequestError::Control),
        ("Content-Length: 0\r\nContent-Length: 38\r\n", RequestError::TwoLengths),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", RequestError::TwoLengths),
        ("Content-Length: 5, 5\r\n", RequestError::Length),
        ("Content-Length: +5\r\n", RequestError::Length),
        ("Content-Length: 0x5\r\n", RequestError::Length),
        ("Content-Length:  5 \r\n", RequestError::Length),
        ("Content-Length: 5\u{a0}\r\n", RequestError::Length),
        ("Content-Length: 5.0\r\n", RequestError::Length),
        ("Content-Length: 1e3\r\n", RequestError::Length),
        ("Content-Length:\r\n", RequestError::Length),
        ("Content-Length: 18446744073709551616\r\n", RequestError::Length),
        ("Content-Length: -1\r\n", RequestError::Length),
        ("Content-Length : 5\r\n", RequestError::Syntax),
        ("Content-Length\0: 5\r\n", RequestError::Control),
        ("Content Length: 5\r\n", RequestError::Syntax),
        ("X: a\nContent-Length: 5\r\n", RequestError::LineEnd),
        ("X: a\rContent-Length: 5\r\n", RequestError::LineEnd),
        ("X: a\r\n\tContent-Length: 5\r\n", RequestError::Fold),
        (": 5\r\n", RequestError::Syntax),
        ("no colon\r\n", RequestError::Syntax),
        ("Expect: 200-ok\r\n", RequestError::Expect),
        ("Host: allowed.example\r\n", RequestError::TwoHosts),
    ] {
        assert_eq!(error(&with("POST http://allowed.example/", fields)), expected, "{fields:?}");
    }
    let old = "POST http://allowed.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(error(old), RequestError::Coding);
}

#[test]
fn c098_a_bad_host_field_is_an_error() {
    for (host, expected) in [
        ("Host: a.example, b.example\r\n", RequestError::Host(HostError::Byte(b','))),
        ("Host: a.example:99999\r\n", RequestError::Host(HostError::Port)),
        ("Host: a.example:0\r\n", RequestError::Host(HostError::Port)),
        ("Host: 2130706433\r\n", RequestError::Host(HostError::Number)),
        ("Host: b@a.example\r\n", RequestError::Host(HostError::Byte(b'@'))),
        ("Host:\r\n", RequestError::Host(HostError::Empty)),
        ("Host: b\u{fc}cher.example\r\n", RequestError::Host(HostError::NotAscii)),
        ("", RequestError::NoHost),
    ] {
        let head = format!("GET http://a.example/ HTTP/1.1\r\n{host}\r\n");
        assert_eq!(error(&head), expected, "{host:?}");
    }
}

#[test]
fn c092_c094_c097_c109_bad_targets_are_errors() {
    for (line, expected) in [
        ("GET /", RequestError::NotForProxy),
        ("OPTIONS *", RequestError::NotForProxy),
        ("GET https://a.example/", RequestError::HttpsInClear),
        ("GET ftp://a.example/", RequestError::Scheme),
        ("GET a.example", RequestError::Target),
        ("GET http://a.example/#x", RequestError::Target),
        ("GET http://a.example?x", RequestError::Target),
        ("GET http://a.example/\u{e9}", RequestError::Target),
        ("GET http:///x", RequestError::Host(HostError::Empty)),
        ("GET http://user@a.example/", RequestError::Host(HostError::Byte(b'@'))),
        ("GET http://a.example\\@b.example/", RequestError::Host(HostError::Byte(b'\\'))),
        ("GET http://a.example%00.evil.test/", RequestError::Host(HostError::Percent)),
        ("GET http://a..example/", RequestError::Host(HostError::EmptyLabel)),
        ("GET http://a.example../", RequestError::Host(HostError::EmptyLabel)),
        ("GET http://127.1/", RequestError::Host(HostError::Number)),
        ("GET http://2130706433/", RequestError::Host(HostError::Number)),
        ("GET http://0x7f.1/", RequestError::Host(HostError::Number)),
        ("GET http://010.0.0.1/", RequestError::Host(HostError::Number)),
        ("GET http://[fe80::1%25eth0]/", RequestError::Host(HostError::Percent)),
        ("GET http://[::1%lo]/", RequestError::Host(HostError::Percent)),
        ("CONNECT a.example", RequestError::ConnectPort),
        ("CONNECT [::1]", RequestError::ConnectPort),
        ("CONNECT [a.example]:443", RequestError::Host(HostError::Brackets)),
        ("CONNECT [::1", RequestError::Host(HostError::Brackets)),
        ("CONNECT ::1:443", RequestError::Host(HostError::Colons)),
        ("CONNECT a.example:443:443", RequestError::Host(HostError::Colons)),
        ("CONNECT a.example:0", RequestError::Host(HostError::Port)),
        ("CONNECT a.example:99999", RequestError::Host(HostError::Port)),
        ("CONNECT attacker.example%00.google.com:443", RequestError::Host(HostError::Percent)),
        ("CONNECT attacker.example\0.google.com:443", RequestError::Control),
        ("CONNECT http://a.example:443", RequestError::Host(HostError::Colons)),
        ("CONNECT a.example:443/", RequestError::Host(HostError::Port)),
        ("GET http://a.example/ x", RequestError::Syntax),
        ("GET  http://a.example/", RequestError::Syntax),
    ] {
        assert_eq!(error(&with(line, "")), expected, "{line:?}");
    }
    assert_eq!(error(&with("CONNECT a.example:443", "Content-Length: 5\r\n")), RequestError::ConnectBody);
    assert_eq!(
        error(&with("CONNECT a.example:443", "Transfer-Encoding: chunked\r\n")),
        RequestError::ConnectBody
    );
    assert_eq!(error("PRI * HTTP/2.0\r\n\r\n"), RequestError::Syntax);
    assert_eq!(error("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"), RequestError::Syntax);
}

#[test]
fn heads_have_a_size() {
    let many = "A: b\r\n".repeat(MOST_FIELDS);
    assert_eq!(error(&with("GET http://a.example/", &many)), RequestError::TooManyFields);
    let large = vec![b'a'; LARGEST_HEAD];
    assert_eq!(head_length(&large, &mut 0), Err(RequestError::TooLarge));
    assert_eq!(RequestError::TooLarge.status(), 431);
}

#[test]
fn a_head_that_trickles_in_is_found() {
    let head = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\nGET";
    let mut checked = 0;
    for end in 0..head.len() - 3 {
        assert_eq!(head_length(&head[..end], &mut checked), Ok(None), "{end}");
    }
    assert_eq!(head_length(head, &mut checked), Ok(Some(head.len() - 3)));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, |result| result.is_ok());
        let _ = head_length(&bytes, &mut 0);
    }

    /// Whatever is passed on reads as the same request once more, and holds nothing of the hop.
    #[test]
    fn what_is_passed_on_is_unambiguous(
        method in proptest::sample::select(vec!["GET", "POST", "HEAD", "X"]),
        host in "[a-zA-Z0-9.-]{1,20}",
        path in "/[!-~]{0,20}",
        fields in proptest::collection::vec((proptest::sample::select(vec![
            "X-A", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Authorization", "TE", "Accept",
        ]), proptest::sample::select(vec!["5", "chunked", "close", "x-a", "content-length", "a\tb", ""])), 0..5),
    ) {
        let mut head = format!("{method} http://{host}{path} HTTP/1.1\r\nHost: h\r\n");
        for (name, value) in &fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let sent = parse(head.as_bytes(), |result| result.ok().map(|request| {
            let mut out = Vec::new();
            request.write_onward(&mut out);
            (out, request.framing, request.host.clone())
        }));
        if let Some((sent, framing, host)) = sent {
            // The origin's reader: absolute form put back so that the same parser can look at it.
            let text = String::from_utf8(sent).unwrap();
            let absolute = text.replacen(" /", &format!(" http://{host}/"), 1);
            parse(absolute.as_bytes(), |result| {
                let again = result.unwrap();
                assert_eq!(again.framing, framing);
                assert_eq!(again.host, host);
                assert_eq!(again.credentials, None);
            });
            prop_assert!(!text.to_ascii_lowercase().contains("\r\nproxy-"));
            prop_assert!(!text.to_ascii_lowercase().contains("\r\nte:"));
        }
    }
}
