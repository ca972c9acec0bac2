//! The system-call filter: a table of data with a reason a line, and the program made from it.
