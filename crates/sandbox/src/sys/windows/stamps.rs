//! What tells one state of a file from another, by what the system says of it.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::files::{self, Follow};

/// Every time of a file can be set by whoever may write it, so where a stamp stands the bytes may not.
pub const CERTAIN: bool = false;

/// The file's number on its volume. What may be executed goes by the name here, not by the file.
pub fn identity(path: &Path, _: &Metadata) -> ([i64; 4], bool) {
    let meta = files::open(path, Follow::No).and_then(|file| files::look(&file));
    let identity = meta.map_or([0; 4], |meta| {
        let (high, low) = ((meta.id.file >> 64) as u64, meta.id.file as u64);
        [meta.id.volume.cast_signed(), high.cast_signed(), low.cast_signed(), 0]
    });
    (identity, false)
}

/// How many names a file has; two where that cannot be asked, which is the careful answer.
pub fn names(path: &Path, _: &Metadata) -> u64 {
    files::open(path, Follow::No).and_then(|file| files::look(&file)).map_or(2, |meta| meta.links.into())
}

/// A real path as the system spells it, long names in their own case, as far as it is there. It begins with `\\\\?\\`,
/// as what the standard library makes canonical does.
pub fn spelled(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        let Ok(real) = files::open(above, Follow::No).and_then(|file| files::final_path(&file)) else {
            continue;
        };
        return match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.to_owned(),
        };
    }
    path.to_owned()
}

/// Open for reading. Nothing in a folder waits here for its other side.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case and short names are other spellings, and what is not there yet keeps its own.
    #[test]
    fn a_path_has_one_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("Long Folder Name")).unwrap();
        for other in ["LONG FOLDER NAME", "long folder name"] {
            assert_eq!(spelled(&folder.path().join(other)), real.join("Long Folder Name"));
        }
        assert_eq!(
            spelled(&folder.path().join("LONG folder NAME/New/x")),
            real.join("Long Folder Name/New/x")
        );
        assert_eq!(spelled(&real), real);
    }

    #[test]
    fn another_name_is_counted_and_another_file_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        std::fs::write(&one, "").unwrap();
        let metadata = std::fs::metadata(&one).unwrap();
        assert_eq!(names(&one, &metadata), 1);
        std::fs::hard_link(&one, &other).unwrap();
        assert_eq!(names(&one, &metadata), 2);
        assert_eq!(identity(&one, &metadata), identity(&other, &metadata));
        let third = folder.path().join("third");
        std::fs::write(&third, "").unwrap();
        assert_ne!(identity(&one, &metadata), identity(&third, &metadata));
        assert_eq!(names(&folder.path().join("gone"), &metadata), 2);
    }
}
