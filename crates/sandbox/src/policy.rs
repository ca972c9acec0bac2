//! What a run may do, with no operating system in it.
