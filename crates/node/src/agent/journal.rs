//! What of its jobs a node knows after it was killed: one small file a job, in the data directory, beside the log
//! that is still to be sent. Holds no command, no variable and no secret.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oz0_fleet::protocol::{Ending, Fence, JobId, Milliseconds, Outcome};
use serde::{Deserialize, Serialize};

/// Below the data directory.
const FOLDER: &str = "jobs";

/// One taking of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taking {
    /// The job.
    pub job: JobId,
    /// Under which lease.
    pub fence: Fence,
}

impl std::fmt::Display for Taking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.job, self.fence.0)
    }
}

impl Taking {
    /// Read what is written by Display.
    pub fn read(text: &str) -> Option<Taking> {
        let (job, fence) = text.split_once('.')?;
        let taking = Taking { job: job.parse().ok()?, fence: Fence(fence.parse().ok()?) };
        (taking.to_string() == text).then_some(taking)
    }
}

/// What is written of a job: that it was taken, and once it has ended, how.
#[derive(Serialize, Deserialize)]
struct Note {
    ending: Option<Ending>,
}

/// The files.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Open the journal of a data directory.
    pub fn open(data_directory: &Path) -> io::Result<Journal> {
        let folder = data_directory.join(FOLDER);
        match oz0_sandbox::private::make_folder(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }
        Ok(Journal { folder })
    }

    /// Where something of a job is kept.
    pub fn path(&self, taking: Taking, what: &str) -> PathBuf {
        self.folder.join(format!("{taking}.{what}"))
    }

    /// It was taken.
    pub fn begin(&self, taking: Taking) -> io::Result<()> {
        self.write(taking, &Note { ending: None }, false)
    }

    /// It has ended; from here on the edge is told until it answers.
    pub fn end(&self, ending: &Ending) -> io::Result<()> {
        let taking = Taking { job: ending.job, fence: ending.fence };
        self.write(taking, &Note { ending: Some(*ending) }, true)
    }

    fn write(&self, taking: Taking, note: &Note, sync: bool) -> io::Result<()> {
        let (new, path) = (self.path(taking, "new"), self.path(taking, "json"));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(note)?)?;
        if sync {
            file.sync_data()?;
        }
        fs::rename(new, path)
    }

    /// The edge knows how it ended.
    pub fn forget(&self, taking: Taking) {
        for what in ["json", "new", "told", "lock"] {
            let _ = fs::remove_file(self.path(taking, what));
        }
    }

    /// Its log was sent, as far as it is wanted.
    pub fn forget_log(&self, taking: Taking) {
        let _ = fs::remove_file(self.path(taking, "log"));
    }

    /// What an earlier start has left: how each ended, `lost` where that start did not see the end. Waits for what
    /// launched them to be gone; what is not gone after `patience` is left out, for its lease to end.
    pub fn recover(&self, patience: Duration) -> io::Result<Vec<Ending>> {
        let until = Instant::now() + patience;
        let mut endings = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some((stem, what)) = name.to_str().and_then(|name| name.rsplit_once('.')) else { continue };
            let Some(taking) = Taking::read(stem) else { continue };
            if what != "json" {
                if !self.path(taking, "json").exists() {
                    let _ = fs::remove_file(self.folder.join(&name));
                }
                continue;
            }
            let note: Option<Note> =
                fs::read(self.path(taking, "json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
            let zero = Milliseconds::new(0);
            let Taking { job, fence } = taking;
            let lost = Ending { job, fence, outcome: Outcome::Lost, start_ms: zero, run_ms: zero };
            match note.and_then(|note| note.ending) {
                Some(ending) => endings.push(ending),
                None if gone(&self.path(taking, "lock"), until) => {
                    self.end(&lost)?;
                    endings.push(lost);
                }
                None => tracing::error!(job = %job, "what an earlier start ran has not ended"),
            }
        }
        endings.sort_by_key(|ending| ending.job);
        Ok(endings)
    }
}

/// Does nobody hold this lock any more? Whoever launched a job held it, and so did the first process inside.
fn gone(lock: &Path, until: Instant) -> bool {
    let file = match File::open(lock) {
        Ok(file) => file,
        // Nothing was launched yet.
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    };
    loop {
        match file.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(number: u8) -> Taking {
        Taking { job: JobId::from_bytes([number; 16]), fence: Fence(3) }
    }

    #[test]
    fn what_was_not_seen_to_end_is_lost_and_what_was_is_as_it_was() {
        let data = tempfile::tempdir().unwrap();
        let journal = Journal::open(data.path()).unwrap();
        assert_eq!(journal.recover(Duration::ZERO).unwrap(), []);
        journal.begin(taking(1)).unwrap();
        journal.begin(taking(2)).unwrap();
        journal.begin(taking(3)).unwrap();
        let ended = Ending {
            job: taking(2).job,
            fence: taking(2).fence,
            outcome: Outcome::Exited { status: 4 },
            start_ms: Milliseconds::new(1),
            run_ms: Milliseconds::new(2),
        };
        journal.end(&ended).unwrap();
        journal.forget(taking(3));
        fs::write(journal.path(taking(4), "log"), "of a job that is settled").unwrap();
        fs::write(data.path().join("jobs/somebody's"), "else's").unwrap();

        let again = Journal::open(data.path()).unwrap();
        let endings = again.recover(Duration::ZERO).unwrap();
        assert_eq!(endings.len(), 2);
        assert_eq!((endings[0].job, endings[0].outcome), (taking(1).job, Outcome::Lost));
        assert_eq!(endings[1], ended);
        assert!(!again.path(taking(4), "log").exists() && data.path().join("jobs/somebody's").exists());
        assert_eq!(again.recover(Duration::ZERO).unwrap(), endings, "until the edge has answered");
    }

    #[test]
    fn what_may_still_run_is_not_told_as_lost() {
        let data = tempfile::tempdir().unwrap();
        let journal = Journal::open(data.path()).unwrap();
        journal.begin(taking(1)).unwrap();
        let lock = File::create(journal.path(taking(1), "lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(journal.recover(Duration::from_millis(20)).unwrap(), []);
        drop(lock);
        assert_eq!(journal.recover(Duration::from_secs(5)).unwrap().len(), 1);
    }

    #[test]
    fn a_taking_has_one_spelling() {
        let text = taking(9).to_string();
        assert_eq!(Taking::read(&text), Some(taking(9)));
        for other in [text.replace(".3", ".03"), text.replace(".3", ""), format!("{text}.3"), String::new()] {
            assert_eq!(Taking::read(&other), None, "{other}");
        }
    }
}
