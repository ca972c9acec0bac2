//! What the agent needs of a system beyond the standard library: the only place above the sandbox that asks which
//! system this is. A job object for what runs at tier 0 on Windows belongs here too, and is not here yet.

#[cfg(target_os = "linux")]
mod group;
#[cfg(not(target_os = "linux"))]
mod no_group;
#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
pub use group::Group;
#[cfg(not(target_os = "linux"))]
pub use no_group::Group;

#[cfg(not(unix))]
pub use other::*;
#[cfg(unix)]
pub use unix::*;
