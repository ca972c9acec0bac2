//! The table of heads that two readers could understand in two ways: each is 400, each ends the connection, none
//! reaches the origin.

use crate::world::{Origin, World};

#[test]
fn ambiguous_requests_are_refused_and_never_forwarded() {
    let origin = Origin::keeping("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let world = World::allowing(&[origin.named("allowed.example")]);
    let at = format!("allowed.example:{}", origin.port());
    let post = |fields: &str| format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n{fields}");
    let line = |line: &str| format!("{line} HTTP/1.1\r\nHost: {at}\r\n");
    let mut cases = Vec::new();
    // C100, C101: framing.
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\t\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "tRANSFER-ENCODING : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Content-Length: 0\r\nContent-Length: 38\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 \r\n",
        "Content-Length: 5\u{a0}\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: -1\r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 5\r\n 6\r\n",
        "X: a\nContent-Length: 5\r\n",
        "X: a\rContent-Length: 5\r\n",
        "X: \0\r\n",
        "X\0: a\r\n",
        "Host: allowed.example\r\n",
    ] {
        cases.push(post(fields));
    }
    cases.push(format!("POST http://{at}/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n"));
    // C098: Host.
    for host in
        ["", "Host: allowed.example, denied.example\r\n", "Host: allowed.example:99999\r\n", "Host: a b\r\n"]
    {
        cases.push(format!("GET http://{at}/ HTTP/1.1\r\n{host}"));
    }
    // C092, C094, C097, C109: targets.
    for target in [
        "CONNECT [allowed.example]:443",
        "CONNECT [::1",
        "CONNECT ::1:443",
        "CONNECT allowed.example:443:443",
        "CONNECT allowed.example",
        "CONNECT allowed.example:0",
        "CONNECT allowed.example:99999",
        "CONNECT attacker.example%00.allowed.example:443",
        "CONNECT attacker.example\0.allowed.example:443",
        "CONNECT 127.1:443",
        "CONNECT 2130706433:443",
        "CONNECT 0x7f.1:443",
        "CONNECT 010.0.0.1:443",
        "CONNECT [fe80::1%25eth0]:443",
        "CONNECT [::1%lo]:443",
        "CONNECT allowed.example..:443",
        "CONNECT .allowed.example:443",
        "GET http://allowed..example/",
        "GET http://exa mple.com/",
        "GET http://user@allowed.example/",
        "GET http://allowed.example\\@denied.example/",
        "GET https://allowed.example/",
        "GET file:///etc/passwd",
        "GET //allowed.example/",
        "GET /",
        "GET *",
    ] {
        cases.push(line(target));
    }
    for case in &cases {
        let smuggled =
            format!("0\r\n\r\nGET http://{at}/evil HTTP/1.1\r\nHost: {at}\r\n{}\r\n", world.authorization());
        let mut client = world.client();
        client.send(format!("{case}{}\r\n{smuggled}", world.authorization()));
        let answer = client.answer();
        assert_eq!(answer.status, 400, "{case:?}");
        assert_eq!(answer.field("connection"), Some("close"), "{case:?}");
        assert!(client.is_closed(), "{case:?}");
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(origin.received(), "");
    let summary = {
        let mut world = world;
        world.proxy.take().unwrap().stop(std::time::Duration::ZERO)
    };
    assert_eq!(summary.denied, cases.len() as u64);
}

#[test]
fn a_server_shaped_request_is_told_that_this_is_a_proxy() {
    let world = World::allowing(&["a.example"]);
    let mut client = world.client();
    client.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("this is a proxy, not a server"), "{}", answer.text());
}

#[test]
fn c098_the_target_decides() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("allowed.example")]);
    let port = origin.port();
    let mut client = world.client();
    let auth = world.authorization();
    client.send(format!("GET http://allowed.example:{port}/ HTTP/1.1\r\nHost: denied.example\r\n{auth}\r\n"));
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains(&format!("Host: allowed.example:{port}\r\n")));
    assert!(!answer.text().contains("denied.example"));
    client.send(format!(
        "GET http://denied.example:{port}/ HTTP/1.1\r\nHost: allowed.example:{port}\r\n{auth}\r\n"
    ));
    assert_eq!(client.answer().status, 403);
}

#[test]
fn c101_bytes_after_a_body_are_the_next_request_and_are_judged_as_one() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("allowed.example")]);
    let at = format!("allowed.example:{}", origin.port());
    let mut client = world.client();
    client.send(format!(
        "POST http://{at}/one HTTP/1.1\r\nHost: {at}\r\nContent-Length: 2\r\n{}\r\nokGET /evil HTTP/1.1\r\nHost: {at}\r\n\r\n",
        world.authorization()
    ));
    assert!(client.answer().text().starts_with("POST /one "));
    assert_eq!(client.answer().status, 400, "origin form is for no proxy, and nobody else got it");
    assert!(client.is_closed());
}

#[test]
fn a_broken_chunk_ends_everything() {
    let origin = Origin::keeping("");
    let world = World::allowing(&[origin.named("allowed.example")]);
    let mut client = world.ask(&format!(
        "POST http://allowed.example:{}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
        origin.port()
    ));
    client.send("5\r\nhello\r\nxyz\r\nGET /evil HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    assert!(client.is_closed());
    assert!(!origin.received().contains("evil"), "{}", origin.received());
}
