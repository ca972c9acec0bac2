//! A request on a kept connection, a tunnel from open to close, and a megabyte through a tunnel, each directly,
//! through the plain forwarder and through the proxy, in one run. `examples/compare.rs` adds a minimal splice(2)
//! relay, other proxies and CPU time.

// A benchmark that cannot set itself up has nothing to report but the panic.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use base64::Engine;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use oz0_egress::{Allowlist, Destination, Forwarder, Proxy, Settings, Token};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const PIECE: usize = 1 << 20;

fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (Arc::clone(&serve), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Answers each head; a head that asks for /bulk gets a megabyte.
fn origin() -> SocketAddr {
    listen(|mut stream| {
        let piece = vec![7; PIECE];
        let mut bytes = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let answer = if bytes[..count].starts_with(b"GET /bulk") { &piece[..] } else { ANSWER };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

struct Way {
    name: &'static str,
    address: SocketAddr,
    credentials: Option<String>,
}

impl Way {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn tunnel(&self, to: SocketAddr) -> TcpStream {
        let mut stream = self.connect();
        if let Some(line) = &self.credentials {
            stream
                .write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{line}\r\n").as_bytes())
                .unwrap();
            let mut bytes = [0; 256];
            let count = stream.read(&mut bytes).unwrap();
            assert!(bytes[..count].starts_with(b"HTTP/1.1 200 ") && bytes[..count].ends_with(b"\r\n\r\n"));
        }
        stream
    }
}

fn ask(stream: &mut TcpStream, request: &[u8]) {
    stream.write_all(request).unwrap();
    let mut bytes = [0; 1024];
    let mut have = 0;
    while !bytes[..have].ends_with(b"hello") {
        let count = stream.read(&mut bytes[have..]).unwrap();
        assert!(count > 0);
        have += count;
    }
}

fn benches(criterion: &mut Criterion) {
    let origin = origin();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let token = Token::generate().unwrap();
    let url = token.proxy_url(address);
    let user = url.strip_prefix("http://").unwrap().split_once('@').unwrap().0;
    let line =
        format!("Proxy-Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(user));
    let allowlist = Allowlist::parse([origin.to_string()]).unwrap();
    let _proxy = Proxy::start(Settings::new(allowlist, token), listener.into(), None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let forwarded = listener.local_addr().unwrap();
    let _forwarder = Forwarder::start(listener.into(), Destination::Tcp(origin), 64).unwrap();
    let ways = [
        Way { name: "direct", address: origin, credentials: None },
        Way { name: "forwarder", address: forwarded, credentials: None },
        Way { name: "proxy", address, credentials: Some(line) },
    ];

    let mut group = criterion.benchmark_group("request");
    for way in &ways {
        let request = match &way.credentials {
            Some(line) => format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n{line}\r\n"),
            None => format!("GET / HTTP/1.1\r\nHost: {origin}\r\n\r\n"),
        };
        let mut stream = way.connect();
        group.bench_function(way.name, |bench| bench.iter(|| ask(&mut stream, request.as_bytes())));
    }
    group.finish();

    let mut group = criterion.benchmark_group("tunnel");
    for way in &ways {
        group.bench_function(way.name, |bench| {
            bench.iter(|| ask(&mut way.tunnel(origin), b"GET / HTTP/1.1\r\n\r\n"));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("megabyte");
    group.throughput(Throughput::Bytes(PIECE as u64));
    for way in &ways {
        let mut stream = way.tunnel(origin);
        let mut bytes = vec![0; PIECE];
        group.bench_function(way.name, |bench| {
            bench.iter(|| {
                stream.write_all(b"GET /bulk HTTP/1.1\r\n\r\n").unwrap();
                stream.read_exact(&mut bytes).unwrap();
            });
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
