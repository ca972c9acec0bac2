//! One client's connection: request after request, each with its own token and its own decision. It refuses to
//! know how connections are accepted and how bytes are carried.

mod refuse;

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::accept::Connection;
use crate::allowlist::Verdict;
use crate::answer::Asked;
use crate::decide::{Decision, decide};
use crate::dial::{Dialled, Failure};
use crate::exchange::{Ending, Exchange, Scratch};
use crate::framing::{Body, Framing};
use crate::host::Host;
use crate::proxy::Shared;
use crate::reason::Reason;
use crate::record::{Kind, Record};
use crate::reply::ESTABLISHED;
use crate::request::{Form, MOST_FIELDS, Request, RequestError, head_length};
use crate::stream::{Moved, Stream, wait};
use crate::tunnel::{Carried, Stores, carry};

/// How long a client may take to accept the news that its tunnel is open.
const COURTESY: Duration = Duration::from_secs(5);

/// Serves one connection to its end.
pub(crate) fn serve(shared: &Shared, connection: &Connection, stores: &mut Stores) {
    shared.book.connections.fetch_add(1, Ordering::Relaxed);
    let mut scratch = stores.scratch.take().unwrap_or_else(|| Box::new(Scratch::new()));
    scratch.clear();
    let mut session = Session { shared, connection, scratch, origin: None };
    while session.turn(stores) {}
    stores.scratch = Some(session.scratch);
}

/// A connection to an origin that may serve the next request as well.
struct Origin {
    stream: Stream,
    address: IpAddr,
    host: Host,
    port: u16,
}

/// What a head asked for, once its bytes are gone.
struct Wanted {
    host: Host,
    text: String,
    port: u16,
    connects: bool,
    asked: Asked,
    framing: Framing,
    expects_continue: bool,
    json: bool,
    at: Instant,
}

impl Wanted {
    fn new(request: &Request<'_, '_>) -> Wanted {
        Wanted {
            host: request.host.clone(),
            text: request.host.to_string(),
            port: request.port,
            connects: request.form == Form::Connect,
            asked: Asked {
                version: request.version,
                is_head: request.method == "HEAD",
                upgrades: request.upgrades,
                keep_alive: request.keep_alive,
            },
            framing: request.framing,
            expects_continue: request.expects_continue,
            json: request.accepts_json,
            at: Instant::now(),
        }
    }
}

/// How reading a head ended.
enum Head {
    Whole(usize),
    Gone,
    Slow,
    Broken(RequestError),
}

struct Session<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    scratch: Box<Scratch>,
    origin: Option<Origin>,
}

impl Session<'_> {
    /// One request. False when the connection is over.
    fn turn(&mut self, stores: &mut Stores) -> bool {
        let length = match self.read_head() {
            Head::Whole(length) => length,
            Head::Gone => return false,
            Head::Slow => return self.refuse_head(408, Reason::SlowHead, None),
            Head::Broken(error) => return self.refuse_head(error.status(), error.reason(), Some(error)),
        };
        let shared = self.shared;
        let Scratch { client_in, up, .. } = &mut *self.scratch;
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let parsed = Request::parse(&client_in.filled()[..length], &mut fields).map(|request| {
            let wanted = Wanted::new(&request);
            let decision = decide(
                &shared.dialler.allowlist,
                &shared.forward,
                &shared.token,
                request.credentials,
                &request.host,
                request.port,
            );
            if decision.is_ok() {
                up.clear();
                request.write_onward(up.next());
            }
            (wanted, decision)
        });
        client_in.consume(length);
        match parsed {
            Err(error) => self.refuse_head(error.status(), error.reason(), Some(error)),
            Ok((wanted, Err(reason))) => self.refuse(&wanted, reason, None, None),
            Ok((wanted, Ok(decision))) if wanted.connects => self.tunnel(&wanted, decision, stores),
            Ok((wanted, Ok(decision))) => self.pass(&wanted, decision, stores),
        }
    }

    /// Reads until a head is whole. Idle connections wait long, a head that has begun has a deadline.
    fn read_head(&mut self) -> Head {
        let Scratch { client_in, .. } = &mut *self.scratch;
        let client = &self.connection.client;
        let mut checked = 0;
        let mut begun = None;
        loop {
            // Empty lines before a request are of old; they are no part of it.
            while checked < 4 && client_in.filled().starts_with(b"\r\n") {
                client_in.consume(2);
                checked = 0;
            }
            match head_length(client_in.filled(), &mut checked) {
                Ok(Some(length)) => {
                    self.connection.rest(false);
                    return Head::Whole(length);
                }
                Ok(None) => {}
                Err(error) => return Head::Broken(error),
            }
            let idle = client_in.is_empty() && begun.is_none();
            if !self.connection.rest(idle) && idle {
                return Head::Gone;
            }
            let deadline = if idle {
                Instant::now() + self.shared.limits.idle
            } else {
                *begun.get_or_insert_with(|| Instant::now() + self.shared.limits.head)
            };
            match wait(&mut [client.when(PollFlags::IN)], Some(deadline)) {
                Ok(true) => {}
                Ok(false) if idle => return Head::Gone,
                Ok(false) => return Head::Slow,
                Err(_) => return Head::Gone,
            }
            match client_in.fill(client) {
                Ok(Moved::Ended) | Err(_) => return Head::Gone,
                Ok(Moved::Bytes(_)) if idle => begun = Some(Instant::now() + self.shared.limits.head),
                Ok(_) => {}
            }
        }
    }

    /// CONNECT.
    fn tunnel(&mut self, wanted: &Wanted, decision: Decision<'_>, stores: &mut Stores) -> bool {
        self.origin = None;
        let dialled = match self.dial(wanted, decision) {
            Ok(dialled) => dialled,
            Err(failure) => {
                return self.refuse(
                    wanted,
                    failure.reason,
                    rule_of(decision).as_deref(),
                    Some(&failure.detail),
                );
            }
        };
        let deadline = Instant::now() + COURTESY;
        let carried = match self.connection.client.write_all(ESTABLISHED, deadline) {
            Ok(()) => self.carry(&dialled.stream, stores),
            Err(_) => Carried::default(),
        };
        self.note(wanted, decision, dialled.address, carried);
        false
    }

    fn carry(&mut self, origin: &Stream, stores: &mut Stores) -> Carried {
        let Scratch { client_in, origin_in, .. } = &mut *self.scratch;
        let client = &self.connection.client;
        carry(client, origin, client_in, origin_in, stores, || self.connection.is_cut())
    }

    /// One request in the clear.
    fn pass(&mut self, wanted: &Wanted, decision: Decision<'_>, stores: &mut Stores) -> bool {
        let kept = self.origin.take().filter(|origin| {
            // What an idle connection says unasked must not be taken for the next answer.
            origin.host == wanted.host && origin.port == wanted.port && is_quiet(&origin.stream)
        });
        let mut reused = kept.is_some();
        let mut next = kept;
        loop {
            let origin = match next.take() {
                Some(origin) => origin,
                None => match self.dial(wanted, decision) {
                    Ok(Dialled { stream, address }) => {
                        Origin { stream, address, host: wanted.host.clone(), port: wanted.port }
                    }
                    Err(failure) => {
                        return self.refuse(
                            wanted,
                            failure.reason,
                            rule_of(decision).as_deref(),
                            Some(&failure.detail),
                        );
                    }
                },
            };
            let connection = self.connection;
            let ending = Exchange {
                client: &connection.client,
                origin: &origin.stream,
                scratch: &mut self.scratch,
                body: Body::new(wanted.framing),
                asked: wanted.asked,
                reused,
                is_cut: &|| connection.is_cut(),
            }
            .run();
            if ending == Ending::Stale {
                reused = false;
                self.scratch.up.rewind();
                continue;
            }
            return self.after(wanted, decision, origin, ending, stores);
        }
    }

    fn after(
        &mut self,
        wanted: &Wanted,
        decision: Decision<'_>,
        origin: Origin,
        ending: Ending,
        stores: &mut Stores,
    ) -> bool {
        let mut carried = Carried { up: self.scratch.up.take_total(), down: self.scratch.down.take_total() };
        let mut goes_on = false;
        let address = origin.address;
        match ending {
            Ending::Next { reuse } => {
                goes_on = true;
                self.origin = Some(origin).filter(|_| reuse);
                if self.origin.is_none() {
                    self.scratch.origin_in.clear();
                }
            }
            Ending::Switch => {
                let more = self.carry(&origin.stream, stores);
                carried = Carried { up: carried.up + more.up, down: carried.down + more.down };
            }
            Ending::Close { whole: true } => self.linger(),
            Ending::Close { whole: false } => self.connection.client.reset_on_close(),
            // Never given back by a connection that was dialled for this request.
            Ending::Stale => {}
            Ending::Failed(detail) => {
                return self.refuse(wanted, Reason::BadAnswer, rule_of(decision).as_deref(), Some(&detail));
            }
            Ending::BadBody(detail) => {
                return self.refuse(wanted, Reason::Malformed, rule_of(decision).as_deref(), Some(&detail));
            }
        }
        self.note(wanted, decision, address, carried);
        goes_on
    }

    fn dial(&mut self, wanted: &Wanted, decision: Decision<'_>) -> Result<Dialled, Failure> {
        let connection = self.connection;
        let late = &mut self.scratch.origin_in;
        self.shared.dialler.dial(&wanted.host, wanted.port, decision, late, &|| connection.is_cut())
    }

    fn note(&self, wanted: &Wanted, decision: Decision<'_>, address: IpAddr, carried: Carried) {
        let rule = if self.shared.book.keeps_records() { rule_of(decision) } else { None };
        self.shared.book.note(Record {
            time_ms: 0,
            kind: if wanted.connects { Kind::Connect } else { Kind::Request },
            host: &wanted.text,
            port: wanted.port,
            rule: rule.as_deref(),
            verdict: Verdict::Allowed,
            reason: Reason::Allowed,
            detail: None,
            address: Some(address),
            up: carried.up,
            down: carried.down,
            duration_ms: milliseconds(wanted.at.elapsed()),
        });
    }
}

/// The flag that let a request pass.
fn rule_of(decision: Decision<'_>) -> Option<String> {
    match decision {
        Decision::Forwarded => Some("--forward".to_owned()),
        Decision::Allowed(rule) => Some(rule.flag()),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_quiet(stream: &Stream) -> bool {
    matches!(wait(&mut [stream.when(PollFlags::IN)], Some(Instant::now())), Ok(false))
}
