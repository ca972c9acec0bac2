//! DNS queries inside the sandbox: each is answered REFUSED at once and its name is noted, so that a program which
//! does not use the proxy fails at once and is told why. It refuses to resolve anything.

use std::net::UdpSocket;

/// Largest query that is looked at.
const LARGEST_QUERY: usize = 512;
const HEADER: usize = 12;

/// Answers the queries that wait, at most `most`, and gives each name, escaped, to `note`.
pub(crate) fn refuse_waiting(socket: &UdpSocket, most: usize, mut note: impl FnMut(&str)) {
    let mut query = [0u8; LARGEST_QUERY];
    for _ in 0..most {
        let Ok((length, from)) = socket.recv_from(&mut query) else { return };
        let Some((answer, name)) = refuse(&query[..length]) else { continue };
        note(&name);
        // A full send buffer loses the answer, as datagrams may be lost.
        let _ = socket.send_to(&answer, from);
    }
}

/// The answer to one query and the name in it; none for what is no query.
fn refuse(query: &[u8]) -> Option<(Vec<u8>, String)> {
    let (header, rest) = query.split_at_checked(HEADER)?;
    let is_answer = header[2] & 0x80 != 0;
    let questions = u16::from_be_bytes([header[4], header[5]]);
    if is_answer || questions != 1 {
        return None;
    }
    let (name, length) = read_name(rest)?;
    let question = rest.get(..length + 4)?;
    let mut answer = Vec::with_capacity(HEADER + question.len());
    answer.extend_from_slice(&header[..2]);
    // Opcode and "recursion desired" as asked; an answer, recursion available, REFUSED.
    answer.push(header[2] & 0x79 | 0x80);
    answer.push(0x80 | 5);
    answer.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    answer.extend_from_slice(question);
    Some((answer, name))
}

/// A name without compression, as every query has it: the text, and how many bytes it took.
fn read_name(bytes: &[u8]) -> Option<(String, usize)> {
    let (mut text, mut at) = (String::new(), 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        if length > 63 || at > 255 {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        for byte in bytes.get(at..at + length)? {
            match byte.to_ascii_lowercase() {
                plain @ (b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') => text.push(char::from(plain)),
                other => text.push_str(&format!("\\x{other:02x}")),
            }
        }
        at += length;
    }
    Some((if text.is_empty() { ".".to_owned() } else { text }, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(labels: &[&[u8]]) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in labels {
            query.push(label.len() as u8);
            query.extend_from_slice(label);
        }
        query.extend_from_slice(&[0, 0, 28, 0, 1]);
        query.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]); // EDNS, as resolvers add it
        query
    }

    #[test]
    fn c107_a_query_is_refused_and_named() {
        let (answer, name) = refuse(&query(&[b"Svc", b"corp", b"example"])).unwrap();
        assert_eq!(name, "svc.corp.example");
        assert_eq!(&answer[..12], &[0xab, 0xcd, 0x81, 0x85, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&answer[12..], b"\x03Svc\x04corp\x07example\0\0\x1c\0\x01");
        assert_eq!(refuse(&query(&[b"a.b\x1b[31m"])).unwrap().1, "a\\x2eb\\x1b\\x5b31m");
        assert_eq!(refuse(&query(&[])).unwrap().1, ".");
    }

    #[test]
    fn what_is_no_query_gets_no_answer() {
        let mut answer = query(&[b"a"]);
        answer[2] |= 0x80;
        let mut two = query(&[b"a"]);
        two[5] = 2;
        let pointer = [&query(&[])[..12], &[0xc0, 0x0c, 0, 1, 0, 1]].concat();
        for bytes in [&answer, &two, &pointer, &query(&[b"abc"])[..14].to_vec(), &Vec::new()] {
            assert!(refuse(bytes).is_none(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some((answer, name)) = refuse(&bytes) {
                prop_assert!(answer.len() <= bytes.len());
                prop_assert!(name.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
