//! The built program, serving, and asked by its own command line and over HTTP.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::database::Database;

/// The program's command line on this database.
pub(crate) fn oz0(database: &Database) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oz0"));
    command.env_clear().env("OZ0_DATA", database.data());
    if let Some(url) = database.url() {
        command.env("OZ0_DATABASE", url);
    }
    command
}

/// What a verb answers as JSON.
pub(crate) fn ask(database: &Database, words: &[&str]) -> Value {
    let output = oz0(database).args(words).arg("--json").output().unwrap();
    assert!(output.status.success(), "oz0 {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a verb says when it fails.
pub(crate) fn refused(database: &Database, words: &[&str]) -> String {
    let output = oz0(database).args(words).output().unwrap();
    assert!(!output.status.success(), "oz0 {words:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

pub(crate) struct Server {
    process: Child,
    pub(crate) base: String,
    /// What else it says.
    said: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(database: &Database) -> Server {
        Server::with(database, &["--rate", "100000", "--burst", "100000"])
    }

    pub(crate) fn with(database: &Database, words: &[&str]) -> Server {
        Server::at("127.0.0.1:0", database, words)
    }

    /// At an address of its own, as often as it is started anew.
    pub(crate) fn at(address: &str, database: &Database, words: &[&str]) -> Server {
        let log =
            std::fs::File::create(database.folder().join(format!("oz0-{}.log", std::process::id()))).unwrap();
        let mut process = oz0(database)
            .args(["serve", "--listen", address])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it said {line:?}"));
        Server { process, base: format!("http://{address}"), said }
    }

    /// Where its figures are, when it was asked for them.
    pub(crate) fn figures(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("figures on ").unwrap_or_else(|| panic!("it said {line:?}"));
        format!("http://{address}/metrics")
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap()
    }

    /// In good order.
    pub(crate) fn stop(mut self) {
        assert!(self.signal(Signal::TERM).success());
    }

    /// As if the power had gone.
    pub(crate) fn kill(mut self) {
        assert!(!self.signal(Signal::KILL).success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .max_idle_connections_per_host(64)
        .build()
        .into()
}

/// Status and JSON of an answer.
pub(crate) fn answered(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (u16, Value) {
    let mut answer = answer.unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The same, or none where nobody answered.
pub(crate) fn tried(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Option<(u16, Value)> {
    let mut answer = answer.ok()?;
    let text = answer.body_mut().read_to_string().ok()?;
    Some((answer.status().as_u16(), serde_json::from_str(&text).ok()?))
}

/// A trigger of Standard Webhooks as its sender has it.
pub(crate) struct Sender {
    agent: ureq::Agent,
    url: String,
    key: hmac::Key,
}

impl Sender {
    pub(crate) fn new(database: &Database, server: &Server, name: &str) -> Sender {
        let template = database.folder().join(format!("{name}.json"));
        let work = json!({"work": {"kind": "command", "tier": "tier 1", "command": ["true"]}});
        std::fs::write(&template, work.to_string()).unwrap();
        let made = ask(
            database,
            &["trigger", "create", name, "--source", "standard", "--template", template.to_str().unwrap()],
        );
        let secret = made["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
        Sender {
            agent: agent(),
            url: format!("{}{}", server.base, made["path"].as_str().unwrap()),
            key: hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(secret).unwrap()),
        }
    }

    /// The same sender, to a server that was started anew.
    pub(crate) fn to(&self, server: &Server) -> Sender {
        let (_, path) = self.url.split_once("/in/").unwrap();
        Sender { agent: agent(), url: format!("{}/in/{path}", server.base), key: self.key.clone() }
    }

    pub(crate) fn send(&self, id: &str, body: &[u8]) -> (u16, Value) {
        self.send_as(id, body, 0, "application/json", |signature| signature)
    }

    /// One try, whoever answers.
    pub(crate) fn try_send(&self, id: &str) -> Option<(u16, Value)> {
        tried(self.request(id, b"{}", 0, "application/json", |signature| signature))
    }

    pub(crate) fn send_as(
        &self,
        id: &str,
        body: &[u8],
        age: u64,
        kind: &str,
        change: impl Fn(String) -> String,
    ) -> (u16, Value) {
        answered(self.request(id, body, age, kind, change))
    }

    fn request(
        &self,
        id: &str,
        body: &[u8],
        age: u64,
        kind: &str,
        change: impl Fn(String) -> String,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let time = (oz0::chance::now().milliseconds() / 1000 - age).to_string();
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let signature = format!("v1,{}", STANDARD.encode(hmac::sign(&self.key, &signed)));
        self.agent
            .post(&self.url)
            .header("webhook-id", id)
            .header("webhook-timestamp", &time)
            .header("webhook-signature", &change(signature))
            .header("content-type", kind)
            .send(body)
    }
}
