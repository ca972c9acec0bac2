//! A small world on loopback: a proxy with its own names, origins that are closures, a client of raw bytes.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use oz0_egress::{Allowlist, Limits, Proxy, Settings, Token, Upstream};

/// Longer than anything here takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a test wants of its proxy.
#[derive(Default)]
pub struct Wanted {
    pub allow: Vec<String>,
    pub forward: Vec<u16>,
    pub names: Vec<(&'static str, &'static str)>,
    pub limits: Option<Limits>,
    pub upstream: Option<Upstream>,
    pub dns: Option<UdpSocket>,
}

/// A proxy that runs.
pub struct World {
    pub proxy: Option<Proxy>,
    pub address: SocketAddr,
    /// The value for HTTP_PROXY, token included.
    pub url: String,
    pub records: Records,
}

/// The lines that the proxy has written.
#[derive(Clone, Default)]
pub struct Records(Arc<Mutex<Vec<u8>>>);

impl Records {
    pub fn lines(&self) -> Vec<serde_json::Value> {
        let bytes = self.0.lock().unwrap();
        bytes
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }

    /// The first `count` lines, waited for: what passed is written down once it is over.
    pub fn first(&self, count: usize) -> Vec<serde_json::Value> {
        until(|| self.lines().len() >= count);
        self.lines()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl World {
    /// A proxy that allows these entries; every name leads to 127.0.0.1 unless `names` says otherwise.
    pub fn allowing<S: ToString>(entries: &[S]) -> World {
        World::start(Wanted { allow: entries.iter().map(ToString::to_string).collect(), ..Wanted::default() })
    }

    pub fn start(wanted: Wanted) -> World {
        let mut names: HashMap<&str, Vec<IpAddr>> = HashMap::new();
        for (name, address) in wanted.names {
            let list = names.entry(name).or_default();
            if !address.is_empty() {
                list.push(address.parse().unwrap());
            }
        }
        let resolver = move |name: &str| match names.get(name) {
            Some(list) if list.is_empty() => Err(io::Error::from(ErrorKind::NotFound)),
            Some(list) => Ok(list.clone()),
            None => Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let token = Token::generate().unwrap();
        let url = token.proxy_url(address).to_string();
        let records = Records::default();
        let mut settings = Settings::new(Allowlist::parse(&wanted.allow).unwrap(), token);
        settings.forward = wanted.forward;
        settings.records = Some(Box::new(records.clone()));
        settings.resolver = Box::new(resolver);
        settings.upstream = wanted.upstream;
        settings.limits = wanted.limits.unwrap_or_default();
        let proxy = Proxy::start(settings, listener.into(), wanted.dns).unwrap();
        World { proxy: Some(proxy), address, url, records }
    }

    /// The `Proxy-Authorization` line with this run's token.
    pub fn authorization(&self) -> String {
        let user = self.url.strip_prefix("http://").unwrap().split_once('@').unwrap().0;
        format!("Proxy-Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(user))
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends one head with the token in it, on a new connection: `lines` without the last empty line.
    pub fn ask(&self, lines: &str) -> Client {
        let mut client = self.client();
        client.send(format!("{lines}{}\r\n", self.authorization()));
        client
    }

    /// The head of a GET with the token.
    pub fn get(&self, url: &str) -> String {
        format!("GET {url} HTTP/1.1\r\nHost: whatever.example\r\n{}\r\n", self.authorization())
    }

    /// The head of a CONNECT with the token.
    pub fn connect(&self, authority: &str) -> String {
        format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{}\r\n", self.authorization())
    }

    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }
}

/// Reads to the end of a connection: was it reset?
pub fn is_reset(stream: &TcpStream) -> bool {
    match end_of(stream) {
        Some(told) => told == ErrorKind::ConnectionReset,
        None => (0..20).any(|_| a_reset_may_look_like_an_end()),
    }
}

/// Whether a plain socket tells an end where its peer reset the connection, as now and then on Wine, which shuts a
/// socket down before it closes it, whatever the linger.
fn a_reset_may_look_like_an_end() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    end_of(&client).is_none()
}

/// Reads to the end of a connection; the error in place of one.
pub fn end_of(mut stream: &TcpStream) -> Option<ErrorKind> {
    stream.read_to_end(&mut Vec::new()).err().map(|error| error.kind())
}

/// Waits for something that another thread is about to do.
pub fn until(happened: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen in time");
        thread::sleep(Duration::from_millis(2));
    }
}

/// An answer as a client reads it.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// A client that sends bytes as they are given.
pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads a head, up to and with its empty line.
    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte).expect("a head in time") {
                0 => panic!("closed after {:?}", String::from_utf8_lossy(&head)),
                _ => head.push(byte[0]),
            }
        }
        String::from_utf8(head).unwrap()
    }

    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads an answer with a body of known length or of chunks; neither means none.
    pub fn answer(&mut self) -> Answer {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        if answer.field("transfer-encoding").is_some() {
            loop {
                let mut line = Vec::new();
                while !line.ends_with(b"\r\n") {
                    line.extend(self.exactly(1));
                }
                let size = usize::from_str_radix(str::from_utf8(&line).unwrap().trim(), 16).unwrap();
                if size == 0 {
                    // Trailer fields, up to the empty line.
                    let mut trailer = b"\r\n".to_vec();
                    while !trailer.ends_with(b"\r\n\r\n") {
                        trailer.extend(self.exactly(1));
                    }
                    answer.head.push_str(str::from_utf8(&trailer).unwrap());
                    return answer;
                }
                answer.body.extend(self.exactly(size));
                assert_eq!(self.exactly(2), b"\r\n");
            }
        }
        if let Some(length) = answer.field("content-length") {
            answer.body = self.exactly(length.parse().unwrap());
        }
        answer
    }

    /// Everything until the end.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// True when the proxy has ended the connection, by an end or a reset, and sent nothing more.
    pub fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// A server of raw bytes on loopback. Each connection is given to the closure on a thread of its own.
pub struct Origin {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Everything that origins of [`Origin::keeping`] were sent.
    pub received: Arc<Mutex<Vec<u8>>>,
}

impl Origin {
    pub fn new(serve: impl Fn(Client) + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, counter) = (Arc::new(serve), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(Client { stream }));
            }
        });
        Origin { address, connections, received: Arc::default() }
    }

    /// Answers every head (bodies of known length are read) with its own bytes as the body, on one connection.
    pub fn echo() -> Origin {
        Origin::new(|mut client| {
            while let Some(head) = next_head(&mut client) {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len());
                if client.stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    /// Answers every head with `answer` and keeps all that it reads.
    pub fn keeping(answer: &'static str) -> Origin {
        let received: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = Arc::clone(&received);
        let origin = Origin::new(move |mut client| {
            let mut bytes = [0; 4096];
            let mut seen = Vec::new();
            while let Ok(count @ 1..) = client.stream.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..count]);
                seen.extend_from_slice(&bytes[..count]);
                while let Some(at) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
                    seen.drain(..at + 4);
                    if client.stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            }
        });
        Origin { received, ..origin }
    }

    /// The entry that allows this origin under a name that leads to loopback.
    pub fn named(&self, name: &str) -> String {
        format!("{name}@{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn received(&self) -> String {
        String::from_utf8(self.received.lock().unwrap().clone()).unwrap()
    }
}

/// The next head on a connection, its body read and dropped; none at the end.
pub fn next_head(client: &mut Client) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match client.stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    if let Some(length) = length {
        client.exactly(length.parse().unwrap());
    }
    Some(head)
}
