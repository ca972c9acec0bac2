//! What passes: requests in the clear, tunnels, keep-alive, bodies, upgrades, forwarded ports.

use std::net::Shutdown;

use crate::world::{Origin, Wanted, World, next_head, until};

#[test]
fn a_request_in_the_clear_reaches_its_origin() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    client.send(world.get(&format!("http://a.example:{}/x?y", origin.port())));
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text(), format!("GET /x?y HTTP/1.1\r\nHost: a.example:{}\r\n\r\n", origin.port()));
}

#[test]
fn the_token_is_wanted_on_every_request_and_the_connection_is_kept() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("a.example")]);
    let url = format!("http://a.example:{}/", origin.port());
    let bare = format!("GET {url} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let posted = format!("POST {url} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello");
    let chunked =
        format!("PUT {url} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let tunnel = format!("CONNECT a.example:{} HTTP/1.1\r\nHost: a.example\r\n\r\n", origin.port());
    let mut client = world.client();
    for head in [&bare, &posted, &chunked, &tunnel, &bare] {
        client.send(head);
        let refused = client.answer();
        assert_eq!(refused.status, 407, "{head}");
        assert_eq!(refused.field("proxy-authenticate"), Some("Basic realm=\"oz0\""));
        client.send(world.get(&url));
        assert_eq!(client.answer().status, 200, "after {head}");
    }
    // Several in one segment are answered in their order.
    client.send(format!("{bare}{}{bare}", world.get(&url)));
    assert_eq!([client.answer().status, client.answer().status, client.answer().status], [407, 200, 407]);
    assert_eq!(origin.connections(), 1, "one connection to the origin served all");
    assert!(!world.records.text().contains(&world.url[11..40]), "no token in records");
}

#[test]
fn another_runs_token_opens_nothing() {
    let origin = Origin::echo();
    let (one, other) =
        (World::allowing(&[origin.named("a.example")]), World::allowing(&[origin.named("a.example")]));
    let mut client = one.client();
    client.send(other.connect(&format!("a.example:{}", origin.port())));
    assert_eq!(client.answer().status, 407);
    client.send(one.connect(&format!("a.example:{}", origin.port())));
    assert_eq!(client.answer().status, 200);
}

#[test]
fn c116_five_requests_on_one_tunnel() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    // The first bytes of the tunnel come in the same segment as its head.
    client.send(world.connect(&format!("a.example:{}", origin.port())) + "GET /0 HTTP/1.1\r\n\r\n");
    let opened = client.head();
    assert_eq!(opened, "HTTP/1.1 200 Connection established\r\n\r\n");
    assert!(client.answer().text().starts_with("GET /0 "));
    for index in 1..6 {
        client.send(format!(
            "POST /{index} HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc"
        ));
        assert!(client.answer().text().starts_with(&format!("POST /{index} ")));
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn c103_bodies_keep_their_framing() {
    let origin = Origin::keeping("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    let url = format!("http://a.example:{}/x", origin.port());
    let auth = world.authorization();
    client.send(format!("DELETE {url} HTTP/1.1\r\nHost: a\r\n{auth}Transfer-Encoding: chunked\r\n\r\n"));
    client.send("14;ext=1\r\nGET /evil HTTP/1.1\r\n\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.answer().text(), "ok");
    client.send(format!("GET {url} HTTP/1.1\r\nHost: a\r\n{auth}Content-Length: 5\r\n\r\nhello"));
    assert_eq!(client.answer().text(), "ok");
    let host = format!("Host: a.example:{}\r\n", origin.port());
    until(|| origin.received().ends_with("hello"));
    assert_eq!(
        origin.received(),
        format!(
            "DELETE /x HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n\
             14\r\nGET /evil HTTP/1.1\r\n\r\n0\r\nX-Sum: 1\r\n\r\n\
             GET /x HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhello"
        )
    );
}

#[test]
fn c103_answers_to_head_and_204_and_304_have_no_body() {
    let origin = Origin::new(|mut client| {
        while let Some(head) = next_head(&mut client) {
            let status = if head.contains("/204") { "204 None" } else { "304 Same" };
            let status = if head.starts_with("HEAD") { "200 OK" } else { status };
            client.send(format!("HTTP/1.1 {status}\r\nContent-Length: 7\r\n\r\n"));
        }
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let url = format!("http://a.example:{}", origin.port());
    let mut client = world.client();
    for (head, length) in [
        (world.get(&format!("{url}/204")), None),
        (world.get(&format!("{url}/304")), Some("Content-Length: 7")),
        (world.get(&url).replace("GET", "HEAD"), Some("Content-Length: 7")),
        (world.get(&format!("{url}/204")), None),
    ] {
        client.send(head);
        let answer = client.head();
        assert_eq!(answer.lines().find(|line| line.starts_with("Content-Length")), length);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn c103_expect_continue_reaches_the_origin_and_back() {
    let origin = Origin::new(|mut client| {
        let head = client.head();
        assert!(head.contains("Expect: 100-continue\r\n"));
        client.send("HTTP/1.1 100 Continue\r\n\r\n");
        let body = client.exactly(5);
        client.send(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        );
        client.send(body);
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.ask(&format!(
        "POST http://a.example:{}/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n",
        origin.port()
    ));
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert!(client.head().starts_with("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n"));
    assert_eq!(client.answer().text(), "hello");
    // Refused before the body: the client may or may not send it, so the connection ends.
    let mut client = world
        .ask("POST http://b.example/ HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 5\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("connection")), (403, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn c112_a_websocket_over_the_clear_and_over_a_tunnel() {
    let origin = Origin::new(|mut client| {
        let head = client.head();
        assert!(head.contains("Connection: upgrade\r\nUpgrade: websocket\r\n"), "{head}");
        client.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst",
        );
        for _ in 0..100 {
            let frame = client.exactly(9);
            client.send(frame);
        }
        client.send(b"bye");
    });
    let world = World::allowing(&[origin.named("ws.example")]);
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n";
    let talk = |mut client: crate::world::Client| {
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.to_lowercase().contains("upgrade: websocket\r\n"));
        assert_eq!(client.exactly(5), b"first");
        for index in 0..100 {
            let frame = format!("\x00frame{index:03}");
            client.send(&frame);
            assert_eq!(client.exactly(9), frame.as_bytes());
        }
        assert_eq!(client.rest(), b"bye");
    };
    let port = origin.port();
    talk(world.ask(&format!("GET http://ws.example:{port}/chat HTTP/1.1\r\nHost: ws\r\n{upgrade}")));
    let mut client = world.client();
    client.send(world.connect(&format!("ws.example:{port}")));
    assert_eq!(client.answer().status, 200);
    client.send(format!("GET /chat HTTP/1.1\r\nHost: ws\r\n{upgrade}\r\n"));
    talk(client);
}

#[test]
fn trailers_and_chunks_of_an_answer_are_passed_on() {
    let origin = Origin::keeping(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 9\r\nHost: evil\r\n\r\n",
    );
    let world = World::allowing(&[origin.named("a.example")]);
    let url = format!("http://a.example:{}/", origin.port());
    let mut client = world.client();
    for _ in 0..2 {
        client.send(world.get(&url));
        let answer = client.answer();
        assert_eq!(answer.text(), "abc");
        assert_eq!(answer.field("x-sum"), Some("9"));
        assert_eq!(answer.field("host"), None);
    }
    // A client that knows no chunks gets the data alone, and then the end.
    let mut old = world.ask(&format!("GET {url} HTTP/1.0\r\n"));
    assert!(!old.head().contains("chunked"));
    assert_eq!(old.rest(), b"abc");
}

#[test]
fn forwarded_ports_are_reached_by_their_loopback_urls() {
    let (forwarded, closed) = (Origin::echo(), Origin::echo());
    let world = World::start(Wanted { forward: vec![forwarded.port()], ..Wanted::default() });
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let mut client = world.client();
        client.send(world.get(&format!("http://{host}:{}/", forwarded.port())));
        let answer = client.answer();
        assert_eq!(answer.status, 200, "{host}");
        assert!(answer.text().contains(&format!("Host: {host}:{}\r\n", forwarded.port())));
        client.send(world.connect(&format!("{host}:{}", forwarded.port())));
        assert_eq!(client.answer().status, 200, "{host}");
        let mut client = world.client();
        client.send(world.get(&format!("http://{host}:{}/", closed.port())));
        let answer = client.answer();
        assert_eq!(answer.status, 403);
        assert!(answer.text().contains(&format!("--forward {}", closed.port())), "{}", answer.text());
    }
    assert_eq!(closed.connections(), 0);
}

#[test]
fn c086_an_exact_address_and_port_answers_and_its_neighbours_do_not() {
    let origin = Origin::echo();
    let port = origin.port();
    let world = World::allowing(&[format!("127.0.0.1:{port}")]);
    let status = |host: &str, port: u16| {
        let mut client = world.client();
        client.send(world.get(&format!("http://{host}:{port}/")));
        client.answer().status
    };
    assert_eq!(status("127.0.0.1", port), 200);
    assert_eq!(status("127.0.0.1", port - 1), 403);
    for host in ["localhost", "127.0.0.2", "[::ffff:127.0.0.1]", "[::1]", "any.example"] {
        assert_eq!(status(host, port), 403, "{host}");
    }
}

#[test]
fn a_stale_connection_to_the_origin_is_replaced_unseen() {
    let origin = Origin::new(|mut client| {
        if let Some(head) = next_head(&mut client) {
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()));
        }
        // And closes without having said so.
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    for _ in 0..20 {
        client.send(world.get(&format!("http://a.example:{}/", origin.port())));
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!(origin.connections(), 20);
}

#[test]
fn what_an_idle_origin_says_is_never_the_next_answer() {
    let origin = Origin::new(|mut client| {
        while next_head(&mut client).is_some() {
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            std::thread::sleep(std::time::Duration::from_millis(50));
            let _ = client.stream.shutdown(Shutdown::Read);
            use std::io::Write;
            let _ = client.stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        }
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    for _ in 0..3 {
        client.send(world.get(&format!("http://a.example:{}/", origin.port())));
        assert_eq!(client.answer().text(), "ok");
        std::thread::sleep(std::time::Duration::from_millis(120));
    }
}
