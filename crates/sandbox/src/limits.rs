//! The limits of a run: one table of kinds, and the values a person may type instead.
//! Knows nothing of cgroups or job objects.
