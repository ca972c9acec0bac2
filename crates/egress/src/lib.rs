//! The egress proxy of a run.
#![deny(unsafe_code)]
