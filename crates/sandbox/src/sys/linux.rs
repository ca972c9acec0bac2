//! Linux calls that no library gives safely: one call a block, owned results.

pub mod attempt;
pub mod filter;
#[cfg(test)]
pub mod forked;
pub mod lease;
pub mod network;
pub mod process;
pub mod second;
pub mod signals;
pub mod tree;
pub mod visit;
