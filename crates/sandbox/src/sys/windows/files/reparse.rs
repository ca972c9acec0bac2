//! The bytes of a reparse point, read. Pure: Wine has no reparse points, so this is tested on bytes.

use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What a reparse point says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reparse {
    /// A symbolic link.
    Symlink {
        /// Where it leads, as it is written there.
        target: PathBuf,
        /// Whether that is meant from the link's own folder.
        relative: bool,
    },
    /// A junction or a volume mounted in a folder.
    MountPoint {
        /// Where it leads, as it is written there.
        target: PathBuf,
    },
    /// The file of an AF_UNIX socket.
    Socket,
    /// Another kind (a placeholder of a cloud, a deduplicated file, …), by its tag.
    Other(u32),
}

// Tags and layouts: winnt.h (IO_REPARSE_TAG_*) and ntifs.h (REPARSE_DATA_BUFFER).
const MOUNT_POINT: u32 = 0xA000_0003;
const SYMLINK: u32 = 0xA000_000C;
const AF_UNIX: u32 = 0x8000_0023;
const SYMLINK_FLAG_RELATIVE: u32 = 1;

/// Tag, data's length and a reserved word come before the data.
const HEAD: usize = 8;

impl Reparse {
    /// None for bytes that are not in the form of their tag.
    pub fn read(bytes: &[u8]) -> Option<Reparse> {
        let tag = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let length = half(bytes, 4)?;
        let data = bytes.get(HEAD..HEAD + length)?;
        match tag {
            SYMLINK => {
                let flags = u32::from_le_bytes(data.get(8..12)?.try_into().ok()?);
                let relative = flags & SYMLINK_FLAG_RELATIVE != 0;
                Some(Reparse::Symlink { target: substitute(data, 12)?, relative })
            }
            MOUNT_POINT => Some(Reparse::MountPoint { target: substitute(data, 8)? }),
            AF_UNIX => Some(Reparse::Socket),
            other => Some(Reparse::Other(other)),
        }
    }
}

/// The name that is followed, not the one that is shown: both lie after the fixed part, by offset and length in bytes.
fn substitute(data: &[u8], names: usize) -> Option<PathBuf> {
    let begin = names.checked_add(half(data, 0)?)?;
    let bytes = data.get(begin..begin.checked_add(half(data, 2)?)?)?;
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    Some(OsString::from_wide(&units).into())
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As mklink writes them: the shown name first, the followed one after it.
    fn bytes(tag: u32, flags: Option<u32>, substitute: &str, print: &str) -> Vec<u8> {
        let units = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let (substitute, print) = (units(substitute), units(print));
        let mut data = Vec::new();
        for half in [print.len(), substitute.len(), 0, print.len()] {
            data.extend((half as u16).to_le_bytes());
        }
        data.extend(flags.into_iter().flat_map(u32::to_le_bytes));
        data.extend(print);
        data.extend(substitute);
        let mut bytes = tag.to_le_bytes().to_vec();
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(data);
        bytes
    }

    #[test]
    fn the_followed_name_is_read_not_the_shown_one() {
        let junction = bytes(MOUNT_POINT, None, r"\??\C:\secret", r"C:\harmless");
        assert_eq!(
            Reparse::read(&junction),
            Some(Reparse::MountPoint { target: PathBuf::from(r"\??\C:\secret") })
        );
        let link = bytes(SYMLINK, Some(1), r"..\..\x", "shown");
        assert_eq!(
            Reparse::read(&link),
            Some(Reparse::Symlink { target: PathBuf::from(r"..\..\x"), relative: true })
        );
        let link = bytes(SYMLINK, Some(0), r"\??\UNC\host\share", "shown");
        assert_eq!(
            Reparse::read(&link),
            Some(Reparse::Symlink { target: PathBuf::from(r"\??\UNC\host\share"), relative: false })
        );
        assert_eq!(Reparse::read(&bytes(AF_UNIX, None, "", "")), Some(Reparse::Socket));
        // IO_REPARSE_TAG_APPEXECLINK
        assert_eq!(Reparse::read(&bytes(0x8000_001B, None, "x", "")), Some(Reparse::Other(0x8000_001B)));
    }

    #[test]
    fn bytes_that_are_cut_or_lie_are_no_reparse_point() {
        let whole = bytes(SYMLINK, Some(0), r"\??\C:\x", "x");
        for length in 0..whole.len() {
            assert_eq!(Reparse::read(&whole[..length]), None, "{length}");
        }
        for at in [8, 10] {
            let mut lying = whole.clone();
            lying[at..at + 2].copy_from_slice(&[0xFF, 0xFF]);
            assert_eq!(Reparse::read(&lying), None);
        }
    }
}
