//! The names of variables in PID 1's environment that are for PID 1 itself.

/// Limits on each process, such as `nofile=4096,core=1`.
pub const LIMITS: &str = "SANDBOX_LIMITS";
/// Whether to leave the engine's network: `require` or `try`.
pub const NO_NETWORK: &str = "SANDBOX_NO_NETWORK";
