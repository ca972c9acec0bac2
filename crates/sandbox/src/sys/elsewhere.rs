//! Systems without tier 1. There is no unsafe code for them.

pub mod attempt;
