//! A job object: what holds a run's processes together, limits them, and ends every one of them when it closes. It
//! refuses to know what the figures should be.

pub mod events;

use std::os::windows::io::{AsHandle as _, BorrowedHandle, OwnedHandle};
use std::thread;
use std::time::{Duration, Instant};

use windows::Win32::Foundation::ERROR_MORE_DATA;
use windows::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, IsProcessInJob, JOB_OBJECT_CPU_RATE_CONTROL_ENABLE,
    JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP, JOB_OBJECT_LIMIT_ACTIVE_PROCESS, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_UILIMIT, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JOBOBJECT_BASIC_PROCESS_ID_LIST, JOBOBJECT_BASIC_UI_RESTRICTIONS, JOBOBJECT_CPU_RATE_CONTROL_INFORMATION,
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION_0, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
    JobObjectBasicAccountingInformation, JobObjectBasicProcessIdList, JobObjectBasicUIRestrictions,
    JobObjectCpuRateControlInformation, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject, TerminateJobObject,
};
use windows::Win32::System::Threading::{
    OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
};
use windows::core::{BOOL, PCWSTR};

use super::error::CallError;
use super::handle::{own, raw, wait};

/// What a user interface may not do, bit by bit: JOB_OBJECT_UILIMIT_* (winnt.h; the last two, newer than the crate,
/// from microsoft/mxc, job_object.rs).
pub const UI_BITS: [(u32, &str); 10] = [
    (0x001, "handles"),
    (0x002, "read clipboard"),
    (0x004, "write clipboard"),
    (0x008, "system parameters"),
    (0x010, "display settings"),
    (0x020, "global atoms"),
    (0x040, "desktop"),
    (0x080, "exit windows"),
    (0x100, "input method"),
    (0x200, "input injection"),
];

/// What a job object holds its processes to. They end when it closes, and none can leave it, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processes at once.
    pub processes: Option<u32>,
    /// Committed memory of all of them, in bytes.
    pub memory: Option<u64>,
    /// Processor time at most, in ten-thousandths of all processors' (1 to 10,000).
    pub cpu: Option<u32>,
    /// What of [`UI_BITS`] is closed.
    pub ui: u32,
}

/// Why there is no job object with these limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// None at all.
    #[error(transparent)]
    Create(CallError),
    /// Its end with its owner, processes or memory.
    #[error("job limits: {0}")]
    Limits(CallError),
    /// A figure that is none.
    #[error("a {what} limit of {figure} cannot be set")]
    Figure {
        /// Of what.
        what: &'static str,
        /// The figure.
        figure: u64,
    },
    /// Processor time. Refused as well where sessions share the processor fairly (Remote Desktop hosts).
    #[error("job processor cap: {0}")]
    Cpu(CallError),
    /// Some of the user interface's.
    #[error("job user interface limits ({}): {error}", bits.join(", "))]
    Ui {
        /// Those that are refused alone too; all that were asked when each alone is taken.
        bits: Vec<&'static str>,
        /// What Windows answered to all of them.
        error: CallError,
    },
}

/// What a job object has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Most committed memory of all processes together, in bytes.
    pub peak_memory: u64,
    /// Processes that were in it.
    pub processes_total: u32,
    /// Processes that are in it.
    pub processes_active: u32,
    /// Processes that a limit ended.
    pub processes_ended: u32,
    /// Processor time of all of them.
    pub cpu_time: Duration,
}

/// What [`Job::end`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every process is gone, and has given back what it had open.
    Empty,
    /// These are still there.
    Left(Vec<u32>),
}

/// A job object. Closing it, which dropping does, ends every process in it.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// With its limits set before any process is in it; one that cannot be set is an error.
    pub fn new(limits: &Limits) -> Result<Job, JobError> {
        // SAFETY: nothing is passed in: no name that another process could open, no inheritance.
        let handle = unsafe { CreateJobObjectW(None, PCWSTR::null()) }
            .map_err(CallError::of("CreateJobObjectW"))
            .map_err(JobError::Create)?;
        // SAFETY: just made, and known here alone.
        let job = Job(unsafe { own(handle) });
        job.hold(limits)?;
        Ok(job)
    }

    fn hold(&self, limits: &Limits) -> Result<(), JobError> {
        let mut extended = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        // JOB_OBJECT_LIMIT_BREAKAWAY_OK and its silent form are never set.
        let mut flags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        if let Some(processes) = limits.processes {
            let refused = JobError::Figure { what: "process", figure: processes.into() };
            extended.BasicLimitInformation.ActiveProcessLimit =
                if processes > 0 { processes } else { return Err(refused) };
            flags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
        }
        if let Some(memory) = limits.memory {
            let refused = JobError::Figure { what: "memory", figure: memory };
            extended.JobMemoryLimit =
                usize::try_from(memory).ok().filter(|memory| *memory > 0).ok_or(refused)?;
            flags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
        }
        extended.BasicLimitInformation.LimitFlags = flags;
        self.set(JobObjectExtendedLimitInformation, &extended).map_err(JobError::Limits)?;

        if let Some(cpu) = limits.cpu {
            // Zero is invalid, 10,000 is all (winnt.h, JOBOBJECT_CPU_RATE_CONTROL_INFORMATION).
            if !(1..=10_000).contains(&cpu) {
                return Err(JobError::Figure { what: "processor", figure: cpu.into() });
            }
            let rate = JOBOBJECT_CPU_RATE_CONTROL_INFORMATION {
                ControlFlags: JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP,
                Anonymous: JOBOBJECT_CPU_RATE_CONTROL_INFORMATION_0 { CpuRate: cpu },
            };
            self.set(JobObjectCpuRateControlInformation, &rate).map_err(JobError::Cpu)?;
        }
        if limits.ui != 0 { self.close_ui(limits.ui) } else { Ok(()) }
    }

    /// All at once. When that is refused each is asked alone, to name the ones that this Windows does not know: no
    /// build number decides, and none is left out in silence.
    fn close_ui(&self, mask: u32) -> Result<(), JobError> {
        let Err(error) = self.set_ui(mask) else { return Ok(()) };
        let asked = || UI_BITS.iter().filter(|(bit, _)| mask & bit != 0);
        let mut bits: Vec<&str> =
            asked().filter(|(bit, _)| self.set_ui(*bit).is_err()).map(|(_, name)| *name).collect();
        if bits.is_empty() {
            bits = asked().map(|(_, name)| *name).collect();
        }
        Err(JobError::Ui { bits, error })
    }

    fn set_ui(&self, mask: u32) -> Result<(), CallError> {
        let restrictions = JOBOBJECT_BASIC_UI_RESTRICTIONS { UIRestrictionsClass: JOB_OBJECT_UILIMIT(mask) };
        self.set(JobObjectBasicUIRestrictions, &restrictions)
    }

    fn set<T>(&self, class: JOBOBJECTINFOCLASS, information: &T) -> Result<(), CallError> {
        // SAFETY: the job is open, `information` is borrowed for the call with its own size.
        unsafe {
            SetInformationJobObject(
                raw(self.0.as_handle()),
                class,
                (&raw const *information).cast(),
                size_of::<T>() as u32,
            )
        }
        .map_err(CallError::of("SetInformationJobObject"))
    }

    fn query<T: Default>(&self, class: JOBOBJECTINFOCLASS) -> Result<T, CallError> {
        let mut information = T::default();
        // SAFETY: the job is open, `information` lives on this stack and is as large as is said.
        unsafe {
            QueryInformationJobObject(
                Some(raw(self.0.as_handle())),
                class,
                (&raw mut information).cast(),
                size_of::<T>() as u32,
                None,
            )
        }
        .map_err(CallError::of("QueryInformationJobObject"))?;
        Ok(information)
    }

    /// Puts a process in. One that cannot be must not run.
    pub fn assign(&self, process: BorrowedHandle<'_>) -> Result<(), CallError> {
        // SAFETY: both handles are open for the call.
        unsafe { AssignProcessToJobObject(raw(self.0.as_handle()), raw(process)) }
            .map_err(CallError::of("AssignProcessToJobObject"))
    }

    /// Whether a process is in it, or in a job inside it.
    pub fn contains(&self, process: BorrowedHandle<'_>) -> Result<bool, CallError> {
        let mut inside = BOOL(0);
        // SAFETY: both handles are open for the call, the result lives on this stack.
        unsafe { IsProcessInJob(raw(process), Some(raw(self.0.as_handle())), &raw mut inside) }
            .map_err(CallError::of("IsProcessInJob"))?;
        Ok(inside.as_bool())
    }

    /// The limits as Windows holds them, read back.
    pub fn held(&self) -> Result<Limits, CallError> {
        let extended: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = self.query(JobObjectExtendedLimitInformation)?;
        let rate: JOBOBJECT_CPU_RATE_CONTROL_INFORMATION = self.query(JobObjectCpuRateControlInformation)?;
        let ui: JOBOBJECT_BASIC_UI_RESTRICTIONS = self.query(JobObjectBasicUIRestrictions)?;
        let flags = extended.BasicLimitInformation.LimitFlags;
        let capped = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
        Ok(Limits {
            processes: flags
                .contains(JOB_OBJECT_LIMIT_ACTIVE_PROCESS)
                .then_some(extended.BasicLimitInformation.ActiveProcessLimit),
            memory: flags.contains(JOB_OBJECT_LIMIT_JOB_MEMORY).then_some(extended.JobMemoryLimit as u64),
            cpu: rate.ControlFlags.contains(capped).then_some({
                // SAFETY: every field of the union is one 32-bit number.
                unsafe { rate.Anonymous.CpuRate }
            }),
            ui: ui.UIRestrictionsClass.0,
        })
    }

    /// What it has counted so far.
    pub fn counters(&self) -> Result<Counters, CallError> {
        let accounting: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION =
            self.query(JobObjectBasicAccountingInformation)?;
        let extended: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = self.query(JobObjectExtendedLimitInformation)?;
        // Times are in units of 100 nanoseconds (winnt.h).
        let ticks = accounting.TotalUserTime.saturating_add(accounting.TotalKernelTime);
        Ok(Counters {
            peak_memory: extended.PeakJobMemoryUsed as u64,
            processes_total: accounting.TotalProcesses,
            processes_active: accounting.ActiveProcesses,
            processes_ended: accounting.TotalTerminatedProcesses,
            cpu_time: Duration::from_nanos(u64::try_from(ticks).unwrap_or(0).saturating_mul(100)),
        })
    }

    /// The processes that are in it now.
    pub fn processes(&self) -> Result<Vec<u32>, CallError> {
        let mut room = 64_usize;
        loop {
            // The head is two numbers of 32 bits, which fill one place; the ids follow, a pointer's size each.
            const { assert!(size_of::<JOBOBJECT_BASIC_PROCESS_ID_LIST>() == 2 * size_of::<usize>()) };
            let mut list = vec![0_usize; 1 + room];
            // SAFETY: the job is open, `list` is as large as is said and aligned for the structure.
            let asked = unsafe {
                QueryInformationJobObject(
                    Some(raw(self.0.as_handle())),
                    JobObjectBasicProcessIdList,
                    list.as_mut_ptr().cast(),
                    (list.len() * size_of::<usize>()) as u32,
                    None,
                )
            }
            .map_err(CallError::of("QueryInformationJobObject"));
            let head = list[0].to_le_bytes();
            let assigned = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let listed = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            match asked {
                Err(error) if error.win32_code() != Some(ERROR_MORE_DATA.0) => return Err(error),
                // Windows fails with ERROR_MORE_DATA, Wine succeeds with fewer.
                _ if listed < assigned => room = assigned + 64,
                _ => return Ok(list[1..].iter().take(listed).map(|id| *id as u32).collect()),
            }
        }
    }

    /// Ends every process in it, and those of jobs inside it.
    pub fn terminate(&self, status: u32) -> Result<(), CallError> {
        // SAFETY: the job is open for the call.
        unsafe { TerminateJobObject(raw(self.0.as_handle()), status) }
            .map_err(CallError::of("TerminateJobObject"))
    }

    /// Ends every process and stands by until each is gone. The count reaches zero a little before a process has
    /// given back its files, so each is waited for by its own handle as well.
    pub fn end(&self, status: u32, within: Duration) -> Result<Ended, CallError> {
        let deadline = Instant::now() + within;
        let mut known = Vec::new();
        loop {
            known.extend(self.open_processes()?);
            self.terminate(status)?;
            if self.counters()?.processes_active == 0 {
                break;
            }
            if Instant::now() >= deadline {
                return self.processes().map(Ended::Left);
            }
            thread::sleep(Duration::from_millis(2));
        }
        for (id, process) in &known {
            let left = deadline.saturating_duration_since(Instant::now());
            if !wait(process.as_handle(), Some(left))? {
                return Ok(Ended::Left(vec![*id]));
            }
        }
        Ok(Ended::Empty)
    }

    /// Handles to wait for. A process that has gone meanwhile has none, and an id that has passed to another process
    /// does not count: it is not in this job.
    fn open_processes(&self) -> Result<Vec<(u32, OwnedHandle)>, CallError> {
        let access = PROCESS_SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION;
        Ok(self
            .processes()?
            .into_iter()
            .filter_map(|id| {
                // SAFETY: takes numbers alone.
                let handle = unsafe { OpenProcess(access, false, id) }.ok()?;
                // SAFETY: just opened, and known here alone.
                Some((id, unsafe { own(handle) }))
            })
            .filter(|(_, process)| self.contains(process.as_handle()).unwrap_or(false))
            .collect())
    }
}

#[cfg(test)]
mod tests;
