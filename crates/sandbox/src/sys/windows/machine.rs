//! How large this machine is.

use windows::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows::Win32::System::Threading::{ALL_PROCESSOR_GROUPS, GetActiveProcessorCount};

use super::error::CallError;

/// Its memory in bytes.
pub fn memory() -> Result<u64, CallError> {
    let mut status = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: the structure lives on this stack and says its own size.
    unsafe { GlobalMemoryStatusEx(&raw mut status) }.map_err(CallError::of("GlobalMemoryStatusEx"))?;
    Ok(status.ullTotalPhys)
}

/// Its logical processors, of all groups: a job object's cap is a share of these.
pub fn processors() -> u32 {
    // SAFETY: takes a number.
    unsafe { GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) }.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_this_machine() {
        assert!(memory().expect("a figure") > 64 << 20);
        let available = std::thread::available_parallelism().expect("a figure").get();
        assert!(processors() as usize >= available);
    }
}
