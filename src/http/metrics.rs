//! `GET /metrics`: everything that is counted.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;

use super::HttpState;
use crate::metrics::MEDIA_TYPE;

/// All metrics, in the format of `OpenMetrics`.
pub(super) async fn show(State(state): State<HttpState>) -> impl IntoResponse {
    (
        [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")],
        state.0.services.status.render_metrics(),
    )
}
