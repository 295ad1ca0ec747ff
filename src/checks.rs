//! Who finds out whether programs may run, and whether they may use the network: [`crate::gate`] keeps the answers.

pub mod network;
pub mod selftest;
