//! Waiting for what happens outside of the test's own process.

use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);

/// Asks again and again until there is an answer, and fails when there is none in time.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let answer = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let in_time = tokio::time::timeout(limit, answer).await;
    in_time.unwrap_or_else(|_| panic!("did not happen within {limit:?}: {what}"))
}
