//! Refusing: the note, the answer, and what becomes of the connection. Where the next head can be found it goes
//! on; else it ends so that the answer still arrives. It refuses to decide.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::{Session, Wanted, milliseconds};
use crate::allowlist::Verdict;
use crate::exchange::Scratch;
use crate::framing::{Body, Framing};
use crate::reason::Reason;
use crate::record::{Kind, Record};
use crate::reply::{Reply, status_of};
use crate::request::RequestError;
use crate::stream::{Moved, wait};

/// A refused request's body up to this size is read, so that the connection can go on.
const LARGEST_DRAINED: u64 = 64 * 1024;
/// How long the proxy waits for a client to take an answer of the proxy's own, or to send the rest of a body.
const COURTESY: Duration = Duration::from_secs(5);
/// How long, and for how many bytes, an ending connection is read, so that the answer is not lost to a reset.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1024);

impl Session<'_> {
    /// Answers a head that cannot be understood, and ends the connection.
    pub(super) fn refuse_head(&mut self, status: u16, reason: Reason, error: Option<RequestError>) -> bool {
        let detail = error.map(|error| error.to_string());
        self.note_denied(Kind::Connection, None, reason, None, detail.as_deref());
        self.answer(&Reply {
            status,
            reason,
            target: None,
            rule: None,
            detail: detail.as_deref(),
            json: false,
            is_head: false,
            keep_alive: false,
        });
        self.linger();
        false
    }

    /// Answers a request that was understood and is not passed on. The connection goes on when its next head can
    /// be found.
    pub(super) fn refuse(
        &mut self,
        wanted: &Wanted,
        reason: Reason,
        rule: Option<&str>,
        detail: Option<&str>,
    ) -> bool {
        let drains = match wanted.framing {
            Framing::Empty => true,
            Framing::Length(length) => length <= LARGEST_DRAINED && !wanted.expects_continue,
            Framing::Chunked => !wanted.expects_continue,
            Framing::UntilClose => false,
        };
        // After a failure of the origin's, or of the body itself, the body is half read.
        let half_read = matches!(status_of(reason), 400 | 502);
        let keep_alive = wanted.asked.keep_alive && drains && !half_read;
        // Noted first: whoever has the answer finds it in the report.
        let kind = if wanted.connects { Kind::Connect } else { Kind::Request };
        self.note_denied(kind, Some(wanted), reason, rule, detail);
        self.answer(&Reply {
            status: status_of(reason),
            reason,
            target: Some((&wanted.text, wanted.port)),
            rule,
            detail,
            json: wanted.json,
            is_head: wanted.asked.is_head,
            keep_alive,
        });
        if keep_alive && self.drain(wanted.framing) {
            return true;
        }
        self.linger();
        false
    }

    fn answer(&mut self, reply: &Reply<'_>) {
        let mut bytes = Vec::with_capacity(512);
        reply.write(&mut bytes);
        // A client that is gone or takes nothing misses its answer; the connection ends or goes on all the same.
        let _ = self.connection.client.write_all(&bytes, Instant::now() + COURTESY);
    }

    /// Reads a refused request's body within bounds. True when the next head follows.
    fn drain(&mut self, framing: Framing) -> bool {
        let Scratch { client_in, up, .. } = &mut *self.scratch;
        let client = &self.connection.client;
        let mut body = Body::new(framing);
        let deadline = Instant::now() + COURTESY;
        let mut total = 0;
        loop {
            up.clear();
            match body.take(client_in.filled(), up.next()) {
                Ok(used) => {
                    client_in.consume(used);
                    total += used as u64;
                }
                Err(_) => return false,
            }
            up.clear();
            if body.is_done() {
                return true;
            }
            if total > LARGEST_DRAINED
                || !wait(&mut [client.when(PollFlags::IN)], Some(deadline)).unwrap_or(false)
                || !matches!(client_in.fill(client), Ok(Moved::Bytes(_) | Moved::Blocked))
            {
                return false;
            }
        }
    }

    /// Ends the connection so that what was sent last arrives.
    pub(super) fn linger(&mut self) {
        let client = &self.connection.client;
        client.end();
        let deadline = Instant::now() + LINGER.0;
        let mut read = 0;
        while read < LINGER.1 && wait(&mut [client.when(PollFlags::IN)], Some(deadline)).unwrap_or(false) {
            self.scratch.client_in.clear();
            match self.scratch.client_in.fill(client) {
                Ok(Moved::Bytes(count)) => read += count,
                Ok(Moved::Blocked) => {}
                Ok(Moved::Ended) | Err(_) => return,
            }
        }
    }

    fn note_denied(
        &self,
        kind: Kind,
        wanted: Option<&Wanted>,
        reason: Reason,
        rule: Option<&str>,
        detail: Option<&str>,
    ) {
        self.shared.book.note(Record {
            time_ms: 0,
            kind,
            host: wanted.map_or("", |wanted| &wanted.text),
            port: wanted.map_or(0, |wanted| wanted.port),
            rule,
            verdict: Verdict::Denied,
            reason,
            detail,
            address: None,
            up: 0,
            down: 0,
            duration_ms: wanted.map_or(0, |wanted| milliseconds(wanted.at.elapsed())),
        });
    }
}
