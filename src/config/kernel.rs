//! How many kernels there may be, and for how long.

use std::time::Duration;

use super::reader::Reader;

/// Interpreters that stay with their conversation.
#[derive(Clone, Copy, Debug)]
pub struct KernelConfig {
    /// Kernels in all; 0 means that no run can be stateful (`MAX_KERNELS`).
    pub max_kernels: usize,
    /// How long a kernel may go without a run before it ends (`KERNEL_TIMEOUT`).
    pub idle: Duration,
}

impl KernelConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            max_kernels: reader.count("MAX_KERNELS", 0),
            idle: reader.duration("KERNEL_TIMEOUT"),
        }
    }
}
