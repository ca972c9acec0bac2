//! Limits on heads, time and number, and the end of the proxy.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use oz0_egress::{Limits, Reason};

use crate::world::{Client, Origin, Wanted, World};

#[test]
fn large_heads_are_refused() {
    let world = World::allowing(&["a.example"]);
    let mut client = world.client();
    client.send(format!("GET http://a.example/ HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(40_000)));
    let answer = client.answer();
    assert_eq!(answer.status, 431);
    let mut client =
        world.ask(&format!("GET http://a.example/ HTTP/1.1\r\nHost: a\r\n{}", "X: y\r\n".repeat(200)));
    assert_eq!(client.answer().status, 431);
}

#[test]
fn a_slow_head_meets_its_deadline_whatever_trickles_in() {
    let limits = Limits { head: Duration::from_millis(400), ..Limits::default() };
    let world = World::start(Wanted { limits: Some(limits), ..Wanted::default() });
    let mut client = world.client();
    let mut writer = client.stream.try_clone().unwrap();
    let trickle = thread::spawn(move || {
        for byte in b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n".iter().cycle() {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let started = Instant::now();
    assert_eq!(client.answer().status, 408);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    trickle.join().unwrap();
    assert_eq!(world.records.lines()[0]["reason"], "slow-head");
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let limits = Limits { idle: Duration::from_millis(200), ..Limits::default() };
    let world = World::start(Wanted { limits: Some(limits), ..Wanted::default() });
    assert!(world.client().is_closed());
}

#[test]
fn the_257th_connection_gets_a_prompt_503() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("a.example")]);
    let mut held: Vec<Client> = (0..256).map(|_| world.client()).collect();
    // The last of the 256 has been taken in once it is answered.
    held[255].send(world.get("http://b.example/"));
    assert_eq!(held[255].answer().status, 403);
    let started = Instant::now();
    let mut one_more = world.client();
    one_more.send(world.get(&format!("http://a.example:{}/", origin.port())));
    let answer = one_more.answer();
    assert_eq!(answer.status, 503);
    assert!(answer.text().starts_with("busy: "));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(one_more.is_closed());
    assert!(world.proxy().denials().iter().any(|denial| denial.reason == Reason::TooManyConnections));
    // The others still work, and one that ends makes room.
    held[0].send(world.get(&format!("http://a.example:{}/", origin.port())));
    assert_eq!(held[0].answer().status, 200);
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut client = world.client();
        client.send(world.get("http://b.example/"));
        if client.answer().status == 403 {
            break;
        }
        assert!(Instant::now() < deadline, "no room was made");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn stop_lets_tunnels_end_and_cuts_what_does_not() {
    let origin = Origin::new(|mut client| {
        let wish = client.exactly(4);
        if wish == b"end." {
            thread::sleep(Duration::from_millis(300));
            client.send("late");
        } else {
            client.rest();
        }
    });
    let mut world = World::allowing(&[origin.named("a.example")]);
    let open = |wish: &str| {
        let mut client = world.client();
        client.send(world.connect(&format!("a.example:{}", origin.port())));
        assert_eq!(client.answer().status, 200);
        client.send(wish);
        client
    };
    let (mut ending, mut silent) = (open("end."), open("hang"));
    let mut idle = world.client();
    idle.send(world.get("http://b.example/"));
    assert_eq!(idle.answer().status, 403);
    let proxy = world.proxy.take().unwrap();
    let reader = thread::spawn(move || ending.rest());
    let started = Instant::now();
    let summary = proxy.stop(Duration::from_millis(1500));
    let took = started.elapsed();
    assert!((Duration::from_millis(1500)..Duration::from_secs(4)).contains(&took), "{took:?}");
    assert_eq!(reader.join().unwrap(), b"late", "what was under way arrived");
    assert_eq!(summary.cut, 1);
    assert!(silent.is_closed() && idle.is_closed());
    assert_eq!(summary.connections, 3);
    assert_eq!((summary.allowed, summary.denied), (2, 1));
    assert!(summary.up >= 8 && summary.down >= 4);
    assert!(std::net::TcpStream::connect(world.address).is_err(), "nobody listens any more");
}

#[test]
fn stop_is_quick_when_nothing_is_open() {
    let mut world = World::allowing(&["a.example"]);
    let _idle = world.client();
    let started = Instant::now();
    let summary = world.proxy.take().unwrap().stop(Duration::from_secs(2));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(summary.cut, 0);
}
