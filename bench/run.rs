//! What all benchmarks begin with.

/// Measures, if this is `cargo bench`: `cargo test --benches` only needs to know that it builds.
pub(crate) fn run(measure: impl Future<Output = ()>) {
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure);
}
