//! A pretend edge: a server on loopback that verifies every request with the product's own verifier and keeps what it
//! was told. It does what a test scripts, and nothing of an edge's own judgement.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use oz0_fleet::protocol::signature::Claim;
use oz0_fleet::protocol::{
    Accepted, Ending, Enrol, Finish, Finished, JobId, LeaseRequest, LogPlace, LogTaken, Milliseconds,
    NodeState, Renew, Report, Settled, Standing, TenantId, Timestamp, path,
};
use oz0_fleet::{Reported, Tier};
use serde_json::{Value, json};

pub const TOKEN: &str = "oz0-token-for-one-use";
/// Long enough for a busy machine to renew in time.
pub const LEASE: Duration = Duration::from_secs(9);

/// What the edge knows and what it is to do.
#[derive(Default)]
pub struct Known {
    pub key: Option<Vec<u8>>,
    pub enrolments: u32,
    pub reports: Vec<Reported>,
    /// Every request's path, in order.
    pub paths: Vec<String>,
    pub nonces: BTreeSet<Vec<u8>>,
    pub starts: BTreeSet<String>,
    /// Jobs to hand out, as JSON of a lease.
    pub queue: VecDeque<Value>,
    pub capacities: Vec<LeaseRequest>,
    pub leased_at: BTreeMap<JobId, Instant>,
    pub renewals: BTreeMap<JobId, u32>,
    /// What a renewal of a job is answered; else it is kept.
    pub verdicts: BTreeMap<JobId, Value>,
    pub cancel: Vec<JobId>,
    pub logs: BTreeMap<(JobId, u32), Vec<u8>>,
    pub room: Option<u64>,
    pub endings: Vec<Ending>,
    /// Refuse what comes there, with this code.
    pub refuse: BTreeMap<&'static str, Value>,
    /// Close connections without an answer.
    pub away: bool,
    /// Answer these renewals and log pieces never: the request is read and the connection closed.
    pub deaf_to: BTreeSet<&'static str>,
    pub state: Option<NodeState>,
    pub bad: Vec<String>,
}

/// The server.
#[derive(Clone)]
pub struct Edge {
    pub url: String,
    known: Arc<(Mutex<Known>, Condvar)>,
}

impl Edge {
    pub fn start() -> Edge {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let edge = Edge { url, known: Arc::default() };
        let server = edge.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let server = server.clone();
                let Ok(connection) = connection else { continue };
                thread::spawn(move || server.serve(connection));
            }
        });
        edge
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.0.lock().unwrap()
    }

    /// Hand out a job with this work; the fence is 1 unless it was handed out before.
    pub fn queue(&self, work: Value) -> JobId {
        let mut bytes = [7; 16];
        bytes[8..].copy_from_slice(&of_its_own());
        let job = JobId::from_bytes(bytes);
        self.hand_out(job, 1, work);
        job
    }

    pub fn hand_out(&self, job: JobId, fence: u32, work: Value) {
        let lease = LEASE.as_millis() as u64;
        self.known()
            .queue
            .push_back(json!({"job": job, "fence": fence, "attempt": 1, "lease_ms": lease, "work": work}));
        self.known.1.notify_all();
    }

    /// Wait until a question about what is known has an answer.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, question: impl FnMut(&mut Known) -> Option<T>) -> T {
        self.wait_for(what, Duration::from_secs(90), question)
    }

    #[track_caller]
    pub fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        mut question: impl FnMut(&mut Known) -> Option<T>,
    ) -> T {
        let limit = Instant::now() + limit;
        let mut known = self.known();
        loop {
            if let Some(answer) = question(&mut known) {
                assert_eq!(known.bad, [] as [String; 0], "requests that no edge takes");
                return answer;
            }
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain: {what}; requests: {:?}", known.paths);
            known = self.known.1.wait_timeout(known, left.min(Duration::from_millis(100))).unwrap().0;
        }
    }

    /// The ending of a job.
    #[track_caller]
    pub fn ending(&self, job: JobId) -> Ending {
        self.wait("an ending", |known| known.endings.iter().find(|ending| ending.job == job).copied())
    }

    pub fn log(&self, job: JobId) -> Vec<u8> {
        self.known().logs.get(&(job, 1)).cloned().unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_log(&self, job: JobId, word: &str) {
        self.wait(word, |known| {
            let log = known.logs.get(&(job, 1))?;
            String::from_utf8_lossy(log).contains(word).then_some(())
        });
    }

    fn serve(&self, connection: TcpStream) {
        let mut reader = BufReader::new(connection);
        while self.one(&mut reader).is_some() {}
    }

    /// One request; none when the connection is over.
    fn one(&self, reader: &mut BufReader<TcpStream>) -> Option<()> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_ascii_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            let before = headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            if before.is_some() {
                self.known().bad.push(format!("{name} twice"));
            }
        }
        let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        {
            let mut known = self.known();
            known.paths.push(path.to_owned());
            self.known.1.notify_all();
            if known.away || known.deaf_to.iter().any(|deaf| *deaf == path) {
                return None;
            }
        }
        let (status, answer) = match self.believe(&method, path, query, &headers, &body) {
            Ok(()) => self.answer(path, query, &body),
            Err(reason) => {
                self.known().bad.push(reason.clone());
                (401, json!({"code": "bad_signature", "reason": reason}))
            }
        };
        self.known.1.notify_all();
        let text = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        reader.get_mut().write_all(head.as_bytes()).ok()?;
        reader.get_mut().write_all(text.as_bytes()).ok()
    }

    fn believe(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Result<(), String> {
        let claim = Claim::read(method, path, query, |name| headers.get(name).map(String::as_str));
        let claim = claim.map_err(|error| error.to_string())?;
        let mut known = self.known();
        let key = match path {
            path::ENROL => {
                let enrol: Enrol = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                enrol.key.0
            }
            _ => known.key.clone().ok_or("nobody has enrolled")?,
        };
        claim.verify(&key, body).map_err(|error| error.to_string())?;
        if claim.parameters.skew(now()).is_some() {
            return Err("the clock".into());
        }
        known.starts.insert(claim.start().to_string());
        // Sent again is signed anew.
        let new = known.nonces.insert(claim.parameters.nonce.bytes().to_vec());
        new.then_some(()).ok_or_else(|| "a nonce twice".into())
    }

    fn answer(&self, path: &str, query: &str, body: &[u8]) -> (u16, Value) {
        if let Some(refusal) = self.known().refuse.get(path) {
            return (409, refusal.clone());
        }
        match path {
            path::ENROL => {
                let enrol: Enrol = read(body);
                let mut known = self.known();
                if enrol.token.reveal() != TOKEN {
                    return (403, json!({"code": "token", "reason": "the token is none"}));
                }
                let node = oz0_fleet::protocol::signature::node_of(&enrol.key.0);
                known.enrolments += 1;
                known.key = Some(enrol.key.0);
                (200, json!({"node": node, "tenant": TenantId::from_bytes([1; 16]), "speak": 1}))
            }
            path::REPORT => {
                let report: Report<Reported> = read(body);
                let mut known = self.known();
                known.reports.push(report.facts);
                let accepted = Accepted {
                    speak: 1,
                    routed: Tier::One,
                    state: known.state.unwrap_or(NodeState::Active),
                    report_again_ms: Milliseconds::seconds(3600),
                };
                (200, serde_json::to_value(accepted).unwrap())
            }
            path::LEASE => {
                let question: LeaseRequest = read(body);
                (200, self.lease(question))
            }
            path::RENEW => {
                let renew: Renew = read(body);
                (200, self.renew(&renew))
            }
            path::LOG => {
                let place: LogPlace = query.parse().expect("a place in a log");
                (200, self.take_log(place, body))
            }
            path::FINISH => {
                let finish: Finish = read(body);
                (200, self.finish(finish))
            }
            _ => (404, json!({"code": "not_found", "reason": "no such path"})),
        }
    }

    fn lease(&self, question: LeaseRequest) -> Value {
        let until = Instant::now() + Duration::from(question.wait_ms).min(Duration::from_secs(5));
        let mut known = self.known();
        known.capacities.push(question);
        loop {
            if !known.queue.is_empty() || !known.cancel.is_empty() {
                // One at a time: what is asked next says what it left.
                let jobs: Vec<Value> = known.queue.pop_front().into_iter().collect();
                for job in &jobs {
                    let id = serde_json::from_value(job["job"].clone()).unwrap();
                    known.leased_at.insert(id, Instant::now());
                }
                let cancel = std::mem::take(&mut known.cancel);
                return json!({"jobs": jobs, "cancel": cancel});
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || known.away {
                return json!({"jobs": [], "cancel": []});
            }
            known = self.known.1.wait_timeout(known, left.min(Duration::from_millis(50))).unwrap().0;
        }
    }

    fn renew(&self, renew: &Renew) -> Value {
        let mut known = self.known();
        let renewals = renew.held.iter().map(|held| {
            *known.renewals.entry(held.job).or_default() += 1;
            let keep = json!({"verdict": "keep", "lease_ms": LEASE.as_millis() as u64});
            let mut renewal = known.verdicts.get(&held.job).cloned().unwrap_or(keep);
            renewal["job"] = json!(held.job);
            renewal["fence"] = json!(held.fence);
            renewal
        });
        json!({"renewals": renewals.collect::<Vec<_>>()})
    }

    fn take_log(&self, place: LogPlace, body: &[u8]) -> Value {
        let mut known = self.known();
        let room = known.room.unwrap_or(1 << 40);
        let log = known.logs.entry((place.job, place.fence.0)).or_default();
        let length = log.len() as u64;
        if place.offset <= length {
            let new = body.get((length - place.offset) as usize..).unwrap_or_default();
            let kept = new.len().min((room - length) as usize);
            log.extend_from_slice(&new[..kept]);
        }
        let next = log.len() as u64;
        serde_json::to_value(LogTaken { next, room: room - next }).unwrap()
    }

    fn finish(&self, finish: Finish) -> Value {
        let mut known = self.known();
        let standings = finish.endings.into_iter().map(|ending| {
            let before =
                known.endings.iter().any(|known| known.job == ending.job && known.fence == ending.fence);
            known.endings.push(ending);
            let settled = if before { Settled::Known } else { Settled::Kept };
            Standing { job: ending.job, fence: ending.fence, settled }
        });
        serde_json::to_value(Finished { standings: standings.collect() }).unwrap()
    }
}

/// A message of the protocol; what is none is a fault of the node's, and of the test that goes on.
fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> T {
    serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body)))
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_milliseconds(since.as_millis() as u64)
}

/// Eight bytes that no other job has.
fn of_its_own() -> [u8; 8] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id());
    number.to_be_bytes()
}

/// The work of a shell script at tier 1.
pub fn script(text: &str) -> Value {
    json!({"kind": "command", "tier": "tier 1", "command": ["sh", "-c", text], "limits": {"memory_mib": 256}})
}
