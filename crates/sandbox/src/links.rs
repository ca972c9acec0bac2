//! Links in a workspace that lead out of it: the scan before or beside a run, and what it found.
