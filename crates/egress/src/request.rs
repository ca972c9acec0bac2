//! The head of one proxy request: where it wants to go, where its body ends, what may be passed on. Whatever two
//! readers could understand in two ways is an error here. It refuses to know what is allowed, and sockets.

mod error;
pub(crate) mod fields;

use httparse::Header;

use crate::framing::Framing;
use crate::host::{Authority, Host};
pub use error::RequestError;
use fields::{Single, has_token, is_named, single};

/// Most fields in a head.
pub const MOST_FIELDS: usize = 128;
/// Largest head in bytes.
pub const LARGEST_HEAD: usize = 32 * 1024;

/// The version that the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunks, no interim answers, one request a connection.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// What is asked of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'b> {
    /// A tunnel.
    Connect,
    /// One request, passed on with this path.
    Absolute {
        /// Path and query, never empty.
        path: &'b str,
    },
}

/// One request's head.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// The method, a token.
    pub method: &'b str,
    /// The version.
    pub version: Version,
    /// A tunnel or a request.
    pub form: Form<'b>,
    /// The host that the target names; a `Host` field never changes it.
    pub host: Host,
    /// The port that the target names, or 80.
    pub port: u16,
    /// Where the body ends.
    pub framing: Framing,
    /// True when the connection may carry a next request.
    pub keep_alive: bool,
    /// True when the client waits for a 100 before its body.
    pub expects_continue: bool,
    /// True when the client asks to change the protocol.
    pub upgrades: bool,
    /// True when the client takes JSON.
    pub accepts_json: bool,
    /// The value of `Proxy-Authorization`, when it came exactly once.
    pub credentials: Option<&'b [u8]>,
    fields: &'h [Header<'b>],
}

/// Looks for the end of a head and for bytes that no head may hold. `checked` says how far it has looked, so that
/// a head that trickles in is looked at once. Gives the head's length when it is whole.
pub fn head_length(bytes: &[u8], checked: &mut usize) -> Result<Option<usize>, RequestError> {
    for index in *checked..bytes.len() {
        let before = index.checked_sub(1).map(|i| bytes[i]);
        match (before, bytes[index]) {
            (Some(b'\r'), b'\n') if bytes[..=index].ends_with(b"\r\n\r\n") => return Ok(Some(index + 1)),
            (Some(b'\r'), b'\n') => {}
            (Some(b'\r'), _) | (_, b'\n') => return Err(RequestError::LineEnd),
            (Some(b'\n'), b' ' | b'\t') => return Err(RequestError::Fold),
            (_, b'\r' | b'\t') => {}
            (_, 0..b' ' | 0x7f) => return Err(RequestError::Control),
            _ => {}
        }
        *checked = index + 1;
    }
    if bytes.len() >= LARGEST_HEAD { Err(RequestError::TooLarge) } else { Ok(None) }
}

impl<'h, 'b> Request<'h, 'b> {
    /// Reads one whole head, that is bytes that end in an empty line.
    pub fn parse(
        head: &'b [u8],
        fields: &'h mut [Header<'b>; MOST_FIELDS],
    ) -> Result<Request<'h, 'b>, RequestError> {
        // Checked again here: the parser below takes bare line feeds, and callers may not have looked.
        if head_length(head, &mut 0)? != Some(head.len()) {
            return Err(RequestError::Syntax);
        }
        let mut parsed = httparse::Request::new(fields);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Ok(_) => return Err(RequestError::Syntax),
            Err(httparse::Error::TooManyHeaders) => return Err(RequestError::TooManyFields),
            Err(_) => return Err(RequestError::Syntax),
        }
        let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(RequestError::Syntax);
        };
        let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        let fields: &'h [Header<'b>] = parsed.headers;
        let (form, authority) = read_target(method, target)?;
        check_host(fields, version)?;
        let framing = read_framing(fields, version, head)?;
        if form == Form::Connect && !matches!(framing, Framing::Empty | Framing::Length(0)) {
            return Err(RequestError::ConnectBody);
        }
        let expects_continue = match single(fields, "expect") {
            Single::None => false,
            Single::One(value) if value.eq_ignore_ascii_case(b"100-continue") => version == Version::Http11,
            _ => return Err(RequestError::Expect),
        };
        let closes =
            has_token(fields, "connection", b"close") || has_token(fields, "proxy-connection", b"close");
        let upgrades = version == Version::Http11
            && has_token(fields, "connection", b"upgrade")
            && matches!(single(fields, "upgrade"), Single::One(to) if !to.eq_ignore_ascii_case(b"h2c"));
        let accepts_json = fields.iter().any(|field| {
            is_named(field, "accept") && field.value.windows(16).any(|part| part == b"application/json")
        });
        Ok(Request {
            method,
            version,
            form,
            host: authority.host,
            port: authority.port.unwrap_or(80),
            framing,
            keep_alive: version == Version::Http11 && !closes,
            expects_continue,
            upgrades,
            accepts_json,
            credentials: match single(fields, "proxy-authorization") {
                Single::One(value) => Some(value),
                Single::None | Single::Many => None,
            },
            fields,
        })
    }

    /// Appends the head that goes to the origin: origin form, `Host` as the target says, no field that belongs to
    /// this hop, framing as it was understood here.
    pub fn write_onward(&self, out: &mut Vec<u8>) {
        let path = match self.form {
            Form::Absolute { path } => path,
            Form::Connect => return,
        };
        for part in [self.method, " ", path, " HTTP/1.1\r\nHost: "] {
            out.extend_from_slice(part.as_bytes());
        }
        let authority =
            Authority { host: self.host.clone(), port: Some(self.port).filter(|port| *port != 80) };
        out.extend_from_slice(authority.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
        fields::write_end_to_end(self.fields, out);
        if self.upgrades
            && let Single::One(to) = single(self.fields, "upgrade")
        {
            out.extend_from_slice(b"Connection: upgrade\r\nUpgrade: ");
            out.extend_from_slice(to);
            out.extend_from_slice(b"\r\n");
        }
        fields::write_framing(self.framing, out);
        out.extend_from_slice(b"\r\n");
    }
}

fn read_target<'b>(method: &str, target: &'b str) -> Result<(Form<'b>, Authority), RequestError> {
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(RequestError::Target);
    }
    if method == "CONNECT" {
        let authority: Authority = target.parse()?;
        return match authority.port {
            Some(_) => Ok((Form::Connect, authority)),
            None => Err(RequestError::ConnectPort),
        };
    }
    if target.starts_with('/') || target == "*" {
        return Err(RequestError::NotForProxy);
    }
    let (scheme, rest) = target.split_once("://").ok_or(RequestError::Target)?;
    if scheme.eq_ignore_ascii_case("https") {
        return Err(RequestError::HttpsInClear);
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(RequestError::Scheme);
    }
    if rest.contains('#') {
        return Err(RequestError::Target);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // A query without a path, as in http://a.example?x, is rare enough to be an error rather than a rewrite.
    let path = match path {
        "" if method == "OPTIONS" => "*",
        "" => "/",
        path if path.starts_with('/') => path,
        _ => return Err(RequestError::Target),
    };
    Ok((Form::Absolute { path }, authority.parse()?))
}

/// Exactly one `Host` that is a host (HTTP/1.0 may have none). Its value is judged as text only: the target decides.
fn check_host(fields: &[Header<'_>], version: Version) -> Result<(), RequestError> {
    match single(fields, "host") {
        Single::None if version == Version::Http10 => Ok(()),
        Single::None => Err(RequestError::NoHost),
        Single::Many => Err(RequestError::TwoHosts),
        Single::One(value) => {
            let text =
                str::from_utf8(value).map_err(|_| RequestError::Host(crate::host::HostError::NotAscii))?;
            text.parse::<Authority>()?;
            Ok(())
        }
    }
}

fn read_framing(fields: &[Header<'_>], version: Version, head: &[u8]) -> Result<Framing, RequestError> {
    let length = single(fields, "content-length");
    let coding = single(fields, "transfer-encoding");
    match (length, coding) {
        (Single::None, Single::None) => Ok(Framing::Empty),
        (Single::Many, _) => Err(RequestError::TwoLengths),
        (_, Single::Many) => Err(RequestError::Coding),
        (Single::One(_), Single::One(_)) => Err(RequestError::LengthAndCoding),
        (Single::One(value), Single::None) => {
            if !fields::ends_its_line(value, head) {
                return Err(RequestError::Length);
            }
            fields::plain_length(value).map(Framing::Length).ok_or(RequestError::Length)
        }
        (Single::None, Single::One(value)) => {
            let plain = value.eq_ignore_ascii_case(b"chunked") && fields::ends_its_line(value, head);
            if plain && version == Version::Http11 { Ok(Framing::Chunked) } else { Err(RequestError::Coding) }
        }
    }
}

#[cfg(test)]
mod tests;
