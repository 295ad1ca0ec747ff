//! `POST /files`: files of a form, or one as the body.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::multipart::Multipart;
use axum::extract::{Extension, FromRequest as _, Query, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use futures::{Stream, TryStreamExt as _};
use http_body_util::Limited;
use serde_json::{Value, json};

use super::files::Named;
use super::paths;
use super::sandboxes::Sandbox;
use crate::api::code::Code;
use crate::audit::Origin;
use crate::body::declared;
use crate::conversations::Incoming;
use crate::files::FilesError;
use crate::http::HttpState;
use crate::http::rest::{ApiError, FromCaller};
use crate::workspace::Existing;

/// Most files of one form.
const MAX_FILES: usize = 200;
/// Room in a form for everything except its files.
const MARGIN: u64 = 1 << 20;

pub(super) async fn store(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let target = Target {
        state: &state,
        origin: &origin,
        sandbox: &sandbox,
    };
    if header(request.headers(), CONTENT_ENCODING.as_str()).is_some_and(|it| it != "identity") {
        let message = "the body is compressed: send it as it is, without gzip";
        return Err(ApiError::new(Code::UnsupportedMediaType, message));
    }
    let kind = header(request.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
    if kind.starts_with("multipart/form-data") {
        return target.form(named.path.as_deref(), request).await;
    }
    let length = declared(request.headers());
    let body = request.into_body().into_data_stream();
    let body = body.map_err(|_| FilesError::Interrupted);
    let stored = target.one(named.path()?, length, body).await?;
    Ok(Json(json!([stored])))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Where files are put, and by whom.
struct Target<'a> {
    state: &'a HttpState,
    origin: &'a Origin,
    sandbox: &'a Sandbox,
}

impl Target<'_> {
    /// Stores what is in a form: under `path`, or each part under its own file name.
    async fn form(&self, path: Option<&str>, request: Request) -> Result<Json<Value>, ApiError> {
        let limit = self.state.0.services.files.max_upload_bytes;
        let limit = usize::try_from(limit.saturating_add(MARGIN)).unwrap_or(usize::MAX);
        let request = request.map(|body| Body::new(Limited::new(body, limit)));
        let mut form = Multipart::from_request(request, &()).await.map_err(|_| {
            let message = "the body must be a form: send multipart/form-data with a boundary";
            ApiError::new(Code::UnsupportedMediaType, message)
        })?;
        let mut stored = Vec::new();
        let all = async {
            while let Some(part) = (form.next_field().await).map_err(|_| FilesError::Interrupted)? {
                let name = part.file_name().map(str::to_owned);
                if stored.len() == MAX_FILES || (path.is_some() && !stored.is_empty()) {
                    let message = format!("the form has more files than it may: {}", stored.len());
                    return Err(ApiError::arguments(message));
                }
                let missing =
                    || ApiError::arguments("a part of the form has no file name: give it its path");
                let name = path.map(str::to_owned).or(name).ok_or_else(missing)?;
                let body = part.map_err(|_| FilesError::Interrupted);
                stored.push(self.one(&name, None, body).await?);
            }
            Ok::<_, ApiError>(())
        };
        let done = tokio::time::timeout(self.state.0.config.patience.body, all).await;
        done.map_err(|_| ApiError::from(FilesError::TooSlow))??;
        if stored.is_empty() {
            let message =
                "the form has no file: send a part named file, with its path as file name";
            return Err(ApiError::arguments(message));
        }
        Ok(Json(stored.into()))
    }

    /// Stores one file, and says which.
    async fn one(
        &self,
        path: &str,
        declared: Option<u64>,
        body: impl Stream<Item = Result<Bytes, FilesError>>,
    ) -> Result<Value, ApiError> {
        let path = paths::inside(path)?;
        let incoming = Incoming {
            declared,
            patience: self.state.0.config.patience.body,
            body,
        };
        let (conversation, name) = (&self.sandbox.conversation, path.as_str());
        let conversations = &self.state.0.services.conversations;
        let stored =
            conversations.receive(self.origin, conversation, name, Existing::Replace, incoming);
        stored.await.map_err(paths::from_files)?;
        Ok(json!({ "name": path.file_name(), "type": "file", "path": paths::shown(name) }))
    }
}
