//! Serving itself: TLS, health, figures, and what happens to what is not asked rightly.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::database::Database;
use crate::support::node::{Node, linux};
use crate::support::server::{Sender, Server, agent, answered, ask, refused};

#[test]
fn health_and_figures() {
    let database = Database::sqlite();
    ask(&database, &["tenant", "create", "acme"]);
    let mut server = Server::with(&database, &["--metrics", "127.0.0.1:0"]);
    let figures = server.figures();
    Node::join(&database, &server, linux());
    let sender = Sender::new(&database, &server, "deploy");
    assert_eq!(sender.send("a", b"{}").0, 202);
    let get = |url: String| answered(agent().get(url).call());
    for (path, words) in [("/healthz", "alive\n"), ("/readyz", "ready\n")] {
        assert_eq!(get(format!("{}{path}", server.base)), (200, words.into()));
    }
    assert_eq!(get(format!("{}/metrics", server.base)).0, 404, "not where senders are");
    let (status, text) = get(figures);
    let text = text.as_str().unwrap();
    assert_eq!(status, 200);
    for line in ["oz0_intake_total{outcome=\"taken\"} 1", "oz0_jobs{state=\"queued\"} 1", "# EOF"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_is_not_asked_rightly_is_answered() {
    let database = Database::sqlite();
    let server = Server::start(&database);
    let get = answered(agent().get(format!("{}/node/lease", server.base)).call());
    assert_eq!((get.0, get.1["code"].as_str()), (400, Some("bad_request")));
    assert_eq!(answered(agent().get(format!("{}/x", server.base)).call()).0, 404);
    let unsigned = answered(agent().post(format!("{}/node/lease", server.base)).send("{}"));
    assert_eq!((unsigned.0, unsigned.1["code"].as_str()), (401, Some("bad_signature")));

    // A head without end is not waited for, and not kept.
    let mut stream = TcpStream::connect(server.base.strip_prefix("http://").unwrap()).unwrap();
    let long = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(200_000));
    let mut answer = String::new();
    if stream.write_all(long.as_bytes()).is_ok() {
        drop(stream.read_to_string(&mut answer));
    }
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    server.stop();
}

#[test]
fn a_certificate_that_cannot_be_used_is_said() {
    let database = Database::sqlite();
    let file = database.folder().join("none.pem");
    let said = refused(
        &database,
        &["serve", "--certificate", file.to_str().unwrap(), "--key", file.to_str().unwrap()],
    );
    assert!(said.contains("cannot read") && said.contains("none.pem as PEM"), "{said}");
}

/// With a certificate only TLS is spoken. The pair lies beside this file, for loopback and nothing else.
#[test]
fn tls_is_spoken() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/tls");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let database = Database::sqlite();
    let words = ["--certificate", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let server = Server::with(&database, &words);
    let address = server.base.strip_prefix("http://").unwrap();
    let curl = |url: String| {
        let mut curl = std::process::Command::new("/usr/bin/curl");
        curl.args(["--silent", "--max-time", "20", "--noproxy", "*", "--cacert"]).arg(&certificate).arg(url);
        curl.output().unwrap()
    };
    assert_eq!(curl(format!("https://{address}/healthz")).stdout, b"alive\n");
    assert!(!curl(format!("http://{address}/healthz")).status.success());
    server.stop();
}
