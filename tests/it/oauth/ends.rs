//! What becomes of what callers began when their access tokens have expired.

use std::time::Duration;

use serde_json::json;

use super::{World, pong};
use crate::support::issuer::{now, signed};
use crate::support::wait::within;

/// A token that expires in this many seconds, which may be less than none: clocks may differ by a minute.
fn expiring_in(world: &World, subject: &str, seconds: i64) -> String {
    let mut claims = world.issuer.claims(subject);
    claims["exp"] = now().saturating_add_signed(seconds).into();
    signed(&claims)
}

#[tokio::test]
async fn a_run_goes_on_when_the_token_has_expired_that_began_it() {
    let world = World::new(&[("CALL_BUDGET", "100ms")]).await;
    let token = expiring_in(&world, "anna", -58);
    let program = json!({ "language": "shell", "code": "sleep 120" });
    let running = world.call(&token, "run_code", program).await;
    assert_eq!(running["status"], "running", "{running}");
    let has_expired = async || (world.ping(&token).await.0 == 401).then_some(());
    within(
        Duration::from_secs(20),
        "the token has expired",
        has_expired,
    )
    .await;
    // Its client gets another one with its next call.
    let next = expiring_in(&world, "anna", 300);
    assert_eq!(world.ping(&next).await, pong());
    let run = json!({ "runId": running["runId"], "waitSeconds": 0 });
    let running = world.call(&next, "get_run", run).await;
    assert_eq!(running["status"], "running", "{running}");
}
