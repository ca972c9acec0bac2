//! One request and its answer between a client and an origin, bodies both ways at once, each byte passed on when
//! it comes. It refuses to decide and to dial.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::answer::{Answer, Asked};
use crate::framing::Body;
use crate::readiness::{is_gone, is_readable, is_worth_watching};
use crate::request::{LARGEST_HEAD, head_length};
use crate::stream::{Buffer, Moved, Outgoing, Stream, wait};

/// Buffers of one connection; a thread keeps them for its next one.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) client_in: Buffer,
    pub(crate) origin_in: Buffer,
    pub(crate) up: Outgoing,
    pub(crate) down: Outgoing,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch {
            client_in: Buffer::new(LARGEST_HEAD),
            origin_in: Buffer::new(2 * LARGEST_HEAD),
            up: Outgoing::default(),
            down: Outgoing::default(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.client_in.clear();
        self.origin_in.clear();
        self.up.clear();
        self.down.clear();
    }
}

/// How an exchange ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Whole; the client's connection goes on, the origin's if `reuse`.
    Next { reuse: bool },
    /// As far as it could be; the client's connection ends. `whole` is false for an answer that was cut.
    Close { whole: bool },
    /// Both sides agreed to speak another protocol.
    Switch,
    /// The origin had closed an idle connection: nothing was lost, another one will do.
    Stale,
    /// No answer that can be passed on came; the client has got nothing yet.
    Failed(String),
    /// The client's body cannot be framed; the client has got nothing yet.
    BadBody(String),
}

/// A client that ended its side and an origin that stays silent: looked at this often.
const LOOK: Duration = Duration::from_secs(300);

/// One exchange under way.
pub(crate) struct Exchange<'a> {
    pub(crate) client: &'a Stream,
    pub(crate) origin: &'a Stream,
    pub(crate) scratch: &'a mut Scratch,
    /// The request's body; its head lies in `scratch.up`.
    pub(crate) body: Body,
    pub(crate) asked: Asked,
    /// True when the origin's connection has served before.
    pub(crate) reused: bool,
    pub(crate) is_cut: &'a dyn Fn() -> bool,
}

impl Exchange<'_> {
    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Ending {
        let mut answer: Option<Answer> = None;
        let mut begun = false;
        let mut checked = 0;
        let replayable = self.reused && self.body.is_done();
        let mut origin_ended = false;
        let mut look = Instant::now() + LOOK;
        loop {
            if let Err(detail) = self.send_up() {
                return if begun { Ending::Close { whole: false } } else { Ending::BadBody(detail) };
            }
            while self.scratch.down.is_empty() {
                match self.fetch_down(&mut answer, &mut checked) {
                    Ok(true) => begun = true,
                    Ok(false) => break,
                    Err(_) if begun => return Ending::Close { whole: false },
                    Err(detail) => return Ending::Failed(detail),
                }
            }
            if self.scratch.down.flush(self.client).is_err() {
                return Ending::Close { whole: false };
            }
            let drained = self.scratch.down.is_empty();
            if let Some(answer) = answer.as_ref().filter(|answer| drained && answer.body.is_done()) {
                return self.finish(answer);
            }
            if origin_ended && drained {
                return match &answer {
                    Some(answer) => Ending::Close { whole: answer.body.ends_with_connection() },
                    None if !begun && replayable && self.scratch.origin_in.is_empty() => Ending::Stale,
                    None if !begun => Ending::Failed("it closed the connection without an answer".to_owned()),
                    None => Ending::Close { whole: false },
                };
            }
            if (self.is_cut)() {
                return Ending::Close { whole: false };
            }
            match self.wait_and_read(&mut origin_ended, &mut look) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Ending::Close { whole: false },
            }
        }
    }

    fn finish(&self, answer: &Answer) -> Ending {
        if answer.status == 101 {
            return Ending::Switch;
        }
        // An answer before the end of the request: what is left of the body is nobody's next request.
        if !self.body.is_done() || answer.closes_client {
            return Ending::Close { whole: true };
        }
        let settled = self.scratch.up.is_empty() && self.scratch.origin_in.is_empty();
        Ending::Next { reuse: answer.keep_alive && settled }
    }

    /// Frames what came of the request's body and sends what it can.
    fn send_up(&mut self) -> Result<(), String> {
        let Scratch { client_in, up, .. } = &mut *self.scratch;
        loop {
            if up.is_empty() && !self.body.is_done() && !client_in.is_empty() {
                let used =
                    self.body.take(client_in.filled(), up.next()).map_err(|error| error.to_string())?;
                client_in.consume(used);
            }
            if up.is_empty() {
                return Ok(());
            }
            if up.flush(self.origin).is_err() {
                // It takes no more; it may have said why, so the answer is still read.
                up.clear();
                return Ok(());
            }
            if !up.is_empty() {
                return Ok(());
            }
        }
    }

    /// Turns what came from the origin into bytes for the client. False when it takes more bytes first.
    fn fetch_down(&mut self, answer: &mut Option<Answer>, checked: &mut usize) -> Result<bool, String> {
        let Scratch { origin_in, down, .. } = &mut *self.scratch;
        if origin_in.is_empty() {
            return Ok(false);
        }
        if let Some(answer) = answer {
            if answer.body.is_done() {
                return Ok(false);
            }
            let used =
                answer.body.take(origin_in.filled(), down.next()).map_err(|error| error.to_string())?;
            origin_in.consume(used);
            return Ok(true);
        }
        let length = match head_length(origin_in.filled(), checked) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(false),
            Err(error) => return Err(format!("its answer: {error}")),
        };
        let head = Answer::pass(&origin_in.filled()[..length], self.asked, down.next())
            .map_err(|error| error.to_string())?;
        origin_in.consume(length);
        *checked = 0;
        if !head.is_interim() {
            // The first of the body goes out with the head: one write where there would be two.
            let mut head = head;
            if !head.body.is_done() && head.status != 101 {
                let used =
                    head.body.take(origin_in.filled(), &mut down.bytes).map_err(|error| error.to_string())?;
                origin_in.consume(used);
            }
            *answer = Some(head);
        }
        Ok(true)
    }

    /// Waits and reads what is there. False when the client is gone.
    fn wait_and_read(&mut self, origin_ended: &mut bool, look: &mut Instant) -> io::Result<bool> {
        let Scratch { client_in, origin_in, up, down } = &mut *self.scratch;
        let (reads_body, reads_answer) = (up.is_empty() && !self.body.is_done(), down.is_empty());
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let of_client = flags(reads_body, !down.is_empty());
        let of_origin = flags(reads_answer && !*origin_ended, !up.is_empty());
        let mut fds = [self.client.when(of_client), self.origin.when(of_origin)];
        // An origin that broke reports HUP for ever, also while nothing is wanted of it.
        let watched = match (is_worth_watching(of_client), !of_origin.is_empty()) {
            (true, false) => &mut fds[..1],
            (false, true) => &mut fds[1..],
            _ => &mut fds[..],
        };
        if !wait(watched, Some(*look))? {
            *look = Instant::now() + LOOK;
            return Ok(!self.client.has_ended());
        }
        let (client, origin) = (fds[0].revents(), fds[1].revents());
        if !(client.is_empty() && origin.is_empty()) {
            *look = Instant::now() + LOOK;
        }
        let client_speaks = reads_body && is_readable(client);
        if is_gone(client) && !client_speaks {
            return Ok(false);
        }
        if client_speaks && client_in.fill(self.client)? == Moved::Ended {
            return Ok(false);
        }
        if !origin.is_empty() && reads_answer {
            match origin_in.fill(self.origin) {
                Ok(Moved::Ended) | Err(_) => *origin_ended = true,
                Ok(_) => {}
            }
        }
        Ok(true)
    }
}
