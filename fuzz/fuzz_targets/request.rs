//! Request heads and bodies: no bytes panic, a head is found the same however it is split, and what is passed on is
//! read the same way once more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oz0_egress::framing::{Body, Framing};
use oz0_egress::request::{Form, MOST_FIELDS, Request, head_length};

fuzz_target!(|bytes: &[u8]| {
    let whole = head_length(bytes, &mut 0);
    let mut checked = 0;
    let mut split = head_length(&bytes[..bytes.len() / 2], &mut checked);
    if split == Ok(None) {
        split = head_length(bytes, &mut checked);
    }
    assert_eq!(whole, split);
    let Ok(Some(length)) = whole else { return };
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let Ok(request) = Request::parse(&bytes[..length], &mut fields) else { return };
    if let Form::Absolute { path } = request.form {
        check_onward(&request, path);
    }
    let rest = &bytes[length..];
    let mut body = Body::new(request.framing);
    let mut out = Vec::new();
    let Ok(used) = body.take(rest, &mut out) else { return };
    assert!(used <= rest.len());
    match request.framing {
        Framing::Empty => assert_eq!(used, 0),
        Framing::Length(length) => assert_eq!(used as u64, length.min(rest.len() as u64)),
        Framing::Chunked if body.is_done() => {
            // Framed anew, it is a fixed point, and as long as it says.
            let (mut again, mut twice) = (Body::new(Framing::Chunked), Vec::new());
            assert_eq!(again.take(&out, &mut twice), Ok(out.len()));
            assert!(again.is_done());
            assert_eq!(out, twice);
        }
        Framing::Chunked => assert_eq!(used, rest.len()),
        Framing::UntilClose => unreachable!("no request ends with its connection"),
    }
});

fn check_onward(request: &Request<'_, '_>, path: &str) {
    let mut sent = Vec::new();
    request.write_onward(&mut sent);
    // The origin's view, put back into absolute form for the same parser.
    let line = sent.iter().position(|byte| *byte == b'\r').unwrap_or(0);
    let mut absolute = format!("{} http://{}{} HTTP/1.1", request.method, request.host.with_port(request.port), path.trim_start_matches('*'))
        .into_bytes();
    absolute.extend_from_slice(&sent[line..]);
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    match Request::parse(&absolute, &mut fields) {
        Ok(again) => {
            assert_eq!(again.framing, request.framing);
            assert_eq!((&again.host, again.port), (&request.host, request.port));
            assert_eq!(again.credentials, None);
            assert_eq!(again.upgrades, request.upgrades);
        }
        // The host may be written longer than it came.
        Err(error) => assert_eq!(error.status(), 431),
    }
    let lower = sent.to_ascii_lowercase();
    assert!(!lower.windows(8).any(|part| part == b"\r\nproxy-"));
}
