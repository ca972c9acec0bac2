//! Files and folders that are this user's alone, and whether one is. What lies in them is not known here.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::sys::private;

/// Something that others than this user may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openness {
    /// How: `mode 755`.
    pub how: String,
    /// What closes it: `chmod 700` it.
    pub fix: String,
}

/// Make a folder that no other user reaches.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    private::make_folder(folder)
}

/// Make a file, new, that no other user reaches, and open it for writing.
pub fn make_file(file: &Path) -> io::Result<File> {
    private::make_file(file)
}

/// How others may reach a file or a folder, none when they may not. A link is not followed.
pub fn openness(path: &Path) -> io::Result<Option<Openness>> {
    private::openness(path)
}

/// Is it a folder, no link, of this user, closed to others?
pub fn is_own_folder(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir())
        && private::is_own(folder)
        && openness(folder).is_ok_and(|open| open.is_none())
}
