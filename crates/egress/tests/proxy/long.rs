//! Streams that last: half-closes, events, bulk both ways.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use crate::world::{Origin, World, is_reset};

#[test]
fn c113_a_half_close_stays_one() {
    let origin = Origin::new(|mut client| {
        let all = client.rest();
        client.send(format!("{} bytes, then the end", all.len()));
    });
    let world = World::allowing(&[origin.named("a.example")]);
    // Below and above the size from which a tunnel splices.
    for size in [10, 3_000_000] {
        let mut client = world.client();
        client.send(world.connect(&format!("a.example:{}", origin.port())));
        assert_eq!(client.answer().status, 200);
        client.send(vec![7; size]);
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.rest(), format!("{size} bytes, then the end").as_bytes());
    }
}

#[test]
fn a_reset_is_passed_on_as_one() {
    let origin = Origin::new(|mut client| {
        client.exactly(1);
        // Unread bytes make the close a reset.
        thread::sleep(Duration::from_millis(100));
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    client.send(world.connect(&format!("a.example:{}", origin.port())));
    assert_eq!(client.answer().status, 200);
    client.send("two bytes and more");
    assert!(is_reset(&client.stream));
}

#[test]
fn bulk_both_ways_at_once_arrives_byte_for_byte() {
    const SIZE: usize = 24 << 20;
    fn pattern(seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut bytes = Vec::with_capacity(SIZE);
        while bytes.len() < SIZE {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes
    }
    fn talk(mut stream: std::net::TcpStream, out: Vec<u8>) -> Vec<u8> {
        let mut writer = stream.try_clone().unwrap();
        let sender = thread::spawn(move || {
            writer.write_all(&out).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut all = Vec::with_capacity(SIZE);
        stream.read_to_end(&mut all).unwrap();
        sender.join().unwrap();
        all
    }
    let (got, gotten) = std::sync::mpsc::channel();
    let got = std::sync::Mutex::new(got);
    let origin = Origin::new(move |client| {
        got.lock().unwrap().send(talk(client.stream, pattern(2))).unwrap();
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    client.send(world.connect(&format!("a.example:{}", origin.port())));
    assert_eq!(client.answer().status, 200);
    assert!(talk(client.stream, pattern(1)) == pattern(2));
    assert!(gotten.recv().unwrap() == pattern(1));
    let record = &world.records.first(1)[0];
    assert_eq!((record["up"].as_u64(), record["down"].as_u64()), (Some(SIZE as u64), Some(SIZE as u64)));
}

#[test]
fn c113_events_are_passed_on_at_once_and_silence_is_no_end() {
    let origin = Origin::new(|mut client| {
        client.head();
        client
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for index in 0..3 {
            thread::sleep(Duration::from_millis(400));
            client.send(format!("9\r\ndata: {index}\n\n\r\n"));
        }
        client.send("0\r\n\r\n");
    });
    let world = World::allowing(&[origin.named("sse.example")]);
    let mut client = world.client();
    client.send(world.get(&format!("http://sse.example:{}/events", origin.port())));
    assert!(client.head().contains("text/event-stream"));
    let mut before = Instant::now();
    for index in 0..3 {
        assert_eq!(client.exactly(14), format!("9\r\ndata: {index}\n\n\r\n").as_bytes());
        let took = before.elapsed();
        // 400 ms of silence, and the event within 50 ms of being sent, with room for a busy machine.
        assert!((300..650).contains(&took.as_millis()), "{took:?}");
        before = Instant::now();
    }
    assert_eq!(client.exactly(5), b"0\r\n\r\n");
    client.send(world.get("http://b.example/"));
    assert_eq!(client.answer().status, 403, "the connection goes on");
}

#[test]
fn c113_an_answer_without_a_length_ends_with_its_connection() {
    let origin = Origin::new(|mut client| {
        client.head();
        client.send("HTTP/1.0 200 OK\r\n\r\nhello");
        thread::sleep(Duration::from_millis(50));
        client.send(" world");
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.client();
    client.send(world.get(&format!("http://a.example:{}/", origin.port())));
    assert!(client.head().contains("Connection: close\r\n"));
    assert_eq!(client.rest(), b"hello world");
}

#[test]
fn an_upload_and_its_answer_flow_at_the_same_time() {
    // Answers each byte as it comes: neither side ever waits for the whole of the other.
    let origin = Origin::new(|mut client| {
        client.head();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n");
        let mut left = 8_000_000;
        let mut bytes = [0; 65536];
        while left > 0 {
            let count = client.stream.read(&mut bytes).unwrap();
            client.stream.write_all(&bytes[..count]).unwrap();
            left -= count;
        }
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.ask(&format!(
        "POST http://a.example:{}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n",
        origin.port()
    ));
    let mut writer = client.stream.try_clone().unwrap();
    let sender = thread::spawn(move || writer.write_all(&vec![9; 8_000_000]).unwrap());
    let answer = client.answer();
    sender.join().unwrap();
    assert!(answer.body.len() == 8_000_000 && answer.body.iter().all(|byte| *byte == 9));
    client.send(world.get("http://b.example/"));
    assert_eq!(client.answer().status, 403, "the connection goes on");
}

#[test]
fn an_answer_before_the_end_of_the_upload_arrives() {
    let origin = Origin::new(|mut client| {
        client.head();
        client.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.rest();
    });
    let world = World::allowing(&[origin.named("a.example")]);
    let mut client = world.ask(&format!(
        "POST http://a.example:{}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n",
        origin.port()
    ));
    client.send(vec![1; 1000]);
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (413, "big"));
    assert!(client.is_closed(), "the rest of the body is nobody's next request");
}
