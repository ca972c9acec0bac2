//! What a scan has found so far, bounded, and when it is over. How names are met is not known here.

use super::{Cut, Findings, Leaving, Look, Shared};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) struct Tally<'a> {
    listed: usize,
    cancel: &'a AtomicBool,
    end: Instant,
    symlinks: Vec<Leaving>,
    findings: Findings,
}

impl<'a> Tally<'a> {
    pub(super) fn new(look: &Look, cancel: &'a AtomicBool) -> Self {
        let end = Instant::now() + look.limit;
        Self { listed: look.listed, cancel, end, symlinks: Vec::new(), findings: Findings::default() }
    }

    /// Another name; true when it is time to ask [`Tally::is_over`].
    pub(super) fn looked_at(&mut self, every: u64) -> bool {
        self.findings.looked_at += 1;
        self.findings.looked_at.is_multiple_of(every)
    }

    /// Bounded, and the first by name whatever the order they are met in.
    pub(super) fn leaves(&mut self, link: Leaving) {
        self.findings.symlinks_in_all += 1;
        self.symlinks.push(link);
        if self.symlinks.len() > 16 * self.listed {
            self.symlinks.sort();
            self.symlinks.truncate(self.listed);
        }
    }

    /// More files with several names than are kept in mind.
    pub(super) fn too_many(&mut self) {
        self.findings.cut = Some(Cut::Entries);
    }

    pub(super) fn unreadable(&mut self, folder: &Path) {
        self.findings.cut.get_or_insert_with(|| Cut::Unreadable(folder.to_owned()));
    }

    /// Whether nothing more is looked at.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.findings.cut, Some(Cut::Cancelled | Cut::Time | Cut::Entries))
    }

    pub(super) fn is_over(&mut self) -> bool {
        let cut = if self.findings.cut == Some(Cut::Entries) {
            Cut::Entries
        } else if self.cancel.load(Ordering::Relaxed) {
            Cut::Cancelled
        } else if Instant::now() >= self.end {
            Cut::Time
        } else {
            return false;
        };
        self.findings.cut = Some(cut);
        true
    }

    /// With the files that have names outside.
    pub(super) fn finish(mut self, mut shared: Vec<Shared>) -> Findings {
        self.findings.hard_links_in_all = shared.len() as u64;
        shared.sort();
        shared.truncate(self.listed);
        self.symlinks.sort();
        self.symlinks.truncate(self.listed);
        self.findings.hard_links = shared;
        self.findings.symlinks = self.symlinks;
        self.findings
    }
}
