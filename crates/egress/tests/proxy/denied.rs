//! What does not pass, and what is said about it.

use std::net::UdpSocket;
use std::time::Duration;

use crate::world::{Origin, PATIENCE, Wanted, World, is_reset};

#[test]
fn c178_a_denial_names_host_port_rule_and_fix() {
    let world = World::allowing(&["a.example"]);
    let mut client = world.client();
    for (head, port) in [(world.connect("b.example:443"), 443), (world.get("http://b.example/"), 80)] {
        client.send(head);
        let answer = client.answer();
        assert_eq!(answer.status, 403);
        let line =
            format!("denied: b.example:{port}: no --allow names this host; to allow it: --allow b.example\n");
        assert_eq!(answer.text(), line);
        let machine: serde_json::Value = serde_json::from_str(answer.field("x-oz0-denied").unwrap()).unwrap();
        let expected = serde_json::json!(
            {"host": "b.example", "port": port, "reason": "not-allowed", "rule": null, "fix": "--allow b.example"});
        assert_eq!(machine, expected);
    }
    client.send(world.get("http://b.example/").replace("\r\n\r\n", "\r\nAccept: application/json\r\n\r\n"));
    let answer = client.answer();
    assert_eq!(answer.field("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["fix"], "--allow b.example");
    let denials: Vec<String> = world.proxy().denials().iter().map(ToString::to_string).collect();
    assert_eq!(
        denials,
        [
            "denied: b.example:80 (2x), no --allow names this host; to allow it: --allow b.example",
            "denied: b.example:443 (1x), no --allow names this host; to allow it: --allow b.example",
        ]
    );
    let record = &world.records.lines()[0];
    assert_eq!(record["kind"], "connect");
    assert_eq!(record["verdict"], "denied");
    assert_eq!(record["reason"], "not-allowed");
}

#[test]
fn a_denied_head_request_has_no_body_and_the_connection_goes_on() {
    let world = World::allowing(&["a.example"]);
    let mut client = world.client();
    client.send(world.get("http://b.example/").replace("GET", "HEAD"));
    assert!(client.head().starts_with("HTTP/1.1 403 "));
    client.send(world.get("http://b.example/"));
    assert_eq!(client.answer().status, 403);
}

#[test]
fn a_large_refused_body_ends_the_connection_and_its_answer_arrives() {
    let world = World::allowing(&["a.example"]);
    let mut client = world.ask("POST http://b.example/ HTTP/1.1\r\nHost: b\r\nContent-Length: 200000\r\n");
    client.send(vec![b'x'; 200_000]);
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("connection")), (403, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn c110_names_fail_closed() {
    let origin = Origin::echo();
    let port = origin.port();
    let host = |name: &str| format!("{name}.example:{port}");
    let world = World::start(Wanted {
        allow: ["y", "w", "v", "u", "m"].iter().map(|name| host(name)).collect(),
        names: vec![
            ("y.example", ""),
            ("w.example", "127.0.0.1"),
            ("v.example", "0.0.0.0"),
            ("u.example", "::1"),
            ("m.example", "::ffff:127.0.0.1"),
            ("m.example", "64:ff9b::7f00:1"),
        ],
        ..Wanted::default()
    });
    for (name, status, reason) in [
        ("y", 502, "lookup-failed"),
        ("w", 403, "private-address"),
        ("v", 403, "private-address"),
        ("u", 403, "private-address"),
        ("m", 403, "private-address"),
    ] {
        let mut client = world.client();
        client.send(world.connect(&host(name)));
        let answer = client.answer();
        assert_eq!(answer.status, status, "{name}");
        let record = world.records.lines().pop().unwrap();
        assert_eq!(record["reason"], reason, "{name}");
        if status == 403 {
            assert!(answer.text().contains("it leads to "), "{}", answer.text());
            assert!(answer.text().contains("@ADDRESS"), "{}", answer.text());
            let machine: serde_json::Value =
                serde_json::from_str(answer.field("x-oz0-denied").unwrap()).unwrap();
            assert_eq!(machine["rule"], format!("--allow {}", host(name)), "the flag that named it");
        }
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn c109_every_spelling_of_this_machine_is_refused() {
    let origin = Origin::echo();
    let port = origin.port();
    // Every name and public address is allowed, and still none of these leads to loopback.
    let world = World::start(Wanted { allow: vec![format!("*.example.com:{port}")], ..Wanted::default() });
    for host in [
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::1]",
        "[::]",
        "[fd00::1]",
        "[fec0::1]",
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "169.254.169.254",
        "a.example.com",
    ] {
        let mut client = world.client();
        client.send(world.connect(&format!("{host}:{port}")));
        assert_eq!(client.answer().status, 403, "{host}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn c110_a_mixed_answer_dials_the_allowed_address_alone() {
    let (right, wrong) = (Origin::echo(), Origin::echo());
    let world = World::start(Wanted {
        allow: vec![format!("x.example@127.0.0.1:{}", right.port())],
        names: vec![("x.example", "127.0.0.3"), ("x.example", "127.0.0.1")],
        ..Wanted::default()
    });
    let mut client = world.client();
    client.send(world.get(&format!("http://x.example:{}/", right.port())));
    assert_eq!(client.answer().status, 200);
    drop(client);
    assert_eq!(world.records.first(1)[0]["address"], "127.0.0.1");
    assert_eq!(wrong.connections(), 0);
}

#[test]
fn a_host_that_refuses_is_a_bad_gateway() {
    let port = {
        let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        origin.local_addr().unwrap().port()
    };
    let world = World::allowing(&[format!("gone.example@127.0.0.1:{port}")]);
    let mut client = world.client();
    client.send(world.connect(&format!("gone.example:{port}")));
    let answer = client.answer();
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("refused"), "{}", answer.text());
}

#[test]
fn answers_that_are_ambiguous_are_not_passed_on() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 407 Go\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n",
        "SSH-2.0-server\r\n\r\n",
    ] {
        let origin = Origin::keeping(answer);
        let world = World::allowing(&[origin.named("a.example")]);
        let mut client = world.client();
        client.send(world.get(&format!("http://a.example:{}/", origin.port())));
        assert_eq!(client.answer().status, 502, "{answer}");
        assert!(client.is_closed());
    }
}

#[test]
fn a_cut_answer_never_looks_whole() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhalf",
    ] {
        let origin = Origin::new(move |mut client| {
            client.head();
            client.send(answer);
        });
        let world = World::allowing(&[origin.named("a.example")]);
        let mut client = world.client();
        client.send(world.get(&format!("http://a.example:{}/", origin.port())));
        assert!(client.head().starts_with("HTTP/1.1 200 "));
        assert!(is_reset(&client.stream));
    }
}

#[test]
fn c107_name_lookups_are_refused_at_once_and_reported() {
    let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = dns.local_addr().unwrap();
    let world = World::start(Wanted { dns: Some(dns), ..Wanted::default() });
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"no query", address).unwrap();
    let query = b"\xab\xcd\x01\x00\0\x01\0\0\0\0\0\0\x03Svc\x04corp\x07example\0\0\x01\0\x01";
    let started = std::time::Instant::now();
    client.send_to(query, address).unwrap();
    let mut answer = [0; 512];
    let (length, _) = client.recv_from(&mut answer).unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!((&answer[..2], answer[3] & 15), (&b"\xab\xcd"[..], 5));
    assert_eq!(length, query.len());
    let denials = world.proxy().denials();
    assert_eq!(denials.len(), 1);
    assert_eq!(
        denials[0].to_string(),
        "name lookup of svc.corp.example: this program does not use the proxy"
    );
    assert_eq!(world.records.lines()[0]["kind"], "lookup");
}
