//! From a decision to a connected socket: one look-up, every address judged, and a connection to a judged address
//! only. It refuses to know requests.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::{Domain, Socket, Type};

use crate::allowlist::Allowlist;
use crate::decide::Decision;
use crate::host::Host;
use crate::reason::Reason;
use crate::stream::{Buffer, Moved, Stream, wait};
use crate::upstream::Upstream;

/// Looks names up. A trait, so that tests give the answers.
pub trait Resolve: Send + Sync {
    /// All addresses of a name in normal form; an error when there is none.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

impl<F> Resolve for F
where
    F: Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync,
{
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self(name)
    }
}

/// The system's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// A connection that was opened.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    /// The address that was dialled: the host's, or the upstream proxy's.
    pub(crate) address: IpAddr,
}

/// Why none was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

fn failure(reason: Reason, detail: impl ToString) -> Failure {
    Failure { reason, detail: detail.to_string() }
}

/// What dialling needs, the same for all connections of a run.
pub(crate) struct Dialler {
    pub(crate) allowlist: Allowlist,
    pub(crate) resolver: Box<dyn Resolve>,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) patience: Duration,
}

/// Waiting is cut into slices, so that the end of a run need not wait for a silent host.
const SLICE: Duration = Duration::from_millis(100);
/// Largest head of an upstream proxy's answer.
const LARGEST_ANSWER: usize = 8 * 1024;

impl Dialler {
    /// Opens the connection that was decided on. `late` takes bytes that an upstream proxy sent behind its answer.
    pub(crate) fn dial(
        &self,
        host: &Host,
        port: u16,
        decision: Decision<'_>,
        late: &mut Buffer,
        is_cut: &dyn Fn() -> bool,
    ) -> Result<Dialled, Failure> {
        let deadline = Instant::now() + self.patience;
        late.clear();
        if decision == Decision::Forwarded {
            return connect_any(&own_loopback(host), port, deadline, is_cut);
        }
        if let Some(upstream) = self.upstream.as_ref().filter(|_| !self.allowlist.is_near(host, port)) {
            self.judge_for_upstream(host, port)?;
            return self.through(upstream, host, port, late, deadline, is_cut);
        }
        let found = self.look_up(host)?;
        let mut permitted = self.permitted(host, port, &found)?;
        if self.upstream.is_some() {
            // The name may have a rule of either kind: what is not near is still never dialled around the proxy.
            permitted.retain(|address| self.allowlist.permits_near(host, port, *address));
        }
        connect_any(&permitted, port, deadline, is_cut)
    }

    fn look_up(&self, host: &Host) -> Result<Vec<IpAddr>, Failure> {
        match host {
            Host::Address(address) => Ok(vec![*address]),
            Host::Name(name) => match self.resolver.resolve(name.as_str()) {
                Ok(found) if found.is_empty() => Err(failure(Reason::LookupFailed, "it has no address")),
                Ok(found) => Ok(found),
                Err(error) => Err(failure(Reason::LookupFailed, error)),
            },
        }
    }

    /// The addresses that may be dialled, in the resolver's order. A mixed answer keeps those that are allowed.
    fn permitted(&self, host: &Host, port: u16, found: &[IpAddr]) -> Result<Vec<IpAddr>, Failure> {
        let permits = |address: &&IpAddr| self.allowlist.permits(host, port, **address).is_some();
        let permitted: Vec<IpAddr> = found.iter().filter(permits).copied().collect();
        match found.first() {
            Some(first) if permitted.is_empty() => Err(failure(
                Reason::PrivateAddress,
                format_args!("it leads to {first}, {}", crate::address::judge(*first)),
            )),
            _ => Ok(permitted),
        }
    }

    /// With an upstream proxy the name travels, and the proxy looks it up. What this node can tell is told all the
    /// same: a name that leads here to closed addresses alone is refused. A name that only the proxy's resolver
    /// knows, which is usual behind one, passes.
    fn judge_for_upstream(&self, host: &Host, port: u16) -> Result<(), Failure> {
        match self.look_up(host) {
            Ok(found) => self.permitted(host, port, &found).map(drop),
            Err(_) => Ok(()),
        }
    }

    fn through(
        &self,
        upstream: &Upstream,
        host: &Host,
        port: u16,
        late: &mut Buffer,
        deadline: Instant,
        is_cut: &dyn Fn() -> bool,
    ) -> Result<Dialled, Failure> {
        let addresses = match &upstream.host {
            own if own.is_own_loopback() => own_loopback(own).to_vec(),
            other => self.look_up(other)?,
        };
        let dialled = connect_any(&addresses, upstream.port, deadline, is_cut)?;
        let refused = |detail: &dyn ToString| failure(Reason::UpstreamRefused, detail.to_string());
        let target = host.with_port(port);
        let mut head = zeroize::Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"));
        if let Some(authorization) = &upstream.authorization {
            for part in ["Proxy-Authorization: ", authorization, "\r\n"] {
                head.push_str(part);
            }
        }
        head.push_str("\r\n");
        dialled.stream.write_all(head.as_bytes(), deadline).map_err(|error| refused(&error))?;
        let mut checked = 0;
        let length = loop {
            match crate::request::head_length(late.filled(), &mut checked) {
                Ok(Some(length)) => break length,
                Ok(None) if late.filled().len() < LARGEST_ANSWER => {}
                Ok(None) => return Err(refused(&"its answer is too large")),
                Err(error) => return Err(refused(&error)),
            }
            if !await_flag(&dialled.stream, PollFlags::IN, deadline, is_cut).map_err(|e| refused(&e))? {
                return Err(refused(&"it did not answer in time"));
            }
            if late.fill(&dialled.stream).map_err(|error| refused(&error))? == Moved::Ended {
                return Err(refused(&"it closed the connection"));
            }
        };
        let mut fields = [httparse::EMPTY_HEADER; crate::request::MOST_FIELDS];
        let mut answer = httparse::Response::new(&mut fields);
        let parsed = answer.parse(&late.filled()[..length]);
        match (parsed, answer.code) {
            (Ok(httparse::Status::Complete(_)), Some(200..300)) => {}
            (Ok(_), Some(code)) => return Err(refused(&format_args!("it answered {code}"))),
            _ => return Err(refused(&"its answer is no HTTP/1 head")),
        }
        late.consume(length);
        Ok(dialled)
    }
}

/// Both loopback addresses, the one that was asked for first: a forwarded port may listen on either.
fn own_loopback(host: &Host) -> [IpAddr; 2] {
    let (four, six) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
    if *host == Host::Address(six) { [six, four] } else { [four, six] }
}

fn connect_any(
    addresses: &[IpAddr],
    port: u16,
    deadline: Instant,
    is_cut: &dyn Fn() -> bool,
) -> Result<Dialled, Failure> {
    let mut last = failure(Reason::ConnectFailed, "no address of it may be dialled directly");
    for (index, address) in addresses.iter().enumerate() {
        // The time left is shared, so that one dead address does not eat it all.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        match connect(SocketAddr::new(*address, port), Instant::now() + left / share, is_cut) {
            Ok(stream) => return Ok(Dialled { stream, address: *address }),
            Err(error) => last = failure(Reason::ConnectFailed, format_args!("{address}: {error}")),
        }
    }
    Err(last)
}

/// Connects to one address; the deadline and `is_cut` end the wait.
pub(crate) fn connect(
    address: SocketAddr,
    deadline: Instant,
    is_cut: &dyn Fn() -> bool,
) -> io::Result<Stream> {
    let socket = new_socket(address)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if is_under_way(&error) => {
            let stream = Stream::new(socket);
            if !await_flag(&stream, PollFlags::OUT, deadline, is_cut)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if let Some(error) = stream.socket().take_error()? {
                return Err(error);
            }
            stream.keep_alive();
            return Ok(stream);
        }
        Err(error) => return Err(error),
    }
    let stream = Stream::new(socket);
    stream.keep_alive();
    Ok(stream)
}

#[cfg(target_os = "linux")]
fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    // `Type::nonblocking` saves two calls.
    Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)
}

#[cfg(not(target_os = "linux"))]
fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// EINPROGRESS on Unix, which the standard library gives no kind; WSAEWOULDBLOCK on Windows.
fn is_under_way(error: &io::Error) -> bool {
    #[cfg(unix)]
    let in_progress = error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error());
    #[cfg(not(unix))]
    let in_progress = false;
    in_progress || error.kind() == io::ErrorKind::WouldBlock
}

/// Waits for the flag; false when the deadline passed.
fn await_flag(
    stream: &Stream,
    flag: PollFlags,
    deadline: Instant,
    is_cut: &dyn Fn() -> bool,
) -> io::Result<bool> {
    loop {
        let mut fds = [stream.when(flag)];
        wait(&mut fds, Some(deadline.min(Instant::now() + SLICE)))?;
        if !fds[0].revents().is_empty() {
            return Ok(true);
        }
        if is_cut() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The world's DNS, as case C110 has it.
    fn dialler(entries: &[&str]) -> Dialler {
        let resolver = |name: &str| -> io::Result<Vec<IpAddr>> {
            let texts: &[&str] = match name {
                "x.example" => &["203.0.113.5", "8.8.8.8", "10.0.0.5"],
                "w.example" => &["127.0.0.1"],
                "v.example" => &["0.0.0.0"],
                "u.example" => &["::1"],
                "m.example" => &["::ffff:169.254.169.254", "64:ff9b::a00:1"],
                "nexus.corp" => &["10.0.0.5", "10.0.0.6"],
                "z.example" => return Err(io::Error::other("server failure")),
                "empty.example" => &[],
                _ => return Err(io::ErrorKind::NotFound.into()),
            };
            Ok(texts.iter().map(|text| text.parse().unwrap()).collect())
        };
        Dialler {
            allowlist: Allowlist::parse(entries).unwrap(),
            resolver: Box::new(resolver),
            upstream: None,
            patience: Duration::from_secs(1),
        }
    }

    fn judged(dialler: &Dialler, host: &str) -> Result<Vec<IpAddr>, Reason> {
        let host = host.parse().unwrap();
        let found = dialler.look_up(&host).map_err(|failure| failure.reason)?;
        dialler.permitted(&host, 443, &found).map_err(|failure| failure.reason)
    }

    #[test]
    fn c110_answers_fail_closed() {
        let dialler = dialler(&[
            "*.all.example",
            "x.example",
            "y.example",
            "z.example",
            "w.example",
            "v.example",
            "u.example",
            "m.example",
            "empty.example",
            "nexus.corp@10.0.0.5",
        ]);
        assert_eq!(
            judged(&dialler, "x.example"),
            Ok(vec!["8.8.8.8".parse().unwrap()]),
            "mixed: the public one"
        );
        for host in ["y.example", "z.example", "empty.example"] {
            assert_eq!(judged(&dialler, host), Err(Reason::LookupFailed), "{host}");
        }
        for host in ["w.example", "v.example", "u.example", "m.example"] {
            assert_eq!(judged(&dialler, host), Err(Reason::PrivateAddress), "{host}");
        }
        assert_eq!(judged(&dialler, "nexus.corp"), Ok(vec!["10.0.0.5".parse().unwrap()]));
    }
}
