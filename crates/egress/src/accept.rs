//! Accepting connections, the bound on their number, and their orderly end: the part that the proxy and a plain
//! forwarder share. It refuses to know what is said on a connection.

use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use socket2::Socket;

use crate::bell::Bell;
use crate::listener::Listener;
use crate::stream::{Stream, wait};
use crate::tunnel::Stores;
use crate::workers::Workers;

/// Connections accepted, or datagrams read, before the loop looks at the rest.
const TURN: usize = 64;
/// One turned away is kept this long, so that its answer is not lost to a reset.
const TURNED_AWAY: Duration = Duration::from_millis(500);
const MOST_TURNED_AWAY: usize = 64;
/// The pause when the process has no descriptor or thread left.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for threads to end once their connections are cut.
const LAST_CALL: Duration = Duration::from_secs(1);

/// What is done with connections.
pub(crate) trait Service: Send + Sync + 'static {
    /// Serves one connection to its end, on a thread of its own.
    fn serve(&self, connection: &Connection, stores: &mut Stores);

    /// What one connection too many is sent. Also counts it.
    fn turn_away(&self) -> &'static [u8];

    /// Answers the datagrams that wait, at most `most`.
    fn datagrams(&self, _socket: &UdpSocket, _most: usize) {}
}

/// One accepted connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Stream,
    idle: AtomicBool,
    control: Arc<Control>,
}

impl Connection {
    /// True once it has to end at once.
    pub(crate) fn is_cut(&self) -> bool {
        self.control.cut.load(Ordering::SeqCst)
    }

    /// Marks it as waiting for a next request; false when there shall be none.
    pub(crate) fn rest(&self, idle: bool) -> bool {
        self.idle.store(idle, Ordering::SeqCst);
        !self.control.ending.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
struct Control {
    ending: AtomicBool,
    cut: AtomicBool,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    closed: Condvar,
}

impl Control {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until none is open; gives how many still are at the deadline.
    fn wait_closed(&self, deadline: Instant) -> usize {
        let mut open = self.open();
        while !open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            open = self.closed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        open.len()
    }
}

/// Takes a connection out of the register when its job ends, however it ends.
struct Ticket(u64, Arc<Connection>);

impl Drop for Ticket {
    fn drop(&mut self) {
        let control = &self.1.control;
        control.open().remove(&self.0);
        control.closed.notify_all();
    }
}

/// A running accept loop. Dropping it cuts everything.
pub(crate) struct Acceptor {
    control: Arc<Control>,
    workers: Arc<Workers<Ticket>>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn start(
        service: Arc<dyn Service>,
        listener: Listener,
        datagrams: Option<UdpSocket>,
        most: usize,
    ) -> io::Result<Acceptor> {
        listener.socket().set_nonblocking(true)?;
        if let Some(socket) = &datagrams {
            socket.set_nonblocking(true)?;
        }
        let control = Arc::new(Control::default());
        let served = Arc::clone(&service);
        let workers =
            Workers::new(move |ticket: Ticket, stores: &mut Stores| served.serve(&ticket.1, stores));
        let bell = Arc::new(Bell::new()?);
        let accepting = Accepting {
            service,
            listener,
            datagrams,
            most,
            control: Arc::clone(&control),
            workers: Arc::clone(&workers),
            bell: Arc::clone(&bell),
            turned_away: Vec::new(),
            number: 0,
            paused: None,
        };
        let thread = thread::Builder::new()
            .name("egress-accept".to_owned())
            .stack_size(128 * 1024)
            .spawn(move || accepting.run())?;
        Ok(Acceptor { control, workers, bell, thread: Some(thread) })
    }

    /// Accepts no more, lets what is open end for at most `drain`, cuts the rest. Gives how many were cut.
    pub(crate) fn stop(&mut self, drain: Duration) -> usize {
        let Some(thread) = self.thread.take() else { return 0 };
        let deadline = Instant::now() + drain;
        self.control.ending.store(true, Ordering::SeqCst);
        self.bell.ring();
        // It only panics on a bug, and then accepts no more either.
        let _ = thread.join();
        for connection in self.control.open().values() {
            if connection.idle.load(Ordering::SeqCst) {
                connection.client.cut();
            }
        }
        let cut = self.control.wait_closed(deadline);
        self.control.cut.store(true, Ordering::SeqCst);
        for connection in self.control.open().values() {
            connection.client.cut();
        }
        // A thread that hangs in the system's resolver is left behind: it holds no way out any more.
        let deadline = Instant::now() + LAST_CALL;
        self.control.wait_closed(deadline);
        self.workers.close(deadline);
        cut
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

struct Accepting {
    service: Arc<dyn Service>,
    listener: Listener,
    datagrams: Option<UdpSocket>,
    most: usize,
    control: Arc<Control>,
    workers: Arc<Workers<Ticket>>,
    bell: Arc<Bell>,
    turned_away: Vec<(Instant, Stream)>,
    number: u64,
    /// No accepting before this moment.
    paused: Option<Instant>,
}

impl Accepting {
    fn run(mut self) {
        while !self.control.ending.load(Ordering::SeqCst) {
            let (connections, datagrams) = self.wait();
            self.turned_away.retain(|(until, _)| *until > Instant::now());
            if let Some(socket) = self.datagrams.as_ref().filter(|_| datagrams) {
                self.service.datagrams(socket, TURN);
            }
            if connections {
                self.accept_waiting();
            }
        }
    }

    /// Waits for connections and datagrams.
    fn wait(&mut self) -> (bool, bool) {
        self.paused = self.paused.filter(|until| *until > Instant::now());
        let mut fds = Vec::with_capacity(3);
        self.bell.watch(&mut fds);
        let listener_at = self.paused.is_none().then_some(fds.len());
        if listener_at.is_some() {
            fds.push(PollFd::new(self.listener.socket(), PollFlags::IN));
        }
        let datagrams_at = self.datagrams.as_ref().map(|socket| {
            fds.push(PollFd::new(socket, PollFlags::IN));
            fds.len() - 1
        });
        let first_out = self.turned_away.first().map(|(until, _)| *until);
        let deadline = [first_out, self.paused].into_iter().flatten().min();
        if wait(&mut fds, deadline).is_err() {
            thread::sleep(PAUSE);
        }
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        (ready(listener_at), ready(datagrams_at))
    }

    fn accept_waiting(&mut self) {
        for _ in 0..TURN {
            match self.listener.accept() {
                Ok(Some(socket)) => self.take_in(socket),
                Ok(None) => break,
                Err(_) => {
                    self.paused = Some(Instant::now() + PAUSE);
                    break;
                }
            }
        }
    }

    fn take_in(&mut self, socket: Socket) {
        let client = Stream::new(socket);
        let connection = Arc::new(Connection {
            client: client.clone(),
            idle: AtomicBool::new(true),
            control: Arc::clone(&self.control),
        });
        self.number += 1;
        let number = self.number;
        {
            let mut open = self.control.open();
            if open.len() >= self.most {
                drop(open);
                self.turn_away(client);
                return;
            }
            open.insert(number, Arc::clone(&connection));
        }
        if self.workers.submit(Ticket(number, connection)).is_err() {
            // No thread to be had: the ticket was dropped, and so is out of the register.
            self.turn_away(client);
        }
    }

    fn turn_away(&mut self, client: Stream) {
        let _ = client.write(self.service.turn_away());
        client.end();
        if self.turned_away.len() == MOST_TURNED_AWAY {
            self.turned_away.remove(0);
        }
        self.turned_away.push((Instant::now() + TURNED_AWAY, client));
    }
}
