//! Ways to make a sandbox, and the choice of this system's.

pub mod linux;
