//! The object around the answers of some operations, which clients of older servers look into.

use serde::Serialize;
use utoipa::ToSchema;

/// An answer with its result code.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<T> {
    /// Always 0: what fails has an HTTP status.
    result_code: u32,
    /// Always `success`.
    #[schema(example = "success")]
    result_msg: &'static str,
    data: T,
}

impl<T> Envelope<T> {
    pub(super) fn of(data: T) -> Self {
        Self {
            result_code: 0,
            result_msg: "success",
            data,
        }
    }
}
