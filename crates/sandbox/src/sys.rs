//! The only unsafe code: owned handles, one call a block.

#[cfg(target_os = "linux")]
pub mod linux;

/// What a subject of the self-test tries, by this system's own calls.
#[cfg(target_os = "linux")]
pub use linux::attempt;
