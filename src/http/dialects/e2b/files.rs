//! `GET /files`: the bytes of a file.

use std::sync::Arc;

use axum::extract::{Extension, Query, Request, State};
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;

use super::paths;
use super::sandboxes::Sandbox;
use crate::api::code::Code;
use crate::http::HttpState;
use crate::http::files::{DOWNLOADS_AGAIN, FilePart, Unsent, found};
use crate::http::rest::ApiError;

/// Which file.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    pub(super) path: Option<String>,
}

impl Named {
    /// The path, where there has to be one.
    pub(super) fn path(&self) -> Result<&str, ApiError> {
        let missing = || ApiError::arguments("the query has no path: name the file in it");
        self.path.as_deref().ok_or_else(missing)
    }
}

pub(super) async fn download(
    State(state): State<HttpState>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Response, ApiError> {
    let path = paths::inside(named.path()?)?;
    let files = &state.0.services.files;
    let opened = files.open(&sandbox.conversation, path.as_str()).await;
    let (_, open) = opened.map_err(paths::from_files)?;
    let part = FilePart {
        is_head: request.method() == Method::HEAD,
        headers: request.headers(),
    };
    let response = found(&files.workspaces, part, path.file_name(), open);
    response.map_err(|unsent| match unsent {
        Unsent::Unmet => ApiError::new(Code::PreconditionFailed, "the file is not as demanded"),
        Unsent::Shorter(size) => ApiError::new(
            Code::RangeNotSatisfiable,
            format!("the range has none of the file's {size} bytes"),
        ),
        Unsent::Busy => ApiError::again(
            Code::Busy,
            "too many downloads: try again later".to_owned(),
            DOWNLOADS_AGAIN,
        ),
    })
}
