//! An upstream proxy: everything goes through it, and nothing around it.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;

use oz0_egress::Upstream;

use crate::world::{Client, Origin, Wanted, World};

/// A proxy of the corporation's: connects everything to `to` and keeps the heads it was sent.
fn corporate(to: &Origin) -> (Origin, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, to) = (Arc::clone(&heads), to.address);
    let proxy = Origin::new(move |mut client: Client| {
        let head = client.head();
        kept.lock().unwrap().push(head.clone());
        if head.starts_with("CONNECT closed.example") {
            client.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        client.send("HTTP/1.1 200 OK\r\nVia: corporate\r\n\r\n");
        let mut origin = TcpStream::connect(to).unwrap();
        let (mut from, mut back) = (client.stream.try_clone().unwrap(), origin.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(std::net::Shutdown::Write);
        });
        let _ = std::io::copy(&mut origin, &mut client.stream);
        let _ = client.stream.flush();
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
    });
    (proxy, heads)
}

#[test]
fn c106_c146_everything_goes_through_the_upstream_proxy() {
    let far = Origin::echo();
    let near = Origin::echo();
    let (proxy, heads) = corporate(&far);
    let far_port = far.port();
    let world = World::start(Wanted {
        allow: vec![
            format!("far.example:{far_port}"),
            "closed.example".to_owned(),
            "inside.example".to_owned(),
            "git.example:22".to_owned(),
            near.named("nexus.corp"),
            "8.8.8.8".to_owned(),
        ],
        forward: vec![near.port()],
        // Known here, known only there, and leading to a private address.
        names: vec![
            ("far.example", "8.8.8.8"),
            ("git.example", ""),
            ("closed.example", ""),
            ("inside.example", "10.0.0.5"),
        ],
        upstream: Some(Upstream::parse(&format!("http://user:pass%21@{}", proxy.address)).unwrap()),
        ..Wanted::default()
    });
    let mut client = world.client();
    client.send(world.get(&format!("http://far.example:{far_port}/x")));
    assert!(client.answer().text().starts_with("GET /x "));
    client.send(world.connect("git.example:22"));
    assert_eq!(client.answer().status, 200);
    client.send("GET /in-the-tunnel HTTP/1.1\r\n\r\n");
    assert!(client.answer().text().starts_with("GET /in-the-tunnel "));
    let mut client = world.client();
    client.send(world.connect("8.8.8.8:443"));
    assert_eq!(client.answer().status, 200);
    client.send("GET /by-address HTTP/1.1\r\n\r\n");
    assert!(client.answer().text().starts_with("GET /by-address "));
    assert_eq!(far.connections(), 3);
    let heads: Vec<String> = heads.lock().unwrap().clone();
    let auth = "Proxy-Authorization: Basic dXNlcjpwYXNzIQ==";
    for (head, target) in
        heads.iter().zip([&format!("far.example:{far_port}"), "git.example:22", "8.8.8.8:443"])
    {
        assert_eq!(*head, format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{auth}\r\n\r\n"));
    }
    // What lies near is dialled here, and never asked of the upstream proxy.
    for host in ["nexus.corp", "127.0.0.1", "localhost"] {
        let mut client = world.client();
        client.send(world.get(&format!("http://{host}:{}/", near.port())));
        assert_eq!(client.answer().status, 200, "{host}");
    }
    assert_eq!((near.connections(), proxy.connections()), (3, 3));
    // The destination is still judged, and the upstream's own refusal is told.
    let mut client = world.client();
    client.send(world.connect("inside.example:443"));
    assert_eq!(client.answer().status, 403);
    assert_eq!(proxy.connections(), 3);
    client.send(world.connect("closed.example:443"));
    let answer = client.answer();
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("it answered 403"), "{}", answer.text());
    assert!(!world.records.text().contains("pass"), "no credentials in records");
}

#[test]
fn c146_a_dead_upstream_proxy_is_no_reason_to_go_around_it() {
    let far = Origin::echo();
    let dead = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let world = World::start(Wanted {
        allow: vec![format!("far.example:{}", far.port())],
        names: vec![("far.example", "8.8.8.8")],
        upstream: Some(Upstream::parse(&format!("http://{dead}")).unwrap()),
        ..Wanted::default()
    });
    let mut client = world.client();
    client.send(world.connect(&format!("far.example:{}", far.port())));
    assert_eq!(client.answer().status, 502);
    assert_eq!(far.connections(), 0);
}
