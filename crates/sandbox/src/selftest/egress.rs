//! egress: the network is reached only through the proxy, with the run's token, to the hosts of its allowlist and
//! the forwarded ports.
//!
//! Every address here is on this machine's loopback, where 127.0.0.2 and its like stand for other hosts; the host
//! outside the allowlist is a name under `.invalid`, which is refused before any lookup.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use oz0_egress::Allowlist;

use super::Lab;
use super::act::{Act, Answer, Seen, TokenUsed};
use super::evidence::{Fault, NO_WAY, Tried, done, words};
use super::lab::together;
use super::origin::{Origin, cannot_serve};
use crate::policy::{Network, Policy};

/// Another host.
const OTHER_HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// An address that only documents use: a way to it is looked up, nothing is sent.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let hosts = Hosts::serve(lab)?;
    let policy = hosts.policy(lab)?;
    // Past the proxy.
    let mut direct = vec![
        Act::Connect(hosts.loopback.address()),
        Act::Connect(hosts.forwarded.address()),
        Act::Connect(hosts.allowed.address()),
        Act::Connect(mapped(hosts.loopback.address())),
        hosts.datagram("outside"),
        Act::Ping(NOWHERE),
    ];
    direct.extend(hosts.six.as_ref().map(|six| Act::Connect(six.address())));
    let mut inside: Vec<Act> = direct.clone();
    inside[4] = hosts.datagram("inside");
    let through = hosts.through();
    inside.extend(through.iter().map(|(act, _)| act.clone()));
    inside.push(Act::FindProxy);

    let (outside, answers) = together(|| lab.outside(&direct), || lab.inside(&policy, &inside));
    let (outside, mut answers) = (outside?, answers?);
    let proxy = answers.pop();
    let replies = answers.split_off(direct.len());
    let tried = direct.into_iter().zip(outside).zip(answers);
    let tried: Vec<Tried> = tried.map(|((act, outside), inside)| Tried { act, outside, inside }).collect();
    let icmp = judge_direct(&tried)?;
    hosts.heard_only_the_control()?;
    for ((act, expected), reply) in through.iter().zip(&replies) {
        expected.judge(act, reply, lab.mark())?;
    }
    let proxy = match proxy {
        Some(Answer::Done(Seen::Address(proxy))) => proxy,
        other => {
            let why = other.map(|answer| words(&answer)).unwrap_or_default();
            return Err(Fault::undecided(format!("the subject found no proxy: {why}")));
        }
    };
    let port = proxy_port_of_another_host(lab, &policy, proxy)?;
    let six = if hosts.six.is_some() { "IPv6" } else { "IPv6 (this machine has none)" };
    let way = lab.particulars().way.map(|way| format!("{way}; ")).unwrap_or_default();
    Ok(format!(
        "{way}through the proxy an allowed host and a forwarded port answered, without the run's token 407, another \
         host 403; refused directly: loopback, the forwarded port, another host and the proxy's port there \
         ({port}), mapped addresses, {six}, UDP (nothing arrived), ICMP ({icmp})"
    ))
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// What was tried past the proxy. Gives how ICMP was refused.
fn judge_direct(tried: &[Tried]) -> Result<String, Fault> {
    let mut icmp = String::new();
    for tried in tried {
        match tried.act {
            // A machine may keep ICMP from its users, and may have no way out, and no IPv6 to map addresses into.
            Act::Ping(_) => icmp = tried.closed(NO_WAY)?,
            Act::Connect(SocketAddr::V6(_)) => drop(tried.closed(NO_WAY)?),
            // Sending may well succeed: what counts is whether it arrived.
            Act::Send { .. } => drop(done(&tried.act, &tried.outside)?),
            _ => drop(tried.refused(NO_WAY)?),
        }
    }
    Ok(icmp)
}

/// What a request through the proxy must come to.
enum Expected {
    /// The host's own page.
    Page,
    /// The proxy's own status.
    Status(u16),
}

impl Expected {
    fn judge(&self, act: &Act, answer: &Answer, mark: &str) -> Result<(), Fault> {
        let Seen::Reply { status, body } = done(act, answer)? else {
            return Err(Fault::undecided(format!("{act}: no reply")));
        };
        match self {
            Expected::Page if *status == 200 && body == mark => Ok(()),
            Expected::Status(expected) if status == expected => Ok(()),
            Expected::Page => Err(Fault::broken(format!("{act}: status {status} instead of its page"))),
            Expected::Status(expected) => {
                Err(Fault::broken(format!("{act}: status {status}, not {expected}")))
            }
        }
    }
}

struct Hosts {
    loopback: Origin,
    forwarded: Origin,
    allowed: Origin,
    six: Option<Origin>,
    datagrams: UdpSocket,
}

impl Hosts {
    fn serve(lab: &Lab<'_>) -> Result<Hosts, Fault> {
        let serve = |ip| Origin::serve(ip, 0, lab.mark()).map_err(cannot_serve);
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot_serve)?;
        datagrams.set_nonblocking(true).map_err(cannot_serve)?;
        Ok(Hosts {
            loopback: serve(Ipv4Addr::LOCALHOST)?,
            forwarded: serve(Ipv4Addr::LOCALHOST)?,
            allowed: serve(OTHER_HOST)?,
            // A machine without IPv6 has nothing to be reached by it.
            six: Origin::serve(Ipv6Addr::LOCALHOST, 0, lab.mark()).ok(),
            datagrams,
        })
    }

    fn policy(&self, lab: &Lab<'_>) -> Result<Policy, Fault> {
        let work = lab.folder("egress")?;
        let allow = Allowlist::parse([self.allowed.address().to_string()])
            .map_err(|error| Fault::undecided(format!("the check's allowlist: {error}")))?;
        let forward = vec![self.forwarded.address().port()];
        Ok(Policy { network: Network::Proxy { allow, forward }, ..lab.policy(&work) })
    }

    fn through(&self) -> Vec<(Act, Expected)> {
        let fetch = |url: String, token| Act::Fetch { url, token };
        let own = TokenUsed::Own;
        let tokenless = Expected::Status(407);
        vec![
            (fetch(self.allowed.url(), own), Expected::Page),
            (fetch(self.forwarded.url(), own), Expected::Page),
            (fetch(self.allowed.url(), TokenUsed::None), tokenless),
            (fetch(self.allowed.url(), TokenUsed::Other), Expected::Status(407)),
            (fetch("http://not-allowed.invalid/".into(), own), Expected::Status(403)),
            (fetch(self.loopback.url(), own), Expected::Status(403)),
        ]
    }

    fn datagram(&self, words: &str) -> Act {
        let address =
            self.datagrams.local_addr().unwrap_or_else(|_| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9));
        Act::Send { address, words: words.into() }
    }

    /// Both subjects have ended, and loopback delivers at once.
    fn heard_only_the_control(&self) -> Result<(), Fault> {
        let mut control = false;
        let mut bytes = [0u8; 64];
        while let Ok(length) = self.datagrams.recv(&mut bytes) {
            match &bytes[..length] {
                b"inside" => return Err(Fault::broken("a datagram from inside arrived")),
                b"outside" => control = true,
                _ => {}
            }
        }
        if control { Ok(()) } else { Err(Fault::undecided("a datagram from outside did not arrive either")) }
    }
}

/// The proxy's port leads to the proxy alone: a server on the same port of another loopback address is not
/// reached, nor by its mapped address, nor one on IPv6's (C085). Gives the port.
fn proxy_port_of_another_host(lab: &Lab<'_>, policy: &Policy, proxy: SocketAddr) -> Result<u16, Fault> {
    // An address of this lab's own, so that two self-tests at a time do not meet. On IPv6 there is one address;
    // who listens there does not matter.
    let mark = lab.mark().as_bytes();
    let digit = |place: usize| mark.get(place).map_or(1, |byte| byte.wrapping_mul(7) | 1);
    let other = Ipv4Addr::new(127, digit(0), digit(1), digit(2));
    let _four = Origin::serve(other, proxy.port(), lab.mark()).map_err(cannot_serve)?;
    let _six = Origin::serve(Ipv6Addr::LOCALHOST, proxy.port(), lab.mark());
    let hosts: [IpAddr; 3] = [other.into(), other.to_ipv6_mapped().into(), Ipv6Addr::LOCALHOST.into()];
    let acts = hosts.map(|host| Act::Connect(SocketAddr::new(host, proxy.port())));
    let (outside, inside) = together(|| lab.outside(&acts), || lab.inside(policy, &acts));
    for ((act, outside), inside) in acts.into_iter().zip(outside?).zip(inside?) {
        let tried = Tried { act, outside, inside };
        match tried.act {
            Act::Connect(SocketAddr::V6(_)) => tried.closed(NO_WAY)?,
            _ => tried.refused(NO_WAY)?,
        };
    }
    Ok(proxy.port())
}
