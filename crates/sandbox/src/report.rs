//! How a run ended: exit, limit, denials, what was left; as text, JSON and an exit status.
