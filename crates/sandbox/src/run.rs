//! One run from policy to report: the only place that strings the steps together.
