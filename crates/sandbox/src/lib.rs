//! A command confined: policy, plan, launch, report, and the self-test of the eight properties.
//!
//! The flow is one line: [`policy`] (what is meant) → a backend's plan (all that will be done, as data) →
//! launch (done) → [`report`] (how it ended). Only `sys` holds unsafe code; only `sys` and `backend` know
//! which system this is.
#![deny(unsafe_code)]

pub mod backend;
pub mod environ;
pub mod limits;
pub mod links;
pub mod policy;
pub mod private;
pub mod protected;
pub mod relay;
pub mod report;
mod resolve;
pub mod run;
pub mod selftest;
pub mod text;

#[allow(unsafe_code)]
mod sys;
