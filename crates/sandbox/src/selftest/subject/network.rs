//! Acts on the network: connections past the proxy and through it, datagrams, ICMP, and being reached.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::selftest::act::{Answer, Seen, TokenUsed};
use crate::sys::attempt;

/// Loopback answers at once; this is for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a served address stays, when nothing ends it.
const SERVING: Duration = Duration::from_secs(15);

/// The most of an answer that is read.
const LONGEST: u64 = 16 * 1024;

pub(super) fn connect(address: SocketAddr) -> Answer {
    Answer::of(TcpStream::connect_timeout(&address, PATIENCE), |_| Seen::Nothing)
}

pub(super) fn send(address: SocketAddr, words: &str) -> Answer {
    let own: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    match UdpSocket::bind((own, 0)) {
        Ok(socket) => Answer::of(socket.send_to(words.as_bytes(), address), |sent| Seen::Count(sent as u64)),
        Err(error) => Answer::untried("a datagram socket", error),
    }
}

/// What the loopback of a container leads to: the container itself, or nowhere.
pub(super) fn dial_itself() -> Answer {
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    match listening {
        // The listener is held until the dial is over; who is accepted is whoever dialled.
        Ok((_listener, address)) => connect(address),
        Err(error) => Answer::untried("listening on 127.0.0.1", error),
    }
}

pub(super) fn ping(address: Ipv4Addr) -> Answer {
    Answer::of(attempt::icmp_towards(address), |()| Seen::Nothing)
}

/// The proxy's address and the user and token that go before it.
fn proxy() -> Result<(SocketAddr, String), String> {
    let url = std::env::var("HTTP_PROXY").map_err(|_| "HTTP_PROXY is not set".to_owned())?;
    // The URL is not repeated: the token is in it.
    let parts = url.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').rsplit_once('@'));
    let (credentials, address) = parts.ok_or("HTTP_PROXY is no URL with a token")?;
    let address = address.parse().map_err(|_| "HTTP_PROXY holds no address and port".to_owned())?;
    Ok((address, credentials.to_owned()))
}

pub(super) fn find_proxy() -> Answer {
    match proxy() {
        Ok((address, _)) => Answer::Done(Seen::Address(address)),
        Err(why) => Answer::Untried(why),
    }
}

pub(super) fn fetch(url: &str, token: TokenUsed) -> Answer {
    let (address, credentials) = match proxy() {
        Ok(proxy) => proxy,
        Err(why) => return Answer::Untried(why),
    };
    let host = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let credentials = match token {
        TokenUsed::Own => Some(credentials),
        TokenUsed::None => None,
        // As long as a real one.
        TokenUsed::Other => {
            credentials.split_once(':').map(|(user, own)| format!("{user}:{}", "A".repeat(own.len())))
        }
    };
    let authorization = credentials
        .map(|credentials| format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(credentials)))
        .unwrap_or_default();
    let head = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{authorization}Connection: close\r\n\r\n");
    Answer::of(exchange(address, &head), |(status, body)| Seen::Reply { status, body })
}

fn exchange(address: SocketAddr, head: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    while answer.len() < 16 * 1024 && !is_whole(&answer) {
        let mut bytes = [0u8; 2048];
        match stream.read(&mut bytes)? {
            0 => break,
            read => answer.extend_from_slice(&bytes[..read]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status =
        status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no status in the answer"))?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Ok((status, body))
}

/// Is the answer there up to its Content-Length? The proxy keeps some connections open after a refusal.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

/// Listen on every address, reach oneself on each when asked to, say so, and greet peers until killed.
pub(super) fn serve(
    addresses: &[SocketAddr],
    greeting: &str,
    reach: bool,
    answer: impl Fn(&Answer) -> io::Result<()>,
) -> io::Result<()> {
    for address in addresses {
        let listener = match TcpListener::bind(address) {
            Ok(listener) => listener,
            Err(error) => return answer(&Answer::untried(&format!("listening on {address}"), error)),
        };
        let greeting = greeting.to_owned();
        thread::Builder::new().spawn(move || greet(&listener, &greeting))?;
    }
    for address in addresses.iter().filter(|_| reach) {
        if let Err(error) = greeted(*address, greeting) {
            return answer(&Answer::untried(&format!("reaching itself on {address}"), error));
        }
    }
    answer(&Answer::Done(Seen::Nothing))?;
    thread::sleep(SERVING);
    Ok(())
}

fn greet(listener: &TcpListener, greeting: &str) {
    for stream in listener.incoming() {
        // A peer that has gone again was reached all the same.
        let _ = stream.and_then(|mut stream| stream.write_all(greeting.as_bytes()));
    }
}

/// Connect to a served address, on loopback, and read its greeting.
pub(in crate::selftest) fn greeted(address: SocketAddr, greeting: &str) -> io::Result<()> {
    let ip = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    let stream = TcpStream::connect_timeout(&SocketAddr::new(ip, address.port()), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut heard = String::new();
    stream.take(LONGEST).read_to_string(&mut heard)?;
    if heard == greeting {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "somebody else answered"))
    }
}
