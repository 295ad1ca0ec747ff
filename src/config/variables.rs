//! The one table of environment variables: name, default, meaning.

use std::sync::LazyLock;

use super::variable::Variable;

mod engine;
mod http;
mod kubernetes;
mod logs;
mod network;
mod packages;
mod runs;
mod storage;

/// Every variable that the server reads, in the order in which the documents list them.
pub static VARIABLES: LazyLock<Vec<Variable>> = LazyLock::new(|| {
    [
        http::HTTP,
        storage::STORAGE,
        engine::ENGINE,
        network::NETWORK,
        kubernetes::KUBERNETES,
        runs::RUNS,
        packages::PACKAGES,
        logs::LOGS,
    ]
    .concat()
});
