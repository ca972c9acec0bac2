//! The run's token: made here, compared here, shown only inside a proxy URL. It refuses Debug, Display and Clone,
//! so that no log or error can hold it by accident.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::reason::Reason;

/// The user of the proxy URL. Any other is taken as well: the token alone counts.
const USER: &str = "oz0";
const RANDOM_BYTES: usize = 32;
/// Base64 of 32 bytes without padding.
const TEXT_BYTES: usize = 43;
/// Longest credentials that are decoded at all: a user of some length, a colon and the token.
const LONGEST_CREDENTIALS: usize = 384;

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the system gave no random bytes for the run's token: {source}")]
pub struct TokenError {
    #[from]
    source: getrandom::Error,
}

/// A run's token.
pub struct Token([u8; TEXT_BYTES]);

impl Token {
    /// A new token of 256 random bits.
    pub fn generate() -> Result<Token, TokenError> {
        let mut random = Zeroizing::new([0u8; RANDOM_BYTES]);
        getrandom::fill(random.as_mut())?;
        let mut text = [0u8; TEXT_BYTES];
        let written = URL_SAFE_NO_PAD.encode_slice(random.as_ref(), &mut text);
        debug_assert_eq!(written, Ok(TEXT_BYTES));
        Ok(Token(text))
    }

    /// The URL that HTTP_PROXY and HTTPS_PROXY hold.
    pub fn proxy_url(&self, address: SocketAddr) -> Zeroizing<String> {
        let mut url = Zeroizing::new(String::with_capacity(128));
        url.push_str("http://");
        url.push_str(USER);
        url.push(':');
        url.extend(self.0.iter().map(|byte| char::from(*byte)));
        url.push('@');
        url.push_str(&address.to_string());
        url
    }

    /// Judges the value of one `Proxy-Authorization` field.
    pub(crate) fn check(&self, field: Option<&[u8]>) -> Result<(), Reason> {
        let field = field.ok_or(Reason::TokenMissing)?;
        let (scheme, encoded) = field.split_at_checked(6).ok_or(Reason::TokenWrong)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return Err(Reason::TokenWrong);
        }
        let mut credentials = Zeroizing::new([0u8; LONGEST_CREDENTIALS]);
        let length = STANDARD
            .decode_slice(encoded.trim_ascii_start(), credentials.as_mut())
            .map_err(|_| Reason::TokenWrong)?;
        let credentials = &credentials[..length];
        let colon = credentials.iter().position(|byte| *byte == b':').ok_or(Reason::TokenWrong)?;
        let given = &credentials[colon + 1..];
        // Slices of unlike lengths compare unequal at once: the length is no secret.
        if bool::from(given.ct_eq(&self.0)) { Ok(()) } else { Err(Reason::TokenWrong) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(token: &Token) -> String {
        let url = token.proxy_url(([127, 0, 0, 1], 3128).into());
        url.strip_prefix("http://oz0:").unwrap().strip_suffix("@127.0.0.1:3128").unwrap().to_owned()
    }

    #[test]
    fn its_own_url_opens_and_nothing_else_does() {
        let token = Token::generate().unwrap();
        let other = Token::generate().unwrap();
        let (own, foreign) = (password(&token), password(&other));
        assert_eq!(own.len(), 43);
        assert_ne!(own, foreign);
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let check = |field: &str| token.check(Some(field.as_bytes()));
        assert_eq!(check(&basic(&format!("oz0:{own}"))), Ok(()));
        assert_eq!(check(&basic(&format!(":{own}"))), Ok(()), "the user is free");
        assert_eq!(check(&basic(&format!("oz0:{own}")).replace("Basic", "bASIC")), Ok(()));
        assert_eq!(token.check(None), Err(Reason::TokenMissing));
        for wrong in [
            basic(&format!("oz0:{foreign}")),
            basic(&format!("oz0:{own}x")),
            basic(&format!("oz0:{}", &own[..42])),
            basic("oz0:"),
            basic(&own),
            basic(""),
            format!("Bearer {own}"),
            "Basic".to_owned(),
            "Basic !!!!".to_owned(),
            basic(&"x".repeat(4000)),
        ] {
            assert_eq!(check(&wrong), Err(Reason::TokenWrong), "{}", wrong.len());
        }
    }
}
