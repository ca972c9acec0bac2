//! A job's own folder: made outside the data directory, filled with the files of its work, removed afterwards
//! whatever the job has left in it.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use oz0_fleet::protocol::File;
use oz0_sandbox::text::escape;

use super::journal::Taking;

/// Where the jobs' folders are.
#[derive(Clone, Debug)]
pub struct Folders {
    top: PathBuf,
    keep: bool,
}

/// A place that is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The two lie in each other.
    #[error("--jobs-dir {}: jobs' folders cannot lie below the node's data directory, nor hold it", escape(.0))]
    Data(PathBuf),
    /// It cannot be made, or others may write there.
    #[error("--jobs-dir {}: {error}", escape(.path))]
    Make {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
}

impl Folders {
    /// Use this folder, made where it is missing, for this user alone.
    pub fn in_folder(top: &Path, data_directory: &Path, keep: bool) -> Result<Folders, FolderError> {
        let failed = |error: String| FolderError::Make { path: top.to_owned(), error };
        if let Some(above) = top.parent() {
            fs::create_dir_all(above).map_err(|error| failed(error.to_string()))?;
        }
        match oz0_sandbox::private::make_folder(top) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error.to_string()));
            }
            _ if !oz0_sandbox::private::is_own_folder(top) => {
                return Err(failed("it is not a folder of this user's alone".into()));
            }
            _ => {}
        }
        // As the kernel sees them: a link must not lead the one into the other.
        let real = top.canonicalize().map_err(|error| failed(error.to_string()))?;
        let data = data_directory.canonicalize().map_err(|error| failed(error.to_string()))?;
        if real.starts_with(&data) || data.starts_with(&real) {
            return Err(FolderError::Data(top.to_owned()));
        }
        Ok(Folders { top: real, keep })
    }

    /// Where one is, or will be.
    pub fn path(&self, taking: Taking) -> PathBuf {
        self.top.join(taking.to_string())
    }

    /// Make one, empty.
    pub fn make(&self, taking: Taking) -> io::Result<PathBuf> {
        let path = self.path(taking);
        oz0_sandbox::private::make_folder(&path)?;
        Ok(path)
    }

    /// Remove one, unless the operator wants to look at it.
    pub fn clear(&self, taking: Taking) {
        if self.keep {
            return;
        }
        if let Err(error) = remove(&self.path(taking)) {
            tracing::error!(job = %taking.job, %error, "removing a job's folder");
        }
    }

    /// Remove what earlier starts have left.
    pub fn clear_all(&self) {
        let Ok(entries) = fs::read_dir(&self.top) else { return };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| Taking::read(&name)).for_each(|taking| self.clear(taking));
    }
}

/// Remove a folder with all that is in it; folders that were closed by whoever made them are opened first. Links
/// are removed, never followed.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(folder)?;
            fs::remove_dir_all(folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn open(folder: &Path) -> io::Result<()> {
    super::os::make_writable(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open(&entry.path())?;
        }
    }
    Ok(())
}

/// Is this a path that stays in the folder and out of git's?
fn is_inside(path: &str) -> bool {
    let parts_hold = path.split('/').all(|part| {
        !matches!(part, "" | "." | "..")
            && !part.eq_ignore_ascii_case(".git")
            && !part.contains(['\\', ':', '\0'])
    });
    parts_hold && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Files that no node would write.
pub fn bad_path(files: &[File]) -> Option<&str> {
    files.iter().map(|file| file.path.as_str()).find(|path| !is_inside(path))
}

/// Write the files of a job. What a repository has put there gives way; through its links nothing is written.
pub fn write(folder: &Path, files: &[File]) -> io::Result<()> {
    for file in files {
        let mut at = folder.to_owned();
        let mut parts = file.path.split('/').peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            let found = fs::symlink_metadata(&at);
            match (parts.peek(), found) {
                (Some(_), Ok(found)) if found.is_dir() => {}
                (Some(_), Ok(_)) => {
                    fs::remove_file(&at)?;
                    fs::create_dir(&at)?;
                }
                (Some(_), Err(_)) => fs::create_dir(&at)?,
                (None, Ok(found)) if found.is_dir() => {
                    return Err(io::Error::other(format!("{} is a folder", escape(&file.path))));
                }
                (None, Ok(_)) => fs::remove_file(&at)?,
                (None, Err(_)) => {}
            }
        }
        super::os::make_file(&at, file.executable).and_then(|mut made| {
            use std::io::Write as _;
            made.write_all(&file.contents.0)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oz0_fleet::protocol::{Base64, Fence, JobId};

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), contents: Base64(text.into()), executable: false }
    }

    #[test]
    fn a_path_stays_inside_and_out_of_gits() {
        for path in ["a", "a/b.txt", ".github/workflows/x.yml", "a b", "ä"] {
            assert!(is_inside(path), "{path}");
        }
        for path in [
            "",
            "/a",
            "a//b",
            "../a",
            "a/../b",
            "./a",
            ".git/hooks/x",
            "a/.GIT/x",
            "a\\b",
            "c:x",
            "a/",
            "a\0",
        ] {
            assert!(!is_inside(path), "{path}");
        }
        assert_eq!(bad_path(&[file("a", ""), file("../b", "")]), Some("../b"));
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link_that_a_repository_brought() {
        let top = tempfile::tempdir().unwrap();
        let (job, outside) = (top.path().join("job"), top.path().join("outside"));
        fs::create_dir_all(job.join("real")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "as it was").unwrap();
        std::os::unix::fs::symlink(&outside, job.join("dir")).unwrap();
        std::os::unix::fs::symlink(outside.join("kept"), job.join("file")).unwrap();
        write(&job, &[file("dir/new", "1"), file("file", "2"), file("real/x", "3"), file("far/down/y", "4")])
            .unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "as it was");
        for (path, text) in [("dir/new", "1"), ("file", "2"), ("real/x", "3"), ("far/down/y", "4")] {
            assert_eq!(fs::read_to_string(job.join(path)).unwrap(), text);
        }
        assert!(write(&job, &[file("real", "")]).is_err());
    }

    #[test]
    fn folders_of_jobs_and_of_the_node_are_apart() {
        let top = tempfile::tempdir().unwrap();
        let data = top.path().join("data");
        fs::create_dir(&data).unwrap();
        let inside = Folders::in_folder(&data.join("jobs"), &data, false).unwrap_err();
        assert!(matches!(inside, FolderError::Data(_)), "{inside}");
        let folders = Folders::in_folder(&top.path().join("jobs"), &data, false).unwrap();
        let taking = Taking { job: JobId::from_bytes([1; 16]), fence: Fence(1) };
        let made = folders.make(taking).unwrap();
        assert!(folders.make(taking).is_err(), "each is made anew");
        fs::create_dir(made.join("closed")).unwrap();
        fs::write(made.join("closed/file"), "x").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(made.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        }
        fs::write(top.path().join("jobs/somebody's"), "else's").unwrap();
        folders.clear_all();
        assert!(!made.exists() && top.path().join("jobs/somebody's").exists());
    }
}
