//! The cgroup of a run: memory, tasks and CPU of all its processes together, on version 2 or 1.
