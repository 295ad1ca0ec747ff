//! The REST interface of the operator, which `ADMIN_TOKEN` opens and nothing else: docs/admin.md. Without that setting
//! there are no such routes.

mod operator;
mod parameters;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use jiff::ToSpan as _;
use serde::Serialize;
use serde_json::{Value, json};

use self::operator::FromOperator;
use self::parameters::Parameters;
use super::HttpState;
use super::rest::{ApiError, Segments};
use crate::admin::{ConversationQuery, RunQuery, UsageQuery};
use crate::audit::Excerpt;
use crate::conversation::ConversationKey;
use crate::tally::today;

/// Days that are summed up unless a request says which.
const DAYS: i32 = 30;
/// Most lines of the audit log in one answer.
const MAX_LINES: usize = 1_000;

/// The routes, if there are any.
pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    if state.0.config.admin_token.is_none() {
        return Router::new();
    }
    let guard = from_fn_with_state(state.clone(), operator::require_token);
    Router::new()
        .route("/admin/v1/tenants", get(tenants))
        .route("/admin/v1/conversations", get(conversations))
        .route(
            "/admin/v1/conversations/{key}",
            get(conversation).delete(delete_conversation),
        )
        .route("/admin/v1/runs", get(runs))
        .route("/admin/v1/runs/{id}", delete(cancel))
        .route("/admin/v1/usage", get(usage))
        .route("/admin/v1/audit", get(audit))
        .route_layer(guard)
}

/// An answer that nobody keeps.
fn answer(value: &impl Serialize) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(value)).into_response()
}

async fn tenants(
    State(state): State<HttpState>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&["limit", "cursor"])?;
    let page = parameters.page()?;
    let tenants = state.0.services.admin.tenants(&page).await?;
    Ok(answer(&tenants))
}

async fn conversations(
    State(state): State<HttpState>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&["tenant", "sort", "limit", "cursor"])?;
    let query = ConversationQuery {
        tenant: parameters.tenant()?,
        sort: parameters.sort()?,
        page: parameters.page()?,
    };
    let conversations = state.0.services.admin.conversations(&query).await?;
    Ok(answer(&conversations))
}

async fn conversation(
    State(state): State<HttpState>,
    Segments(key): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&[])?;
    let conversation = state.0.services.admin.conversation(&parse(&key)?).await?;
    Ok(answer(&conversation))
}

async fn delete_conversation(
    State(state): State<HttpState>,
    FromOperator(operator): FromOperator,
    Segments(key): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&[])?;
    let key = parse(&key)?;
    state.0.services.admin.delete(&operator, &key).await?;
    Ok(answer(&json!({ "key": key.as_str(), "deleted": true })))
}

fn parse(key: &str) -> Result<ConversationKey, ApiError> {
    let flawed =
        |error| ApiError::arguments(format!("{error}: GET /admin/v1/conversations lists them"));
    key.parse().map_err(flawed)
}

async fn runs(
    State(state): State<HttpState>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&["tenant", "active", "limit", "cursor"])?;
    let query = RunQuery {
        tenant: parameters.tenant()?,
        is_active: parameters.flag("active")?,
        page: parameters.page()?,
    };
    Ok(answer(&state.0.services.admin.runs(&query)?))
}

async fn cancel(
    State(state): State<HttpState>,
    FromOperator(operator): FromOperator,
    Segments(id): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&["subject"])?;
    let admin = &state.0.services.admin;
    let run = admin.cancel(&operator, &id, parameters.text("subject"));
    Ok(answer(&run.await?))
}

async fn usage(
    State(state): State<HttpState>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&["from", "to", "tenant", "group"])?;
    let to = parameters.day("to")?.unwrap_or_else(today);
    let first = || to.saturating_sub((DAYS - 1).days());
    let from = parameters.day("from")?.unwrap_or_else(first);
    if from > to {
        return Err(ApiError::arguments(format!(
            "from is {from}, which is after to, {to}: give the earlier day as from"
        )));
    }
    let query = UsageQuery {
        from,
        to,
        tenant: parameters.tenant()?,
        group: parameters.grouping()?,
    };
    Ok(answer(&state.0.services.admin.usage(&query).await?))
}

async fn audit(
    State(state): State<HttpState>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.allow(&["after", "limit"])?;
    let after = parameters.number("after", u64::MAX)?;
    let limit = parameters.limit(MAX_LINES)?;
    let excerpt = state.0.services.admin.audit(after, limit).await?;
    let Excerpt {
        events,
        last,
        has_more,
    } = excerpt;
    let events = Value::Array(events);
    Ok(answer(
        &json!({ "events": events, "next": last, "more": has_more }),
    ))
}
