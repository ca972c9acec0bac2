//! GitHub's webhooks, CloudEvents and Slack's events, over HTTP: believed by their own rules, once a delivery.

use ring::hmac;
use serde_json::{Value, json};

use crate::support::database::Database;
use crate::support::node::{Node, linux};
use crate::support::server::{Server, agent, answered, ask};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sign(secret: &str, text: &[u8]) -> String {
    hexadecimal(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), text).as_ref())
}

/// The trigger's URL and secret.
fn trigger(database: &Database, server: &Server, source: &str) -> (String, String) {
    let template = database.folder().join("template.json");
    let work = json!({"work": {"kind": "harness-session", "tier": "tier 1", "command": ["agent"]}});
    std::fs::write(&template, work.to_string()).unwrap();
    let template = template.to_str().unwrap();
    let made = ask(database, &["trigger", "create", source, "--source", source, "--template", template]);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (format!("{}{}", server.base, text("path")), text("secret"))
}

fn post(url: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut request = agent().post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answered(request.send(body))
}

fn ready() -> (Database, Server) {
    let database = Database::sqlite();
    ask(&database, &["tenant", "create", "acme"]);
    let server = Server::start(&database);
    Node::join(&database, &server, linux());
    (database, server)
}

#[test]
fn githubs_webhooks() {
    let (database, server) = ready();
    let (url, secret) = trigger(&database, &server, "github");
    let body = r#"{"action":"opened"}"#;
    let signature = format!("sha256={}", sign(&secret, body.as_bytes()));
    let send = |event: &str, delivery: &str, signature: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", event),
            ("x-github-delivery", delivery),
            ("x-hub-signature-256", signature),
        ];
        post(&url, &headers, body)
    };
    assert_eq!(send("ping", "d0", &signature), (200, json!({"pong": true})));
    let (status, first) = send("issues", "d1", &signature);
    assert_eq!(status, 202, "{first}");
    assert_eq!(send("issues", "d1", &signature), (200, json!({"job": first["job"], "known": true})));
    assert_eq!(send("issues", "d2", &signature.replace("sha256=", "sha1=")).0, 401);
    assert_eq!(send("issues", "d2", "sha256=00").0, 401);
    assert_eq!(send("ping", "d0", "sha256=").0, 401, "a ping is believed no sooner");
    assert_eq!(ask(&database, &["jobs"]).as_array().unwrap().len(), 1);
}

#[test]
fn slacks_events() {
    let (database, server) = ready();
    let (url, secret) = trigger(&database, &server, "slack");
    let send = |age: u64, body: &Value, retry: &str| {
        let time = (oz0::chance::now().milliseconds() / 1000 - age).to_string();
        let body = body.to_string();
        let signature = format!("v0={}", sign(&secret, format!("v0:{time}:{body}").as_bytes()));
        let headers = [
            ("content-type", "application/json"),
            ("x-slack-request-timestamp", time.as_str()),
            ("x-slack-signature", signature.as_str()),
            ("x-slack-retry-num", retry),
        ];
        post(&url, &headers, &body)
    };
    let challenge = json!({"type": "url_verification", "challenge": "abc"});
    assert_eq!(send(0, &challenge, "0"), (200, json!({"challenge": "abc"})));
    let event =
        json!({"type": "event_callback", "event_id": "Ev1", "event": {"type": "message", "text": "go"}});
    let (status, first) = send(0, &event, "0");
    assert_eq!((status, &first["known"]), (200, &json!(false)), "Slack takes nothing but 200");
    assert_eq!(send(0, &event, "1"), (200, json!({"job": first["job"], "known": true})));
    assert_eq!(send(0, &json!({"type": "app_rate_limited"}), "0"), (200, json!({"ignored": true})));
    assert_eq!(send(600, &event, "0").1["code"], "clock");
    assert_eq!(send(0, &json!({"type": "event_callback"}), "0").0, 400);
    assert_eq!(ask(&database, &["jobs"]).as_array().unwrap().len(), 1);
}

#[test]
fn cloudevents() {
    let (database, server) = ready();
    let (url, secret) = trigger(&database, &server, "cloudevents");
    let bearer = format!("Bearer {secret}");
    let event = json!({"specversion": "1.0", "id": "7", "source": "/ci", "type": "build", "data": {"n": 1}})
        .to_string();
    let structured =
        [("authorization", bearer.as_str()), ("content-type", "application/cloudevents+json; charset=utf-8")];
    let (status, first) = post(&url, &structured, &event);
    assert_eq!(status, 202, "{first}");
    let binary = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "7"),
        ("ce-source", "/ci"),
        ("ce-type", "build"),
    ];
    assert_eq!(
        post(&url, &binary, r#"{"n":1}"#),
        (200, json!({"job": first["job"], "known": true})),
        "the same event in the other form"
    );
    assert_eq!(post(&url, &binary[1..], "{}").1["code"], "bad_signature");
    assert_eq!(post(&url, &[("authorization", "Bearer x"), structured[1]], &event).0, 401);
    let old = event.replace("\"1.0\"", "\"0.3\"");
    assert_eq!(post(&url, &structured, &old).0, 400);
    let batch = [structured[0], ("content-type", "application/cloudevents-batch+json")];
    assert_eq!(post(&url, &batch, "[]").1["code"], "content_type");
    assert_eq!(post(&url, &structured[..1], "{}").0, 415);
    assert_eq!(ask(&database, &["jobs"]).as_array().unwrap().len(), 1);
}
