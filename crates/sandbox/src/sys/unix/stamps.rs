//! What tells one state of a file from another, by what the system says of it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Where a stamp stands the bytes do: no program can set the change time.
pub const CERTAIN: bool = true;

/// Device, inode and change time; and whether it may be executed.
pub fn identity(_: &Path, metadata: &Metadata) -> ([i64; 4], bool) {
    let identity =
        [metadata.dev().cast_signed(), metadata.ino().cast_signed(), metadata.ctime(), metadata.ctime_nsec()];
    (identity, metadata.mode() & 0o111 != 0)
}

/// How many names a file has.
pub fn names(_: &Path, metadata: &Metadata) -> u64 {
    metadata.nlink()
}

/// A real path as the system spells it: there is one spelling.
pub fn spelled(path: &Path) -> PathBuf {
    path.to_owned()
}

/// Open for reading; a FIFO or a device must not wait for its other side.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
