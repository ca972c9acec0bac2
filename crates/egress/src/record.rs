//! What was decided: a line of JSON for each decision, the denials of the run added up, totals. It refuses to
//! decide, and it holds nothing without a bound.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::allowlist::Verdict;
use crate::reason::Reason;

/// Distinct denials that are kept; the rest is counted.
pub const MOST_DENIALS: usize = 256;

/// What was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A tunnel.
    Connect,
    /// One request in the clear.
    Request,
    /// A connection that got no further than its head.
    Connection,
    /// A DNS query inside the sandbox.
    Lookup,
}

/// One decision and what became of it. Written when the connection or the request is over.
#[derive(Debug, Clone, Serialize)]
pub struct Record<'a> {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// What was decided on.
    pub kind: Kind,
    /// The host in normal form, or escaped; empty when the head told none.
    pub host: &'a str,
    /// The port; 0 when the head told none.
    pub port: u16,
    /// The flag that let it pass, or that named the host of what was denied later.
    pub rule: Option<&'a str>,
    /// Yes or no.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// More on why, in words.
    pub detail: Option<&'a str>,
    /// The address that was dialled.
    pub address: Option<IpAddr>,
    /// Bytes from the sandbox.
    pub up: u64,
    /// Bytes to the sandbox.
    pub down: u64,
    /// From the head to the end.
    pub duration_ms: u64,
}

/// One kind of denial of this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// The host in normal form, or escaped.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Why.
    pub reason: Reason,
    /// How often.
    pub count: u64,
    /// The flag that would allow it, when one would.
    pub fix: Option<String>,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            Reason::NameLookup => write!(f, "name lookup of {}: {}", self.host, self.reason)?,
            reason => write!(f, "denied: {}:{} ({}x), {reason}", self.host, self.port, self.count)?,
        }
        match &self.fix {
            Some(fix) => write!(f, "; to allow it: {fix}"),
            None => Ok(()),
        }
    }
}

/// What a proxy did in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Connections accepted.
    pub connections: u64,
    /// Requests and tunnels that were let through.
    pub allowed: u64,
    /// Those that were not.
    pub denied: u64,
    /// Bytes from the sandbox.
    pub up: u64,
    /// Bytes to the sandbox.
    pub down: u64,
    /// Connections that were open when the time to drain was over.
    pub cut: usize,
    /// Records that could not be written.
    pub records_lost: u64,
    /// Denials that differed from all that are listed, once the list was full.
    pub denials_unlisted: u64,
    /// The denials, most frequent first.
    pub denials: Vec<Denial>,
}

/// The book that all threads write in.
pub(crate) struct Book {
    records: Option<Mutex<Box<dyn Write + Send>>>,
    denials: Mutex<BTreeMap<(String, u16, Reason), u64>>,
    pub(crate) connections: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    lost: AtomicU64,
    unlisted: AtomicU64,
}

impl Book {
    pub(crate) fn new(records: Option<Box<dyn Write + Send>>) -> Book {
        Book {
            records: records.map(Mutex::new),
            denials: Mutex::new(BTreeMap::new()),
            connections: AtomicU64::new(0),
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
        }
    }

    /// False when nobody reads records, so that none need be worded.
    pub(crate) fn keeps_records(&self) -> bool {
        self.records.is_some()
    }

    /// Notes one decision.
    pub(crate) fn note(&self, mut record: Record<'_>) {
        match record.verdict {
            Verdict::Allowed => self.allowed.fetch_add(1, Ordering::Relaxed),
            Verdict::Denied => self.denied.fetch_add(1, Ordering::Relaxed),
        };
        self.up.fetch_add(record.up, Ordering::Relaxed);
        self.down.fetch_add(record.down, Ordering::Relaxed);
        if is_denial(record.reason) {
            self.add_denial(record.host, record.port, record.reason);
        }
        let Some(records) = &self.records else { return };
        let started = Duration::from_millis(record.duration_ms);
        record.time_ms = (SystemTime::now() - started)
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let written = serde_json::to_vec(&record).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            // One write a line: readers that follow the file never see half a record.
            let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
            records.write_all(&line)
        });
        if written.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<(String, u16, Reason), u64>> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_denial(&self, host: &str, port: u16, reason: Reason) {
        let mut list = self.list();
        let full = list.len() >= MOST_DENIALS;
        let key = (host.to_owned(), port, reason);
        match list.get_mut(&key) {
            Some(count) => *count += 1,
            None if full => {
                self.unlisted.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                list.insert(key, 1);
            }
        }
    }

    pub(crate) fn denials(&self) -> Vec<Denial> {
        let mut denials: Vec<Denial> = self
            .list()
            .iter()
            .map(|((host, port, reason), count)| Denial {
                host: host.clone(),
                port: *port,
                reason: *reason,
                count: *count,
                fix: reason.fix(host, *port),
            })
            .collect();
        denials.sort_by_key(|denial| std::cmp::Reverse(denial.count));
        denials
    }

    pub(crate) fn summary(&self, cut: usize) -> Summary {
        if let Some(records) = &self.records
            && records.lock().unwrap_or_else(PoisonError::into_inner).flush().is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary {
            connections: read(&self.connections),
            allowed: read(&self.allowed),
            denied: read(&self.denied),
            up: read(&self.up),
            down: read(&self.down),
            cut,
            records_lost: read(&self.lost),
            denials_unlisted: read(&self.unlisted),
            denials: self.denials(),
        }
    }
}

/// What the run's report names. A missing token is a client's usual first try, and failures are no denials.
fn is_denial(reason: Reason) -> bool {
    match reason {
        Reason::NotAllowed
        | Reason::PortNotAllowed
        | Reason::PrivateAddress
        | Reason::PortNotForwarded
        | Reason::TokenWrong
        | Reason::TooManyConnections
        | Reason::NameLookup => true,
        Reason::Allowed
        | Reason::Malformed
        | Reason::HeadTooLarge
        | Reason::SlowHead
        | Reason::TokenMissing
        | Reason::LookupFailed
        | Reason::ConnectFailed
        | Reason::UpstreamRefused
        | Reason::BadAnswer => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(host: &str, reason: Reason) -> Record<'_> {
        Record {
            time_ms: 0,
            kind: Kind::Connect,
            host,
            port: 443,
            rule: None,
            verdict: Verdict::Denied,
            reason,
            detail: None,
            address: None,
            up: 0,
            down: 0,
            duration_ms: 0,
        }
    }

    #[test]
    fn c178_denials_are_added_up_and_bounded() {
        let book = Book::new(None);
        for _ in 0..3 {
            book.note(denied("b.example", Reason::NotAllowed));
        }
        book.note(denied("b.example", Reason::TokenMissing));
        for index in 0..1000 {
            book.note(denied(&format!("h{index}.example"), Reason::NotAllowed));
        }
        let summary = book.summary(0);
        assert_eq!(summary.denials.len(), MOST_DENIALS);
        assert_eq!(summary.denials_unlisted, 1001 - MOST_DENIALS as u64);
        assert_eq!(
            summary.denials[0].to_string(),
            "denied: b.example:443 (3x), no --allow names this host; to allow it: --allow b.example"
        );
        assert_eq!(summary.denied, 1004);
    }

    #[test]
    fn a_writer_that_fails_is_told_in_the_summary() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let book = Book::new(Some(Box::new(Full)));
        book.note(denied("b.example", Reason::NotAllowed));
        assert_eq!(book.summary(0).records_lost, 1);
    }
}
