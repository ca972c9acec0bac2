//! Bytes as text: names, hosts and paths that come from a run, made safe to print and exact to read back.
