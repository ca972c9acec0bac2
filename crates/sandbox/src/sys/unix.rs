//! What is the same on Linux and macOS. There is no unsafe code for it.

pub mod port;
pub mod private;
pub mod stamps;
