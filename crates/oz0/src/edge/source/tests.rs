use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_milliseconds(1_614_265_330_000);

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect()
}

/// The example of the Standard Webhooks' own libraries.
#[test]
fn the_standards_example_is_believed() {
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into());
    let headers = headers(&[
        ("content-type", "application/json"),
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ]);
    let believed = believe(Source::Standard, &secret, &headers, br#"{"test": 2432232314}"#, NOW).unwrap();
    assert_eq!(believed, Delivery::Event { id: "msg_p5jXN8AQM9LWM0D4loKWxJek".into() });
    let changed = believe(Source::Standard, &secret, &headers, br#"{"test": 2432232315}"#, NOW).unwrap_err();
    assert_eq!(changed.code(), Code::BadSignature);
}

/// The example of GitHub's documentation.
#[test]
fn githubs_example_is_believed() {
    let secret = Secret::new("It's a Secret to Everybody".into());
    let headers = headers(&[
        ("content-type", "application/json"),
        ("x-github-event", "push"),
        ("x-github-delivery", "72d3162e"),
        ("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
    ]);
    let believed = believe(Source::Github, &secret, &headers, b"Hello, World!", NOW).unwrap();
    assert_eq!(believed, Delivery::Event { id: "72d3162e".into() });
}

proptest! {
    /// Whatever a stranger sends is refused, and nothing panics.
    #[test]
    fn nothing_unsigned_is_believed(
        source in prop::sample::select(Source::ALL.to_vec()),
        values in prop::collection::vec("[ -~]{0,80}", 12),
        json in any::<bool>(),
        body: Vec<u8>,
    ) {
        let names = [
            "webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256", "x-github-event",
            "x-github-delivery", "x-slack-request-timestamp", "x-slack-signature", "authorization", "ce-specversion",
            "ce-id", "content-type",
        ];
        let mut pairs: Vec<_> = names.into_iter().zip(values.iter().map(String::as_str)).collect();
        if json {
            pairs[11].1 = "application/json";
        }
        let secret = source.secret([7; 32]);
        prop_assert!(believe(source, &secret, &headers(&pairs), &body, NOW).is_err());
    }

    #[test]
    fn hexadecimal_is_read_whole_or_not(bytes: Vec<u8>, text in "[0-9a-fA-F]{0,9}|[ -~]{0,9}") {
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        prop_assert_eq!(hexadecimal(&written), Some(bytes));
        if let Some(read) = hexadecimal(&text) {
            prop_assert_eq!(read.len() * 2, text.len());
        }
    }
}
