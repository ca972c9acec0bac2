//! Where a body ends. One reader for both directions that passes on exactly the body and never a byte after it.
//! It refuses to know sockets and heads.
//!
//! A chunked body is framed anew: sizes are written in plain hex, extensions are dropped, trailer fields that
//! speak of framing, routing or credentials are dropped. So two readers of the result cannot disagree.

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// So many bytes.
    Length(u64),
    /// Chunks, the last of size zero.
    Chunked,
    /// Everything until the connection ends. Answers only.
    UntilClose,
}

/// A body whose chunks cannot be told apart without a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// No hex digit where a chunk's size has to be.
    #[error("a chunk's size is not plain hex of at most 15 digits")]
    Size,
    /// An extension with control bytes, or a long one.
    #[error("a chunk's extension holds control bytes or is too long")]
    Extension,
    /// A line that does not end in CR LF.
    #[error("a chunk does not end in CR LF")]
    LineEnd,
    /// A trailer field that is none, or too many of them.
    #[error("a trailer field is broken, or the trailer is too large")]
    Trailer,
}

const LONGEST_EXTENSION: usize = 256;
const LARGEST_TRAILER: usize = 8 * 1024;
const MOST_DIGITS: u32 = 15;

/// Fields that a trailer may not bring in behind the head's back.
const NOT_IN_TRAILERS: [&str; 17] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "cache-control",
];

/// A body as far as it has been read.
#[derive(Debug)]
pub struct Body(State);

#[derive(Debug)]
enum State {
    Done,
    Length(u64),
    UntilClose,
    Chunked { at: Place, bare: bool },
}

#[derive(Debug)]
enum Place {
    Size { value: u64, digits: u32 },
    Extension { value: u64, length: usize },
    SizeEnd { value: u64 },
    Data { left: u64 },
    DataEnd,
    DataEndLineFeed,
    Trailer { line: Vec<u8>, total: usize },
}

impl Body {
    /// A body of which nothing has been read.
    pub fn new(framing: Framing) -> Body {
        Body(match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(left) => State::Length(left),
            Framing::UntilClose => State::UntilClose,
            Framing::Chunked => State::Chunked { at: START, bare: false },
        })
    }

    /// The same, but of a chunked body the data alone is passed on: for a peer that knows no chunks.
    pub fn bare(framing: Framing) -> Body {
        match Body::new(framing) {
            Body(State::Chunked { at, .. }) => Body(State::Chunked { at, bare: true }),
            body => body,
        }
    }

    /// True when the last byte has been read.
    pub fn is_done(&self) -> bool {
        matches!(self.0, State::Done)
    }

    /// True when the end of the connection is the end of the body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.0, State::UntilClose)
    }

    /// Reads from `input`, appends to `out` what is to be passed on, and says how many bytes it used. What it
    /// leaves lies behind the body.
    pub fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, FramingError> {
        match &mut self.0 {
            State::Done => Ok(0),
            State::UntilClose => {
                out.extend_from_slice(input);
                Ok(input.len())
            }
            State::Length(left) => {
                let part = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                out.extend_from_slice(&input[..part]);
                *left -= part as u64;
                if *left == 0 {
                    self.0 = State::Done;
                }
                Ok(part)
            }
            State::Chunked { at, bare } => {
                let mut used = 0;
                while used < input.len() {
                    let (taken, ended) = step(at, &input[used..], *bare, out)?;
                    used += taken;
                    if ended {
                        self.0 = State::Done;
                        break;
                    }
                }
                Ok(used)
            }
        }
    }
}

const START: Place = Place::Size { value: 0, digits: 0 };

/// One step over at least one byte of `input`: how many it took, and whether the body ended.
fn step(at: &mut Place, input: &[u8], bare: bool, out: &mut Vec<u8>) -> Result<(usize, bool), FramingError> {
    let byte = input[0];
    match at {
        Place::Size { value, digits } => match (char::from(byte).to_digit(16), byte) {
            (Some(_), _) if *digits == MOST_DIGITS => return Err(FramingError::Size),
            (Some(digit), _) => {
                *value = *value << 4 | u64::from(digit);
                *digits += 1;
            }
            (None, _) if *digits == 0 => return Err(FramingError::Size),
            (None, b'\r') => *at = Place::SizeEnd { value: *value },
            (None, b';') => *at = Place::Extension { value: *value, length: 0 },
            (None, _) => return Err(FramingError::Size),
        },
        Place::Extension { value, length } => match byte {
            b'\r' => *at = Place::SizeEnd { value: *value },
            b'\t' | b' '..=b'~' if *length < LONGEST_EXTENSION => *length += 1,
            _ => return Err(FramingError::Extension),
        },
        Place::SizeEnd { value } => {
            if byte != b'\n' {
                return Err(FramingError::LineEnd);
            }
            if !bare {
                write_size(*value, out);
            }
            *at = match *value {
                0 => Place::Trailer { line: Vec::new(), total: 0 },
                left => Place::Data { left },
            };
        }
        Place::Data { left } => {
            let part = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
            out.extend_from_slice(&input[..part]);
            *left -= part as u64;
            if *left == 0 {
                *at = Place::DataEnd;
            }
            return Ok((part, false));
        }
        Place::DataEnd => {
            if byte != b'\r' {
                return Err(FramingError::LineEnd);
            }
            *at = Place::DataEndLineFeed;
        }
        Place::DataEndLineFeed => {
            if byte != b'\n' {
                return Err(FramingError::LineEnd);
            }
            if !bare {
                out.extend_from_slice(b"\r\n");
            }
            *at = START;
        }
        Place::Trailer { line, total } => {
            *total += 1;
            if *total > LARGEST_TRAILER {
                return Err(FramingError::Trailer);
            }
            line.push(byte);
            if byte == b'\n' {
                let ended = trailer_line(line, bare, out)?;
                line.clear();
                return Ok((1, ended));
            }
        }
    }
    Ok((1, false))
}

/// Passes a trailer line on, or drops it. True for the empty line that ends the body.
fn trailer_line(line: &[u8], bare: bool, out: &mut Vec<u8>) -> Result<bool, FramingError> {
    let text = line.strip_suffix(b"\r\n").ok_or(FramingError::Trailer)?;
    if text.is_empty() {
        if !bare {
            out.extend_from_slice(b"\r\n");
        }
        return Ok(true);
    }
    let colon = text.iter().position(|byte| *byte == b':').ok_or(FramingError::Trailer)?;
    let (name, value) = text.split_at(colon);
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    let plain = |b: &u8| *b == b'\t' || (*b >= b' ' && *b != 0x7f);
    if name.is_empty() || !name.iter().all(token) || !value.iter().all(plain) {
        return Err(FramingError::Trailer);
    }
    let proxied = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"proxy-"));
    let closed = NOT_IN_TRAILERS.iter().any(|closed| name.eq_ignore_ascii_case(closed.as_bytes()));
    if !bare && !proxied && !closed {
        out.extend_from_slice(line);
    }
    Ok(false)
}

fn write_size(value: u64, out: &mut Vec<u8>) {
    let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * place) & 15) as usize]);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds `input` in pieces of `size`; gives what came out and how much was used.
    fn run(mut body: Body, input: &[u8], size: usize) -> Result<(Vec<u8>, usize, bool), FramingError> {
        let (mut out, mut used) = (Vec::new(), 0);
        while used < input.len() && !body.is_done() {
            let end = input.len().min(used + size);
            let taken = body.take(&input[used..end], &mut out)?;
            assert!(taken > 0);
            used += taken;
        }
        Ok((out, used, body.is_done()))
    }

    #[test]
    fn c101_bytes_after_a_body_are_left() {
        let input = b"helloGET /evil HTTP/1.1\r\n";
        for size in [1, 3, 100] {
            let (out, used, done) = run(Body::new(Framing::Length(5)), input, size).unwrap();
            assert_eq!((out.as_slice(), used, done), (&b"hello"[..], 5, true));
        }
        assert!(Body::new(Framing::Length(0)).is_done() && Body::new(Framing::Empty).is_done());
    }

    #[test]
    fn c100_chunks_are_framed_anew() {
        let input = b"005;name=\"v\"\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\nProxy-X: 1\r\n\r\nGET /evil";
        for size in [1, 2, 7, 1000] {
            let (out, used, done) = run(Body::new(Framing::Chunked), input, size).unwrap();
            assert_eq!(out, b"5\r\nhello\r\na\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n");
            assert!(done);
            assert_eq!(&input[used..], b"GET /evil");
            let (bare, ..) = run(Body::bare(Framing::Chunked), input, size).unwrap();
            assert_eq!(bare, b"hello0123456789");
        }
    }

    #[test]
    fn broken_chunks_are_errors() {
        for (input, error) in [
            (&b"\r\n"[..], FramingError::Size),
            (b"g\r\n", FramingError::Size),
            (b"-1\r\n", FramingError::Size),
            (b"+5\r\n", FramingError::Size),
            (b"0x5\r\n", FramingError::Size),
            (b" 5\r\n", FramingError::Size),
            (b"5 \r\n", FramingError::Size),
            (b"5\n", FramingError::Size),
            (b"1000000000000000\r\n", FramingError::Size),
            (b"5\rX", FramingError::LineEnd),
            (b"5;a\nb\r\n", FramingError::Extension),
            (b"5\r\nhelloX", FramingError::LineEnd),
            (b"5\r\nhello\n", FramingError::LineEnd),
            (b"5\r\nhello\rX", FramingError::LineEnd),
            (b"0\r\nno colon\r\n", FramingError::Trailer),
            (b"0\r\n folded: 1\r\n", FramingError::Trailer),
            (b"0\r\nA: 1\n", FramingError::Trailer),
            (b"0\r\nA: \x00\r\n", FramingError::Trailer),
            (b"0\r\n\n", FramingError::Trailer),
        ] {
            assert_eq!(run(Body::new(Framing::Chunked), input, 1000).unwrap_err(), error, "{input:?}");
        }
        let long = format!("5;{}\r\n", "x".repeat(300));
        assert_eq!(run(Body::new(Framing::Chunked), long.as_bytes(), 9), Err(FramingError::Extension));
        let long = format!("0\r\nA: {}\r\n", "x".repeat(9000));
        assert_eq!(run(Body::new(Framing::Chunked), long.as_bytes(), 9), Err(FramingError::Trailer));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(chunks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..40), 0..6), size in 1usize..50) {
            let mut input = Vec::new();
            for chunk in &chunks {
                write_size(chunk.len() as u64, &mut input);
                input.extend_from_slice(chunk);
                input.extend_from_slice(b"\r\n");
            }
            input.extend_from_slice(b"0\r\n\r\n");
            let (out, used, done) = run(Body::new(Framing::Chunked), &input, size).unwrap();
            prop_assert_eq!(&out, &input);
            prop_assert!(done && used == input.len());
            let (bare, ..) = run(Body::bare(Framing::Chunked), &input, size).unwrap();
            prop_assert_eq!(bare, chunks.concat());
        }

        #[test]
        fn no_input_panics_and_what_comes_out_reads_the_same(input in proptest::collection::vec(
            proptest::sample::select(b"0123aF;x: \r\n\r\n\r\n".to_vec()), 0..60)) {
            if let Ok((out, _, true)) = run(Body::new(Framing::Chunked), &input, 7) {
                let (again, used, done) = run(Body::new(Framing::Chunked), &out, 3).unwrap();
                prop_assert!(done && used == out.len());
                prop_assert_eq!(again, out);
            }
        }
    }
}
