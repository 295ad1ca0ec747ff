//! A cluster of Kubernetes, through its API: each container is a Pod. The only module that talks to a cluster.

pub mod pod;

pub use self::pod::PodSetup;
