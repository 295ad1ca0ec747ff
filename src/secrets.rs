//! Secrets that programs can use and not read: which there are, who may use them, and for which requests.
//!
//! A program has a placeholder in its environment. [`crate::egress`] puts the secret in its place, in requests that its
//! rules are for, and knows nothing else of secrets than [`BoundSecret`].

mod bound;

pub use self::bound::{BoundSecret, PathPattern, PathPatternError};
