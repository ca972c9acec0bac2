//! Writing: acts that arrive while others are being committed wait together and are committed together, so that a
//! busy oz0 waits for the disk once for many of them. Knows no act.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sqlx::AnyConnection;
use sqlx::Executor as _;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Connection, Dialect, Result, StoreError};

/// Something that changes what is kept, whole or not at all. It is run again when the acts beside it failed, so it
/// holds all that it needs and changes nothing but the database.
pub trait Act: Send + Sync + 'static {
    /// What comes out.
    type Done: Send + 'static;

    /// Do it. What it refuses on account of what it finds is part of [`Act::Done`], and decided before it writes: only
    /// an error takes back what was written.
    fn act(&self, connection: &mut Connection) -> impl Future<Output = Result<Self::Done>> + Send;
}

/// As many acts as are committed together: more would let the first wait too long.
const MOST_TOGETHER: usize = 128;
/// As many as wait before whoever sends them waits too.
const MOST_WAITING: usize = 4096;
/// How often an act that met another one's lock is tried.
const TRIES: u32 = 5;

type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// An act with the way back to whoever waits for it.
trait Waiting: Send {
    fn run<'a>(&'a mut self, connection: &'a mut Connection) -> Step<'a>;
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

struct Asked<A: Act> {
    act: A,
    done: Option<A::Done>,
    back: oneshot::Sender<Result<A::Done>>,
}

impl<A: Act> Waiting for Asked<A> {
    fn run<'a>(&'a mut self, connection: &'a mut Connection) -> Step<'a> {
        Box::pin(async move {
            self.done = Some(self.act.act(connection).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        let Asked { done, back, .. } = *self;
        let result = failed.map_or_else(|| done.ok_or(StoreError::Closed), Err);
        // Whoever asked may have gone: the act is done all the same.
        drop(back.send(result));
    }
}

type Queue = Arc<Mutex<mpsc::Receiver<Box<dyn Waiting>>>>;

/// The writers.
#[derive(Clone)]
pub(super) struct Writers {
    queue: mpsc::Sender<Box<dyn Waiting>>,
    tasks: Arc<Mutex<Vec<JoinHandle<()>>>>,
    closing: Arc<tokio::sync::watch::Sender<bool>>,
}

impl Writers {
    pub(super) async fn start(dialect: Dialect, url: String, first: AnyConnection) -> Result<Writers> {
        let (queue, receiver) = mpsc::channel(MOST_WAITING);
        let receiver: Queue = Arc::new(Mutex::new(receiver));
        let (closing, closed) = tokio::sync::watch::channel(false);
        let mut connections = vec![first];
        while connections.len() < dialect.writers() {
            connections.push(dialect.connect(&url).await?);
        }
        let tasks = connections.into_iter().map(|inner| {
            let writer = Writer {
                connection: Connection { inner, dialect },
                url: url.clone(),
                broken: false,
                queue: Arc::clone(&receiver),
                closed: closed.clone(),
            };
            tokio::spawn(writer.run())
        });
        Ok(Writers { queue, tasks: Arc::new(Mutex::new(tasks.collect())), closing: Arc::new(closing) })
    }

    pub(super) async fn act<A: Act>(&self, act: A) -> Result<A::Done> {
        let (back, done) = oneshot::channel();
        let asked = Box::new(Asked { act, done: None, back });
        self.queue.send(asked).await.map_err(|_| StoreError::Closed)?;
        done.await.map_err(|_| StoreError::Closed)?
    }

    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        for task in self.tasks.lock().await.drain(..) {
            drop(task.await);
        }
    }
}

struct Writer {
    connection: Connection,
    url: String,
    /// The connection is not to be used again.
    broken: bool,
    queue: Queue,
    closed: tokio::sync::watch::Receiver<bool>,
}

impl Writer {
    async fn run(mut self) {
        while let Some(batch) = self.next().await {
            self.commit(batch).await;
        }
    }

    /// What waits now, or the first that comes.
    async fn next(&mut self) -> Option<Vec<Box<dyn Waiting>>> {
        let mut queue = self.queue.lock().await;
        let first = tokio::select! {
            biased;
            first = queue.recv() => Some(first?),
            () = until(&mut self.closed) => None,
        };
        let first = match first {
            Some(first) => first,
            None => {
                queue.close();
                queue.recv().await?
            }
        };
        let mut batch = vec![first];
        while batch.len() < MOST_TOGETHER
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        Some(batch)
    }

    /// All together; where that fails, each by itself, so that one does not fail another.
    async fn commit(&mut self, mut batch: Vec<Box<dyn Waiting>>) {
        let failed = match self.transact(&mut batch).await {
            Ok(()) => None,
            Err(error) if batch.len() == 1 => self.again(&mut batch, error).await,
            Err(_) => {
                for one in batch {
                    let mut one = vec![one];
                    let failed = match self.transact(&mut one).await {
                        Ok(()) => None,
                        Err(error) => self.again(&mut one, error).await,
                    };
                    answer(one, failed);
                }
                return;
            }
        };
        answer(batch, failed);
    }

    /// Try one that met another one's lock a few times more.
    async fn again(&mut self, one: &mut [Box<dyn Waiting>], first: StoreError) -> Option<StoreError> {
        let mut error = first;
        for attempt in 1..TRIES {
            if !passes(&error) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(u64::from(5 * attempt * attempt))).await;
            match self.transact(one).await {
                Ok(()) => return None,
                Err(next) => error = next,
            }
        }
        tracing::warn!(error = &error as &dyn std::error::Error, "an act failed");
        Some(error)
    }

    async fn transact(&mut self, batch: &mut [Box<dyn Waiting>]) -> Result<()> {
        let dialect = self.connection.dialect;
        if self.broken {
            self.connection.inner = dialect.connect(&self.url).await?;
            self.broken = false;
        }
        let result = async {
            self.connection.inner.execute(dialect.begin()).await?;
            for waiting in batch {
                waiting.run(&mut self.connection).await?;
            }
            self.connection.inner.execute("COMMIT").await?;
            Ok(())
        }
        .await;
        if result.is_err() {
            // A connection that cannot even take back is of no use.
            self.broken = self.connection.inner.execute("ROLLBACK").await.is_err();
        }
        result
    }
}

fn answer(batch: Vec<Box<dyn Waiting>>, failed: Option<StoreError>) {
    let mut failed = failed;
    for waiting in batch {
        // There is an error only where there is one act.
        waiting.answer(failed.take());
    }
}

/// Was it another's lock, which passes? Nothing was written then. A connection that broke says nothing about that, so
/// whoever asked is told instead, and asks again by its own name for it.
fn passes(error: &StoreError) -> bool {
    let StoreError::Database(sqlx::Error::Database(error)) = error else { return false };
    // PostgreSQL: serialization failure, deadlock, lock timeout. SQLite: busy, locked, busy snapshot.
    error.code().is_some_and(|code| matches!(code.as_ref(), "40001" | "40P01" | "55P03" | "5" | "6" | "517"))
}

/// Until it says so.
async fn until(closed: &mut tokio::sync::watch::Receiver<bool>) {
    drop(closed.wait_for(|closed| *closed).await);
}
