//! Management: tenants, nodes and their reports, and the words for what is found about them.
//!
//! [`intake`] takes enrolments and reports and keeps what matches. Pages, the doctor and the command line show what
//! `store` returns: [`crate::route::Node`] (`Store::nodes`, `Store::node`), [`crate::store::jobs::Job`]
//! (`Store::jobs`, `Store::job`), `Store::tier_history`, `Store::routing` and `Store::triggers`; the words are
//! `Node::tier_words`, `Node::fix`, `Because` and `Routing::waiting`. It hands out no work.

pub(crate) mod intake;
