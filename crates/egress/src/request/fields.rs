//! Fields of a head: found by name, judged, passed on. The same rules serve requests and answers.

use httparse::Header;

use crate::framing::Framing;

/// Fields that belong to one hop, or that are written anew from what was understood. `proxy` is none of HTTP's:
/// it would become HTTP_PROXY in a CGI program's environment. Every `proxy-` field speaks to this hop as well.
const NOT_PASSED_ON: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy",
    "te",
    "transfer-encoding",
    "upgrade",
    "x-oz0-denied",
];

/// How often a field is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Single<'b> {
    None,
    One(&'b [u8]),
    Many,
}

pub(crate) fn is_named(field: &Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

pub(crate) fn single<'b>(fields: &[Header<'b>], name: &str) -> Single<'b> {
    let mut found = Single::None;
    for field in fields.iter().filter(|field| is_named(field, name)) {
        found = match found {
            Single::None => Single::One(field.value),
            _ => Single::Many,
        };
    }
    found
}

/// True when the comma-separated field `name` lists `token`.
pub(crate) fn has_token(fields: &[Header<'_>], name: &str, token: &[u8]) -> bool {
    fields.iter().filter(|field| is_named(field, name)).any(|field| {
        field.value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
    })
}

/// A length in plain decimal digits, at most 19 of them, so that it cannot overflow.
pub(crate) fn plain_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(value).ok()?.parse().ok()
}

/// True when `value`, a part of `head`, is followed by CR: the parser cuts white space off that another reader
/// might take for a part of the value.
pub(crate) fn ends_its_line(value: &[u8], head: &[u8]) -> bool {
    let start = value.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
    head.get(start.wrapping_add(value.len())) == Some(&b'\r')
}

/// Appends the fields that go from end to end.
pub(crate) fn write_end_to_end(fields: &[Header<'_>], out: &mut Vec<u8>) {
    for field in fields {
        let to_proxy = field.name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("proxy-"));
        if to_proxy || NOT_PASSED_ON.iter().any(|name| is_named(field, name)) {
            continue;
        }
        if has_token(fields, "connection", field.name.as_bytes()) {
            continue;
        }
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(field.value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the one field that says where the body ends.
pub(crate) fn write_framing(framing: Framing, out: &mut Vec<u8>) {
    match framing {
        Framing::Empty | Framing::UntilClose => {}
        Framing::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(length.to_string().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}
