//! E1, E3 to E7: how a contained program reaches the egress proxy by either route, and what is asked of Windows for it.
//! The contained program is this test's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::json;

use super::support::{Machine, err, out};

/// What a host of this machine says.
fn serve() -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").unwrap();
    });
    (port, serving)
}

/// A run of this test's own `client`, on a machine that takes `route`.
fn client(machine: &Machine, route: &str, forward: u16) -> Command {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().to_str().unwrap().to_owned();
    let forward = forward.to_string();
    let options =
        ["sandbox", "run", "--read", &folder, "--forward", &forward, "--env", &format!("PORT={forward}")];
    let client = ["--", program.to_str().unwrap(), "--exact", "network::asks", "--ignored", "--nocapture"];
    let mut node = machine.node(&[&options[..], &client].concat());
    node.env("OZ0_SANDBOX_PSEC_ROUTE", route);
    node
}

fn answers(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once("client: ")).map(|(_, said)| said).collect()
}

#[test]
fn by_the_bridge() {
    let machine = Machine::new("");
    let (port, serving) = serve();
    let output = client(&machine, "bridge", port).output().unwrap();
    assert_eq!(answers(&out(&output)), ["200", "407", "403"], "{} {}", out(&output), err(&output));
    serving.join().unwrap();
    machine.nothing_leaked();
    // No capability, no proxy, no peer: the container has no network, and the bridge is inside it.
    let made = machine.calls("create").pop().unwrap();
    assert!(made["specification"]["capabilities"].is_null(), "{made}");
    assert!(made["specification"]["network"]["proxy"].is_null(), "{made}");
    assert!(machine.calls("profile_create").is_empty());
}

#[test]
fn by_the_relay() {
    let machine = Machine::new("version=1.1\nsupport=0xf");
    let (port, serving) = serve();
    let output = client(&machine, "relay", port).output().unwrap();
    assert_eq!(answers(&out(&output)), ["200", "407", "403"], "{} {}", out(&output), err(&output));
    serving.join().unwrap();
    machine.nothing_leaked();
    // What 26300.9711 takes, and nothing else: no egress table, no ingress table, contract 1.0.
    let made = machine.calls("create").pop().unwrap();
    let specification = &made["specification"];
    assert_eq!(specification["version"], json!([1, 0]), "{specification}");
    assert_eq!(specification["capabilities"], "privateNetworkClientServer");
    let network = &specification["network"];
    assert_eq!(network["peer"], "oz0.egress-relay");
    assert!(network["egress"].is_null() && network["ingress"].is_null(), "{network}");
    let url = network["proxy"].as_str().unwrap();
    let at: u16 = url.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
    assert!((47330..=47361).contains(&at), "{url}");
    // The relay is a profile's, without capabilities, held by a job before it runs, and started before the container.
    let ledger = machine.ledger();
    let place =
        |found: &dyn Fn(&serde_json::Value) -> bool| ledger.iter().position(found).unwrap_or(usize::MAX);
    let relay = place(&|line| line["call"] == "launch" && line["container"] == "profile");
    let run = place(&|line| {
        line["call"] == "create" && line["handle"] == made["handle"] && line["pid"] == made["pid"]
    });
    assert!(relay < run, "the relay comes first: {ledger:#?}");
    assert_eq!(ledger[relay]["suspended"], true);
    let given =
        machine.calls("attribute").into_iter().find(|line| line["name"] == "security_capabilities").unwrap();
    assert_eq!(given["capabilities"], 0);
    let child = &ledger[relay]["child"];
    let held = place(&|line| line["call"] == "assign" && line["child"] == *child && line["error"] == 0);
    let resumed = place(&|line| line["call"] == "resume" && line["child"] == *child);
    assert!(relay < held && held < resumed, "{ledger:#?}");
    let profile = &machine.calls("profile_create")[0];
    assert_eq!((profile["name"].as_str(), &profile["capabilities"]), (Some("oz0.egress-relay"), &json!(0)));

    // E7: the profile is removed by hand, and counts as removed when it is not there.
    for there in [true, false] {
        let removed = machine.node(&["sandbox", "relay", "--remove-profile"]).output().unwrap();
        assert!(removed.status.success(), "{}", err(&removed));
        let deleted = machine.calls("profile_delete").pop().unwrap();
        assert_eq!(
            (deleted["name"].as_str(), deleted["there"].as_bool()),
            (Some("oz0.egress-relay"), Some(there))
        );
    }
}

/// A relay that cannot be had is a refusal: the container is never started.
#[test]
fn without_its_relay_nothing_runs() {
    for settings in ["profile=0x80070005", "relay_attribute=50", "relay_launch=5"] {
        let machine = Machine::new(&format!("version=1.1\nsupport=0xf\n{settings}"));
        let output = client(&machine, "relay", 9).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{settings}: {}", err(&output));
        assert!(err(&output).contains("oz0-node: "), "{settings}: {}", err(&output));
        assert!(answers(&out(&output)).is_empty());
        machine.nothing_ran();
    }
}

/// E6: two values, and nothing else.
#[test]
fn a_route_is_one_of_two() {
    let machine = Machine::new("");
    for route in ["Relay", "direct", "bridge ", "1"] {
        let output = client(&machine, route, 9).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{route}: {}", err(&output));
        let words = err(&output);
        assert!(words.contains("OZ0_SANDBOX_PSEC_ROUTE") && words.contains("bridge"), "{route}: {words}");
    }
    machine.nothing_ran();
}

mod alone {
    use super::*;

    /// The 33rd run of a machine. Nobody else may be using the ports just then.
    #[test]
    fn the_33rd_relay_is_refused_with_the_reason() {
        let taken: Vec<TcpListener> =
            (47330..=47361).map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap()).collect();
        let machine = Machine::new("version=1.1\nsupport=0xf");
        let output = client(&machine, "relay", 9).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", err(&output));
        assert!(err(&output).contains("all 32 relays are in use"), "{}", err(&output));
        assert!(answers(&out(&output)).is_empty());
        machine.nothing_leaked();
        drop(taken);
    }
}

/// The contained program: asks the proxy for the forwarded port with the run's token, without it, and for a host that
/// nobody allowed, and says the status of each answer.
#[test]
#[ignore = "started by the others, contained"]
fn asks() {
    let url = std::env::var("HTTP_PROXY").expect("the sandbox has set it");
    let (token, address) =
        url.strip_prefix("http://").unwrap().trim_end_matches('/').split_once('@').unwrap();
    let token = format!("Proxy-Authorization: Basic {}\r\n", base64(token.as_bytes()));
    let port = std::env::var("PORT").unwrap();
    for (host, token) in [
        (format!("127.0.0.1:{port}"), token.as_str()),
        (format!("127.0.0.1:{port}"), ""),
        ("elsewhere.invalid".to_owned(), &token),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        println!("client: {}", answer.split(' ').nth(1).unwrap_or("nothing"));
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks(3).map(|group| {
        let bits =
            (0..3).fold(0_u32, |bits, index| bits << 8 | u32::from(group.get(index).copied().unwrap_or(0)));
        let digits = (0..4).map(|index| {
            if index > group.len() {
                '='
            } else {
                char::from(DIGITS[(bits >> (18 - 6 * index) & 63) as usize])
            }
        });
        digits.collect::<String>()
    });
    groups.collect()
}
