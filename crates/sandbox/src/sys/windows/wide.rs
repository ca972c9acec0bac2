//! Text as Windows takes it: UTF-16 that ends with a NUL and holds no other, so that no call sees a shorter text
//! than was meant.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};

use windows::core::{PCWSTR, PWSTR};

/// A text that ends with its only NUL.
#[derive(Clone, PartialEq, Eq)]
pub struct Wide(Vec<u16>);

/// A NUL inside a text: Windows would read what comes before it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a NUL character inside the text")]
pub struct InteriorNul;

impl Wide {
    /// The text, unless it holds a NUL.
    pub fn new(text: impl AsRef<OsStr>) -> Result<Wide, InteriorNul> {
        let mut units: Vec<u16> = text.as_ref().encode_wide().collect();
        if units.contains(&0) {
            return Err(InteriorNul);
        }
        units.push(0);
        Ok(Wide(units))
    }

    /// Valid as long as the text is.
    pub(super) fn pointer(&self) -> PCWSTR {
        PCWSTR(self.0.as_ptr())
    }

    /// For calls that may write into the text.
    pub(super) fn pointer_mut(&mut self) -> PWSTR {
        PWSTR(self.0.as_mut_ptr())
    }
}

/// What a call has written, up to its first NUL.
pub fn text(units: &[u16]) -> OsString {
    OsString::from_wide(units.split(|unit| *unit == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_with_its_only_nul() {
        let wide = Wide::new("C:\\ä").expect("no NUL");
        assert_eq!(wide.0, [0x43, 0x3A, 0x5C, 0xE4, 0]);
        assert_eq!(text(&wide.0), "C:\\ä");
        assert_eq!(Wide::new("a\0b").err(), Some(InteriorNul));
        // A lone surrogate is a valid name on NTFS and passes both ways.
        let odd = OsString::from_wide(&[0xD800, 0x61]);
        assert_eq!(text(&Wide::new(&odd).expect("no NUL").0), odd);
    }
}
