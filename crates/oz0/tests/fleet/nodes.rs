//! Becoming a node, staying one, and what somebody with a copied key, an old request or a wrong clock gets.

use oz0::chance;
use oz0_fleet::protocol::signature::Signer;
use oz0_fleet::protocol::{Milliseconds, path};
use serde_json::{Value, json};

use crate::support::node::{Node, linux, token, windows};
use crate::support::on_each;
use crate::support::server::{Server, ask, refused};

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["code"].as_str().unwrap_or_default())
}

fn state(database: &crate::support::database::Database, node: &Node) -> Value {
    ask(database, &["node", "show", &node.signer.node().to_string()])["node"].clone()
}

on_each! {
    /// One token, one node; the same machine may ask again, nobody else.
    fn a_token_is_used_once(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let token = token(database);
        let (one, two) = (Node::new(&server), Node::new(&server));
        assert_eq!(code(&one.report(linux())), (401, "unknown_node"));
        assert_eq!(code(&one.enrol("oz0-node-x")), (401, "token"));
        assert_eq!(one.enrol(&token).0, 200);
        assert_eq!(one.enrol(&token).0, 200, "the answer was lost");
        assert_eq!(code(&two.enrol(&token)), (401, "token"));
        let lease = Node::lease_request(1, 0);
        assert_eq!(code(&one.post(path::LEASE, &lease)), (409, "report_first"));
        assert_eq!(one.report(linux()).0, 200);
        assert_eq!(one.post(path::LEASE, &lease).0, 200);

        // A key that is not the signer's.
        let body = json!({"token": token, "key": "AAAA", "speaks": {"oldest": 1, "newest": 1}});
        assert_eq!(code(&two.post(path::ENROL, &body)), (401, "bad_signature"));
        let body = json!({"speaks": {"oldest": 7, "newest": 9}, "facts": {}, "most_jobs": 1});
        assert_eq!(code(&one.post(path::REPORT, &body)), (426, "protocol"));
    }

    /// T6 and P4: asked, shown and routed tier are told apart, and no word of a node's own is anywhere.
    fn a_report_is_facts(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let node = Node::join(database, &server, windows());
        let shown = ask(database, &["node", "show", &node.signer.node().to_string()]);
        assert_eq!(shown["tier"], "tier 1 (psec 1.0, routed as tier 0)");

        let mut hostile = linux();
        hostile["kernel"] = json!("<script>alert(1)</script>");
        hostile["seccomp"] = json!("<script>ok</script>");
        hostile["name"] = json!("<script>");
        assert_eq!(node.report(hostile).0, 200);
        let shown = ask(database, &["node", "show", &node.signer.node().to_string()]);
        assert!(!shown.to_string().contains("script"), "{shown}");
        assert_eq!(shown["tier"], "tier 0 (asked for tier 1)", "it claims what the rest does not bear out");
        assert_eq!(shown["history"].as_array().unwrap().len(), 2, "{shown}");
        let (status, answer) = node.post(path::REPORT, &json!({"facts": "x".repeat(9000)}));
        assert_eq!((status, answer["code"].as_str()), (413, Some("too_large")));
        assert_eq!(ask(database, &["nodes", "--takes-tier-1"]), json!([]));
    }

    /// A request is done once, at its time.
    fn a_request_is_not_done_twice(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let node = Node::join(database, &server, linux());
        let body = serde_json::to_vec(&Node::lease_request(1, 0)).unwrap();
        let headers = node.signed(path::LEASE, "", &body, chance::now());
        assert_eq!(node.send(path::LEASE, "", &body, &headers).0, 200);
        assert_eq!(code(&node.send(path::LEASE, "", &body, &headers)), (409, "replayed"));
        let other = [&body[..], b" "].concat();
        assert_eq!(code(&node.send(path::LEASE, "", &other, &headers)), (401, "bad_signature"));
        assert_eq!(code(&node.send(path::RENEW, "", &body, &headers)), (401, "bad_signature"));

        let old = node.signed(path::LEASE, "", &body, chance::now().before(Milliseconds::seconds(312)));
        let (status, answer) = node.send(path::LEASE, "", &body, &old);
        assert_eq!((status, answer["code"].as_str()), (401, Some("clock")));
        assert_eq!(answer["reason"], "this node's clock is 5 min behind of the edge's");
        assert!(answer["edge_time"].as_u64().unwrap() > 1_700_000_000_000);
        let mut twice = node.signed(path::LEASE, "", &body, chance::now());
        twice.push(twice[0].clone());
        assert_eq!(code(&node.send(path::LEASE, "", &body, &twice)), (401, "bad_signature"), "a header twice");
    }

    /// C175: a copied key is found out, nobody gets work until the operator says which it is.
    fn c175_a_copied_key_is_held(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let kept = Signer::generate().unwrap();
        let original = Node::again(&kept, &server);
        assert_eq!(original.enrol(&token(database)).0, 200);
        assert_eq!(original.report(linux()).0, 200);

        // A restart is no copy: the old start is not heard of again.
        let copy = Node::again(&kept, &server);
        let lease = Node::lease_request(1, 0);
        assert_eq!(code(&copy.post(path::LEASE, &lease)), (409, "report_first"));
        assert_eq!(copy.report(linux()).0, 200);
        assert_eq!(copy.post(path::LEASE, &lease).0, 200);
        // What was on the way when the program started anew is only late.
        let before = chance::now().before(Milliseconds::seconds(5));
        let body = serde_json::to_vec(&lease).unwrap();
        let headers = original.signed(path::LEASE, "", &body, before);
        assert_eq!(code(&original.send(path::LEASE, "", &body, &headers)), (409, "superseded"));

        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert_eq!(code(&original.post(path::LEASE, &lease)), (403, "held"));
        assert_eq!(code(&copy.post(path::LEASE, &lease)), (403, "held"));
        assert_eq!(code(&copy.report(linux())), (403, "held"));
        let node = state(database, &copy);
        assert_eq!((&node["state"], &node["other_address"]), (&json!("held"), &json!("127.0.0.1")), "{node}");

        let id = copy.signer.node().to_string();
        ask(database, &["node", "activate", &id]);
        assert_eq!(copy.report(linux()).0, 409, "that start was there before");
        let settled = Node::again(&kept, &server);
        assert_eq!(settled.report(linux()).0, 200);
        assert_eq!(settled.post(path::LEASE, &lease).0, 200);

        ask(database, &["node", "revoke", &id]);
        assert_eq!(code(&settled.post(path::LEASE, &lease)), (403, "revoked"));
        assert_eq!(code(&settled.enrol(&token(database))), (403, "revoked"));
        assert!(refused(database, &["node", "drain", &id]).contains("with which that can be done"));
    }
}
