//! What a hostile node may send: signature headers, reports, endings, places in a log. No bytes panic, nothing but the
//! signer's own is believed, and of a report only known words and numbers stay.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oz0_fleet::protocol::signature::{Claim, Signer};
use oz0_fleet::protocol::{Enrol, Finish, LeaseRequest, LogPlace, Renew, Report};
use oz0_fleet::{Reported, platform};

/// The names of the headers, in the order in which lines stand for them.
const HEADERS: [&str; 5] = ["content-digest", "signature-input", "signature", "oz0-protocol", "oz0-start"];

fuzz_target!(|bytes: &[u8]| {
    claim(bytes);
    report(bytes);
    let text = String::from_utf8_lossy(bytes);
    if let Ok(place) = text.parse::<LogPlace>() {
        assert_eq!(place.to_string(), text);
    }
    let _ = serde_json::from_slice::<Enrol>(bytes);
    let _ = serde_json::from_slice::<LeaseRequest>(bytes);
    let _ = serde_json::from_slice::<Renew>(bytes);
    if let Ok(finish) = serde_json::from_slice::<Finish>(bytes) {
        let written = serde_json::to_string(&finish).expect("endings are JSON");
        assert_eq!(serde_json::from_str::<Finish>(&written).ok(), Some(finish));
    }
});

fn claim(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let value = |name: &str| HEADERS.iter().position(|known| *known == name).and_then(|place| lines.get(place).copied());
    let Ok(claim) = Claim::read("POST", "/node/lease", "", value) else { return };
    // A key that this process made just now: no input was signed with it.
    let signer = Signer::from_pkcs8(&Signer::generate().expect("a key")).expect("a key that was made");
    assert!(claim.verify(signer.public(), b"").is_err());
}

fn report(bytes: &[u8]) {
    let Ok(report) = serde_json::from_slice::<Report<Reported>>(bytes) else { return };
    let facts = report.facts.facts();
    let written = serde_json::to_string(&facts).expect("facts are JSON");
    assert!(written.len() < Reported::LONGEST, "{written}");
    assert_eq!(serde_json::from_str::<Reported>(&written).expect("facts are a report").facts(), facts);
    assert!(platform::routed_tier(&facts) <= facts.tier);
    assert!(platform::shown(&facts).bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
}
