//! Randomness, and the time: the two things that come from outside of everything here.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oz0_fleet::protocol::Timestamp;
use ring::digest::{SHA256, digest};

use crate::store::StoreError;

/// Now, by this machine's clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_milliseconds(since.as_millis().try_into().unwrap_or(u64::MAX))
}

/// Bytes that nobody guesses.
pub fn bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| StoreError::Randomness)?;
    Ok(bytes)
}

/// A token with this prefix, and what is kept of it.
pub fn token(prefix: &str) -> Result<(String, String), StoreError> {
    let token = format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes::<32>()?));
    let kept = digest_of(&[&token]);
    Ok((token, kept))
}

/// A digest as text, of parts that cannot run into each other.
pub fn digest_of(parts: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(hash(parts))
}

/// The first half of the same digest: enough for a name.
pub fn name_of(parts: &[&str]) -> [u8; 16] {
    let hash = hash(parts);
    std::array::from_fn(|place| hash[place])
}

fn hash(parts: &[&str]) -> [u8; 32] {
    let text: Vec<u8> = parts
        .iter()
        .flat_map(|part| [&(part.len() as u64).to_be_bytes()[..], part.as_bytes()].concat())
        .collect();
    let hash = digest(&SHA256, &text);
    std::array::from_fn(|place| hash.as_ref()[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(name_of(&["ab", "c"]), name_of(&["a", "bc"]));
        assert_ne!(name_of(&["a"]), name_of(&["a", ""]));
        let (token, kept) = token("oz0-node-token-").unwrap();
        assert_eq!(kept, digest_of(&[&token]));
        assert_ne!(token, self::token("oz0-node-token-").unwrap().0);
    }
}
