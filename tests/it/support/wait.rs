//! Waiting for what happens outside the test's own process.

use std::time::Duration;

/// Pauses get longer, since asking may start a program.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Asks again and again until there is an answer, and fails if there is none in time.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let answer = async {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    let in_time = tokio::time::timeout(limit, answer).await;
    in_time.unwrap_or_else(|_| panic!("did not happen within {limit:?}: {what}"))
}
