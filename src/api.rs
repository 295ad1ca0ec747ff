//! What both edges share: codes and errors, arguments as models write them, their schemas, and pictures.
//!
//! MCP and REST are siblings above it, and neither imports the other.

pub(crate) mod arguments;
pub(crate) mod code;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod names;
pub(crate) mod once;
pub(crate) mod outcome;
pub(crate) mod pictures;
pub(crate) mod python;
pub(crate) mod schema;
