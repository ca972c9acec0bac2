//! A pretended node: a real key, real signed requests, recorded facts, and nothing run.

use std::sync::atomic::{AtomicU32, Ordering};

use oz0::chance;
use oz0_fleet::protocol::signature::{Head, Signer};
use oz0_fleet::protocol::{
    Accepted, Base64, Capacity, Ending, Enrol, Fence, Finish, Finished, JobId, Kind, Lease, LeaseRequest,
    Leased, LogPlace, Milliseconds, Outcome, Secret, StartId, Timestamp, Versions, path,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::database::Database;
use super::server::{Server, agent, answered, ask, tried};

pub(crate) struct Node {
    pub(crate) signer: Signer,
    pub(crate) start: StartId,
    pub(crate) base: String,
    agent: ureq::Agent,
}

static NAMES: AtomicU32 = AtomicU32::new(0);

/// What a Linux node with tier 1 says.
pub(crate) fn linux() -> Value {
    json!({
        "platform": "linux", "asked": "tier 1", "tier": "tier 1", "mechanism": "linux", "kernel": "6.18.44",
        "user": 1000, "namespaces": "open", "cgroup": "v2", "landlock": 7, "seccomp": "ok",
    })
}

/// What a Windows node with PSEC says.
pub(crate) fn windows() -> Value {
    json!({
        "platform": "windows", "asked": "tier 1", "tier": "tier 1", "mechanism": "psec 1.0", "build": "26200.9457",
        "edition": "client", "psec": "usable", "contract": "1.0", "features": 3,
    })
}

impl Node {
    /// A key, and nobody knows it.
    pub(crate) fn new(server: &Server) -> Node {
        let signer = Signer::from_pkcs8(&Signer::generate().unwrap()).unwrap();
        Node::of(signer, &server.base)
    }

    fn of(signer: Signer, base: &str) -> Node {
        let start = StartId::from_bytes(chance::bytes().unwrap());
        Node { signer, start, base: base.to_owned(), agent: agent() }
    }

    /// Enrolled, and reported with these facts.
    pub(crate) fn join(database: &Database, server: &Server, facts: Value) -> Node {
        let node = Node::new(server);
        let (status, answer) = node.enrol(&token(database));
        assert_eq!(status, 200, "{answer}");
        let (status, answer) = node.report(facts);
        assert_eq!(status, 200, "{answer}");
        node
    }

    /// The same key in another process, on this machine or another.
    pub(crate) fn again(kept: &[u8], server: &Server) -> Node {
        Node::at(kept, &server.base)
    }

    /// The same, at this address.
    pub(crate) fn at(kept: &[u8], base: &str) -> Node {
        Node::of(Signer::from_pkcs8(kept).unwrap(), base)
    }

    pub(crate) fn signed(
        &self,
        path: &str,
        query: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Vec<(&'static str, String)> {
        let head = Head { method: "POST", path, query, version: 1, start: self.start };
        self.signer.sign(&head, body, now, chance::bytes().unwrap()).to_vec()
    }

    pub(crate) fn send(
        &self,
        path: &str,
        query: &str,
        body: &[u8],
        headers: &[(&str, String)],
    ) -> (u16, Value) {
        answered(self.request(path, query, body, headers))
    }

    fn request(
        &self,
        path: &str,
        query: &str,
        body: &[u8],
        headers: &[(&str, String)],
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let mut request = self.agent.post(format!("{}{path}{query}", self.base));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.send(body)
    }

    pub(crate) fn post(&self, path: &str, body: &impl Serialize) -> (u16, Value) {
        let body = serde_json::to_vec(body).unwrap();
        self.send(path, "", &body, &self.signed(path, "", &body, chance::now()))
    }

    /// One try, whoever answers.
    pub(crate) fn try_post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Option<T> {
        let body = serde_json::to_vec(body).unwrap();
        let answer = tried(self.request(path, "", &body, &self.signed(path, "", &body, chance::now())));
        answer.and_then(|(status, answer)| (status == 200).then(|| serde_json::from_value(answer).unwrap()))
    }

    fn done<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> T {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        serde_json::from_value(answer).unwrap()
    }

    pub(crate) fn enrol(&self, token: &str) -> (u16, Value) {
        let key = Base64(self.signer.public().to_vec());
        self.post(path::ENROL, &Enrol { token: Secret::new(token.to_owned()), key, speaks: Versions::OURS })
    }

    pub(crate) fn report(&self, facts: Value) -> (u16, Value) {
        let report = json!({
            "speaks": {"oldest": 1, "newest": 1}, "facts": facts, "self_test": {"age_ms": 5, "took_ms": 600},
            "most_jobs": 64,
        });
        let (status, answer) = self.post(path::REPORT, &report);
        if status == 200 {
            serde_json::from_value::<Accepted>(answer.clone()).unwrap();
        }
        (status, answer)
    }

    pub(crate) fn lease_request(jobs: u16, wait: u64) -> LeaseRequest {
        let capacity = Capacity { jobs, kinds: Kind::ALL.to_vec(), memory_mib: 8192 };
        LeaseRequest { capacity, wait_ms: Milliseconds::new(wait) }
    }

    /// Jobs, waiting for as many milliseconds.
    pub(crate) fn lease(&self, jobs: u16, wait: u64) -> Vec<Lease> {
        self.done::<Leased>(path::LEASE, &Node::lease_request(jobs, wait)).jobs
    }

    pub(crate) fn log(&self, job: JobId, fence: Fence, offset: u64, bytes: &[u8]) -> (u16, Value) {
        let query = LogPlace { job, fence, offset }.to_string();
        self.send(path::LOG, &query, bytes, &self.signed(path::LOG, &query, bytes, chance::now()))
    }

    pub(crate) fn finish(&self, leases: &[Lease], outcome: Outcome) -> Finished {
        let ending = |lease: &Lease| Ending {
            job: lease.job,
            fence: lease.fence,
            outcome,
            start_ms: Milliseconds::new(3),
            run_ms: Milliseconds::new(5),
        };
        self.done(path::FINISH, &Finish { endings: leases.iter().map(ending).collect() })
    }
}

/// A token for one more node.
pub(crate) fn token(database: &Database) -> String {
    let name = format!("node-{}", NAMES.fetch_add(1, Ordering::Relaxed));
    let given = ask(database, &["node", "token", "--name", &name]);
    given["token"].as_str().unwrap().to_owned()
}
