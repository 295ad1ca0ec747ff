//! Tools under the names, arguments and answers of other servers, for clients that were made for those.
//!
//! They are adapters: each translates its arguments, calls the use case that a tool of ours calls, and translates
//! what came of it.

pub(crate) mod python;
