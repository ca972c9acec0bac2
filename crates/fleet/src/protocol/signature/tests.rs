use proptest::prelude::*;

use super::*;

const START: StartId = StartId::from_bytes([1; 16]);
const NOW: Timestamp = Timestamp::from_milliseconds(1_800_000_000_250);

/// A key of a fixed seed.
fn signer(seed: u8) -> Signer {
    Signer::from_seed(&[seed; 32]).unwrap()
}

fn head() -> Head<'static> {
    Head { method: "POST", path: "/node/log", query: "job=1&offset=2", version: 1, start: START }
}

/// A request as an edge sees it.
#[derive(Clone, Debug)]
struct Sent {
    method: String,
    path: String,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Sent {
    fn claim(&self) -> Result<Claim<'_>, BadSignature> {
        Claim::read(&self.method, &self.path, &self.query, |name| {
            self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
        })
    }

    fn verify(&self, signer: &Signer) -> Result<(), BadSignature> {
        self.claim()?.verify(signer.public(), &self.body)
    }

    fn with(&self, name: &str, change: impl Fn(&str) -> String) -> Sent {
        let mut sent = self.clone();
        for (known, value) in &mut sent.headers {
            if *known == name {
                *value = change(value);
            }
        }
        assert!(sent.headers != self.headers, "{name} was changed");
        sent
    }
}

fn sent(signer: &Signer) -> Sent {
    let body = b"hello".to_vec();
    let headers = signer.sign(&head(), &body, NOW, [7; 16]).to_vec();
    Sent { method: "POST".into(), path: "/node/log".into(), query: "job=1&offset=2".into(), headers, body }
}

/// Written out by hand from RFC 9421, section 2.5: no function of this file takes part.
#[test]
fn the_base_is_the_standards() {
    let signer = signer(3);
    let parameters = Parameters { created: 1_800_000_000, nonce: Nonce([7; 16]), node: signer.node() };
    let expected = [
        r#""@method": POST"#,
        r#""@path": /node/log"#,
        r#""@query": ?job=1&offset=2"#,
        r#""content-digest": sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:"#,
        r#""oz0-protocol": 1"#,
        r#""oz0-start": start-0101010101010101010101"#,
        r#""@signature-params": ("@method" "@path" "@query" "content-digest" "oz0-protocol" "oz0-start");created=1800000000;nonce="BwcHBwcHBwcHBwcHBwcHBw";keyid="NODE";alg="ed25519""#,
    ]
    .join("\n")
    .replace("NODE", &signer.node().to_string())
    .replace("start-0101010101010101010101", &START.to_string());
    assert_eq!(base(&head(), &content_digest(b"hello"), &parameters), expected);
}

#[test]
fn what_was_signed_is_believed_and_nothing_else() {
    let signer = signer(3);
    let sent = sent(&signer);
    assert_eq!(sent.verify(&signer), Ok(()));
    assert_eq!(sent.claim().unwrap().parameters.node, signer.node());
    assert_eq!(sent.claim().unwrap().start(), START);

    let wrong = Err(BadSignature::Signature);
    assert_eq!(Sent { method: "PUT".into(), ..sent.clone() }.verify(&signer), wrong);
    assert_eq!(Sent { path: "/node/finish".into(), ..sent.clone() }.verify(&signer), wrong);
    assert_eq!(Sent { query: "job=1&offset=3".into(), ..sent.clone() }.verify(&signer), wrong);
    assert_eq!(sent.with(VERSION_HEADER, |_| "2".into()).verify(&signer), wrong);
    assert_eq!(sent.with(START_HEADER, |_| StartId::from_bytes([2; 16]).to_string()).verify(&signer), wrong);
    assert_eq!(
        sent.with("signature-input", |value| value.replace("1800000000", "1800000001")).verify(&signer),
        wrong
    );
    assert_eq!(Sent { body: b"hellO".to_vec(), ..sent.clone() }.verify(&signer), Err(BadSignature::Digest));
    assert_eq!(sent.verify(&self::signer(4)), wrong, "another node's key");
}

#[test]
fn there_is_one_form() {
    let signer = signer(3);
    let sent = sent(&signer);
    for (header, from, to) in [
        ("signature-input", "oz0=", "sig1="),
        ("signature-input", "\"@query\" ", ""),
        ("signature-input", ";created=", ";created=0"),
        ("signature-input", ";created=", ";expires=1;created="),
        ("signature-input", "ed25519", "hmac-sha256"),
        ("signature-input", "BwcHBwcHBwcHBwcHBwcHBw", "BwcHBwcHBwcHBwcHBwcHBx"),
        ("signature-input", "BwcHBwcHBwcHBwcHBwcHBw", "BwcH"),
        ("signature-input", "keyid=\"node-", "keyid=\"NODE-"),
        ("signature", "oz0=:", "oz0=: "),
        ("signature", "oz0=:", "sig1=:"),
        ("oz0-protocol", "1", "01"),
        ("oz0-start", "start-", "START-"),
    ] {
        let changed = sent.with(header, |value| value.replacen(from, to, 1));
        assert!(
            matches!(changed.claim(), Err(BadSignature::Form(name)) if name == header),
            "{header}: {from} as {to}"
        );
    }
    for missing in ["content-digest", "signature-input", "signature", "oz0-protocol", "oz0-start"] {
        let mut without = sent.clone();
        without.headers.retain(|(name, _)| *name != missing);
        assert_eq!(without.verify(&signer), Err(BadSignature::Form(missing)));
    }
}

#[test]
fn a_wrong_clock_is_told() {
    let at = |created| Parameters { created, nonce: Nonce([0; 16]), node: signer(3).node() }.skew(NOW);
    assert_eq!(at(1_800_000_000), None);
    assert_eq!(at(1_800_000_000 - 60), None);
    assert_eq!(at(1_800_000_000 + 60), None);
    assert_eq!(at(1_800_000_000 - 312).unwrap().to_string(), "5 min behind");
    assert_eq!(at(1_800_000_000 + 61).unwrap().to_string(), "60 s ahead");
    assert_eq!(at(999_999_999_999).map(|skew| matches!(skew, Skew::Ahead(_))), Some(true));
}

#[test]
fn a_kept_key_is_the_same_node() {
    let kept = Signer::generate().unwrap();
    let (one, two) = (Signer::from_pkcs8(&kept).unwrap(), Signer::from_pkcs8(&kept).unwrap());
    assert_eq!(one.node(), two.node());
    assert_eq!(one.node(), node_of(two.public()));
    assert_ne!(one.node(), Signer::from_pkcs8(&Signer::generate().unwrap()).unwrap().node());
    assert_eq!(format!("{one:?}"), format!("the key of {}", one.node()));
    assert_eq!(Signer::from_pkcs8(&kept[1..]).unwrap_err(), BadKey);
    assert_eq!(Signer::from_seed(&[0; 31]).unwrap_err(), BadKey);
}

proptest! {
    #[test]
    fn no_header_panics_and_none_but_the_signers_is_believed(
        text in r#"(oz0=)?[ -~]{0,200}"#, which in 0..5_usize
    ) {
        let signer = signer(3);
        let mut changed = sent(&signer);
        let before = std::mem::replace(&mut changed.headers[which].1, text);
        let unchanged = changed.headers[which].1 == before;
        prop_assert_eq!(changed.verify(&signer).is_ok(), unchanged);
    }
}
