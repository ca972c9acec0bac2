//! The forwarder that bridges and relays are, in front of a proxy.

use std::path::PathBuf;
use std::time::Duration;

use oz0_egress::{Destination, Forwarder, Listener};

use crate::world::{Client, Origin, World};

fn loopback() -> Listener {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()
}

#[test]
fn c145_two_relays_do_not_disturb_each_other() {
    let origin = Origin::echo();
    let (one, two) =
        (World::allowing(&[origin.named("a.example")]), World::allowing(&[origin.named("a.example")]));
    let start = |world: &World| {
        let listener = loopback();
        let address = listener.local_addr().unwrap();
        (Forwarder::start(listener, Destination::Tcp(world.address), 8).unwrap(), address)
    };
    let ((first, first_at), (second, second_at)) = (start(&one), start(&two));
    let at = format!("a.example:{}", origin.port());
    let mut busy = Client::connect(second_at);
    busy.send(two.connect(&at));
    assert_eq!(busy.answer().status, 200);
    let mut client = Client::connect(first_at);
    client.send(two.connect(&at));
    assert_eq!(client.answer().status, 407, "the other run's token");
    client.send(one.connect(&at));
    assert_eq!(client.answer().status, 200);
    drop(client);
    first.stop(Duration::from_secs(1));
    busy.send("GET /still HTTP/1.1\r\n\r\n");
    assert!(busy.answer().text().starts_with("GET /still "));
    assert_eq!(second.stop(Duration::ZERO), 1, "the busy connection was cut");
    assert!(busy.is_closed());
}

/// Wine has no AF_UNIX and says so with this number, WSAEAFNOSUPPORT; every Windows that a node runs on has it.
#[test]
fn a_bridge_leads_over_a_socket_file_to_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    match Listener::unix(&path) {
        Err(error) if cfg!(windows) => assert_eq!(error.raw_os_error(), Some(10047), "{error}"),
        listener => leads_to_the_proxy(listener.unwrap(), path),
    }
}

fn leads_to_the_proxy(listener: Listener, path: PathBuf) {
    let origin = Origin::echo();
    let inner = Forwarder::start(listener, Destination::Tcp(origin.address), 4).unwrap();
    let listener = loopback();
    let address = listener.local_addr().unwrap();
    let outer = Forwarder::start(listener, Destination::Unix(path), 1).unwrap();
    let mut client = Client::connect(address);
    client.send("GET /over-the-bridge HTTP/1.1\r\n\r\n");
    assert!(client.answer().text().starts_with("GET /over-the-bridge "));
    assert!(Client::connect(address).is_closed(), "one connection too many");
    drop(client);
    outer.stop(Duration::from_secs(1));
    inner.stop(Duration::from_secs(1));
}

#[test]
fn a_dead_destination_is_a_reset() {
    let dead = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let listener = loopback();
    let address = listener.local_addr().unwrap();
    let _forwarder = Forwarder::start(listener, Destination::Tcp(dead), 4).unwrap();
    assert!(Client::connect(address).is_closed());
}
