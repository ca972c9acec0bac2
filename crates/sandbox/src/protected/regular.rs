//! A small regular file, read without being held up: never a FIFO that waits, never more than was asked for.

use std::io::{self, Read as _};
use std::path::Path;

use crate::sys::stamps;

/// The whole file; `None` when nothing is there, an error when it is no regular file or longer than `limit`.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match stamps::open_at_once(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(limit)).unwrap_or(0) + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    Ok(Some(bytes))
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_does_not_hold_the_launch_up() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("config");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(read(&fifo, 10).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(read(&folder.path().join("gone"), 10).unwrap().is_none());
        std::fs::write(folder.path().join("long"), "0123456789a").unwrap();
        assert_eq!(read(&folder.path().join("long"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&folder.path().join("long"), 11).unwrap().unwrap(), b"0123456789a");
    }
}
