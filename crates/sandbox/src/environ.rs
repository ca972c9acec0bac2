//! The environment of a run, built from nothing.
