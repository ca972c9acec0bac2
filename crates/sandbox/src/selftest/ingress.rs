//! ingress: a process in the container listens on loopback, and the host does not reach it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::Lab;
use super::act::{Act, RefusalKind, Refused};
use super::evidence::{Fault, done};
use super::lab::{PATIENCE, answer, silent, together};
use super::origin::cannot_serve;
use super::session::Started;
use super::subject::greeted;

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let work = lab.folder("ingress")?;
    let (ports, controls) = (free_ports()?, free_ports()?);
    let reach = !lab.particulars().own_loopback_closed;
    let serve = |ports: &[SocketAddr; 2], who: &str, reach| Act::Serve {
        addresses: ports.to_vec(),
        greeting: format!("{who} {}", lab.mark()),
        reach,
    };
    let (act, control) = (serve(&ports, "inside", reach), serve(&controls, "outside", true));
    let (outside, inside) = together(
        || serving(&control, lab.start_outside(std::slice::from_ref(&control))?),
        || {
            let started = lab.start(&lab.policy(&work), &[], std::slice::from_ref(&act));
            serving(&act, started.map_err(|refusal| Fault::undecided(refusal.reason))?)
        },
    );
    // Both listen, and have reached themselves where the container's own loopback lets them.
    let (outside, inside) = (outside?, inside?);
    for address in controls {
        greeted(address, &format!("outside {}", lab.mark())).map_err(|error| {
            Fault::undecided(format!("outside, too, a listener on {address} was not reached: {error}"))
        })?;
    }
    let mut refusals = Vec::new();
    for address in ports {
        match greeted(address, &format!("inside {}", lab.mark())) {
            Ok(()) => return Err(Fault::broken(format!("a listener inside, on {address}, was reached"))),
            Err(error) => refusals.push(refused(address, &error)?),
        }
    }
    drop((outside, inside));
    let besides = match lab.particulars().outside.map(|holds| holds()) {
        None => String::new(),
        Some(Ok(found)) => format!("; {found}"),
        Some(Err(why)) => return Err(Fault::broken(why)),
    };
    let itself = if reach { "reached itself" } else { "may not reach itself on this route" };
    Ok(format!(
        "a process inside listened on 127.0.0.1 and on every address and {itself}; the host did not ({}){besides}",
        refusals.join(", ")
    ))
}

/// The subject says that it listens, and stays.
fn serving(act: &Act, mut subject: Started) -> Result<Started, Fault> {
    let said = answer(&subject.line(PATIENCE).map_err(silent)?)?;
    done(act, &said)?;
    Ok(subject)
}

fn refused(address: SocketAddr, error: &io::Error) -> Result<String, Fault> {
    let refused = Refused::from_error(error);
    match refused.kind {
        RefusalKind::ConnectionRefused | RefusalKind::Unreachable | RefusalKind::Denied => {
            Ok(refused.to_string())
        }
        _ => Err(Fault::undecided(format!("connecting to {address}: {error}"))),
    }
}

/// Ports that nobody on this machine listens on, for loopback and for every address.
fn free_ports() -> Result<[SocketAddr; 2], Fault> {
    let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot_serve)?;
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot_serve)?;
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    let (one, other) = (port(&one).map_err(cannot_serve)?, port(&other).map_err(cannot_serve)?);
    Ok([(Ipv4Addr::LOCALHOST, one).into(), (Ipv4Addr::UNSPECIFIED, other).into()])
}
