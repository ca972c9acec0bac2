//! How much work this node takes at once: jobs by its processors, memory by what the machine has and what each job
//! may use. What a job may use is set aside whole, so that no limit is a promise that the machine cannot keep.

use oz0_fleet::protocol::{Capacity, Kind, MOST_JOBS};

/// The most that is taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Jobs.
    pub jobs: u16,
    /// Memory for all of them, in MiB.
    pub memory_mib: u64,
}

impl Room {
    /// Of this machine: a job for each processor, three quarters of its memory; or as the operator said.
    pub fn of(processors: usize, machine_memory: u64, jobs: Option<u16>, memory: Option<u64>) -> Room {
        let most = u16::try_from(MOST_JOBS).unwrap_or(u16::MAX);
        let processors = u16::try_from(processors).unwrap_or(most);
        Room {
            jobs: jobs.unwrap_or(processors).clamp(1, most),
            memory_mib: memory.unwrap_or(machine_memory / 4 * 3) >> 20,
        }
    }

    /// What is left beside `jobs` that may use that much. No job at all when memory is gone.
    pub fn left(&self, jobs: usize, memory_mib: u64) -> Capacity {
        let memory = self.memory_mib.saturating_sub(memory_mib);
        let jobs = usize::from(self.jobs).saturating_sub(jobs);
        let jobs = if memory == 0 { 0 } else { u16::try_from(jobs).unwrap_or(u16::MAX) };
        Capacity { jobs, kinds: Kind::ALL.to_vec(), memory_mib: u32::try_from(memory).unwrap_or(u32::MAX) }
    }

    /// Is there room for one more of that size, beside these?
    pub fn fits(&self, jobs: usize, used_mib: u64, memory_mib: u32) -> bool {
        let left = self.left(jobs, used_mib);
        left.jobs > 0 && memory_mib <= left.memory_mib
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_gives_a_job_a_processor_and_three_quarters_of_its_memory() {
        let room = Room::of(4, 16 << 30, None, None);
        assert_eq!(room, Room { jobs: 4, memory_mib: 12 << 10 });
        assert_eq!(Room::of(0, 1 << 30, None, None).jobs, 1);
        assert_eq!(Room::of(4096, 1 << 30, None, None).jobs, 256);
        assert_eq!(Room::of(4, 16 << 30, Some(9), Some(2 << 30)), Room { jobs: 9, memory_mib: 2 << 10 });
    }

    #[test]
    fn what_is_set_aside_is_gone() {
        let room = Room { jobs: 2, memory_mib: 1000 };
        assert!(room.fits(0, 0, 1000) && !room.fits(0, 0, 1001));
        assert!(room.fits(1, 600, 400) && !room.fits(1, 601, 400));
        assert!(!room.fits(2, 0, 1));
        let left = room.left(1, 1000);
        assert_eq!((left.jobs, left.memory_mib), (0, 0));
        assert_eq!(room.left(5, 5000).jobs, 0);
    }
}
