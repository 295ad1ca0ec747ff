//! `GET /api/v1/health`: whether there can be runs, and, for those who may know, how busy the server is.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{HttpState, bearer};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `healthy`, or `unavailable` when there can be no runs.
    #[schema(example = "healthy")]
    status: &'static str,
    /// Why there can be no runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The server's version.
    version: &'static str,
    /// Sessions that were used lately; null without the token, unless `HEALTH_COUNTS` is set.
    active_sessions: Option<usize>,
    /// Seconds since the start; null without the token, unless `HEALTH_COUNTS` is set.
    uptime: Option<f64>,
}

/// Whether there can be runs
///
/// Needs no token.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "server", operation_id = "health", security(()),
    responses(
        (status = 200, description = "There can be runs", body = Health),
        (status = 403, description = "The server does not answer for this Host or Origin", body = super::error::ErrorBody),
        (status = 503, description = "There can be no runs, and why", body = Health),
    )
)]
pub(super) async fn show(
    State(state): State<HttpState>,
    headers: HeaderMap,
) -> (StatusCode, Json<Health>) {
    let reason = state.0.services.status.problem();
    let (code, status) = match reason {
        None => (StatusCode::OK, "healthy"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    let known = state.0.config.health_counts || bearer::is_of_the_operator(&state, &headers);
    let health = Health {
        status,
        reason,
        version: env!("CARGO_PKG_VERSION"),
        active_sessions: known.then(|| state.0.sessions.count()),
        uptime: known.then(|| state.0.started.elapsed().as_secs_f64()),
    };
    (code, Json(health))
}
