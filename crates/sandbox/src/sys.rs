//! The only unsafe code: owned handles, one call a block.

#[cfg(not(any(target_os = "linux", windows)))]
mod elsewhere;
#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
pub mod windows;

/// What a subject of the self-test tries, by this system's own calls.
#[cfg(not(any(target_os = "linux", windows)))]
pub use elsewhere::attempt;
#[cfg(target_os = "linux")]
pub use linux::attempt;
#[cfg(windows)]
pub use windows::attempt;

/// What only this user reaches, and what tells one state of a file from another.
#[cfg(unix)]
pub use unix::{private, stamps};
#[cfg(windows)]
pub use windows::{private, stamps};

/// A port that is this process's alone.
#[cfg(unix)]
pub use unix::port;
#[cfg(windows)]
pub use windows::port;
