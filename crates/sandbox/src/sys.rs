//! The only unsafe code: owned handles, one call a block.

#[cfg(target_os = "linux")]
pub mod linux;
