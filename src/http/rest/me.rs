//! `GET /api/v1/me`: whom the server takes the caller for, so that people see that before they begin.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::Failures;
use crate::admin::Limits;
use crate::http::HttpState;
use crate::http::entrance::{Entrance, Way};
use crate::scope::Scopes;

/// Whom the server takes the caller for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Me {
    /// To whom the conversations of the caller belong.
    #[schema(example = "research")]
    tenant: String,
    /// By what the caller is known.
    by: Way,
    /// The name of the token, or what the issuer calls its holder; null for `MCP_API_TOKEN`.
    name: Option<String>,
    /// When what came with the request expires; null: it does not.
    #[schema(example = "2027-01-01T00:00:00Z")]
    expires_at: Option<String>,
    /// What it lets the caller do.
    #[schema(value_type = Vec<String>, example = json!(["run", "files"]))]
    scopes: Scopes,
    /// What the tenant may have of the server.
    limits: Limits,
}

/// Who the caller is
///
/// The tenant, how the caller is known, until when, what the token lets them do, and what the tenant may have.
#[utoipa::path(
    get, path = "/api/v1/me", tag = "server", operation_id = "me",
    responses((status = 200, description = "Whom the server takes the caller for", body = Me), Failures)
)]
pub(super) async fn show(
    State(state): State<HttpState>,
    Extension(entrance): Extension<Entrance>,
) -> Json<Me> {
    let tenant = entrance.caller.tenant();
    Json(Me {
        tenant: tenant.name().to_owned(),
        by: entrance.way,
        name: entrance.name,
        expires_at: entrance.expires.map(|at| at.to_string()),
        scopes: entrance.rights.scopes(),
        limits: (&*state.0.access.limits(tenant)).into(),
    })
}
