//! Why a cluster did not do what it was asked to, in words for its operator.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::executor::outage::chain;
use crate::executor::{ErrorKind, ExecutorError};

/// What a request to create a pod is answered with when its namespace has used up what it may have.
const OVER_QUOTA: &str = "exceeded quota";
/// What a request is answered with when something behind the API server is away, such as the cluster's store: as forbidden
/// where that could not be looked up, as a failure where it could not be kept.
const AWAY: &str = "rpc error: code = Unavailable";

/// Why a cluster did not do what it was asked to.
#[derive(Debug, Error)]
pub(super) enum ClusterError {
    /// There is no way to it.
    #[error("{0}")]
    Unconfigured(String),
    /// Nothing listens at its address.
    #[error(
        "connection refused, nothing listens at the address of the API server: is the cluster up, and is KUBECONFIG that \
         of this cluster?"
    )]
    Absent,
    /// It did not answer in time.
    #[error("the API server did not answer within {} s", .0.as_secs())]
    Slow(Duration),
    /// It could not be asked.
    #[error("the API server could not be asked: {0}")]
    Lost(String),
    /// It could be asked, and something that it needs could not.
    #[error("the API server could not reach what it needs: {0}")]
    Away(String),
    /// It does not know who asks, or does not let it.
    #[error(
        "the API server does not allow it: {0}. The Role of the server is in docs/kubernetes.md"
    )]
    Forbidden(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// There is such a thing already.
    #[error("{0}")]
    Conflict(String),
    /// The namespace has used up what it may have.
    #[error("{0}")]
    OverQuota(String),
    /// It has too much to do.
    #[error("the API server is too busy: {0}")]
    Busy(String),
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// It failed, or a node that it asked did.
    #[error("{0}")]
    Failed(String),
}

impl ClusterError {
    /// The answer to a request, which may take so long.
    pub(super) async fn within<T>(
        limit: Duration,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Self> {
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer.map_err(Self::from),
            Err(_) => Err(Self::Slow(limit)),
        }
    }

    /// What callers may act on.
    const fn kind(&self) -> ErrorKind {
        match self {
            Self::Absent => ErrorKind::Absent,
            Self::Slow(_) | Self::Lost(_) | Self::Away(_) | Self::Busy(_) => ErrorKind::Unavailable,
            Self::Unconfigured(_) | Self::Forbidden(_) => ErrorKind::Unusable,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::OverQuota(_) => ErrorKind::Full,
            Self::Refused(_) | Self::Failed(_) => ErrorKind::Refused,
        }
    }

    /// As the failure of an operation.
    pub(super) fn during(self, operation: &'static str) -> ExecutorError {
        ExecutorError {
            kind: self.kind(),
            operation,
            source: self.into(),
        }
    }
}

impl From<kube::Error> for ClusterError {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            let message = if status.message.is_empty() {
                format!("it answered {}", status.code)
            } else {
                status.message.clone()
            };
            return match status.code {
                401 => Self::Forbidden(message),
                403 if message.contains(OVER_QUOTA) => Self::OverQuota(message),
                403 | 500.. if message.contains(AWAY) => Self::Away(message),
                // Also of pods that PodSecurity refuses.
                403 => Self::Forbidden(message),
                404 => Self::NotFound(message),
                409 => Self::Conflict(message),
                429 => Self::Busy(message),
                500.. => Self::Failed(message),
                _ => Self::Refused(message),
            };
        }
        let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
            error.source()
        });
        let refused = causes.any(|cause| {
            let cause = cause.downcast_ref::<io::Error>();
            cause.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        if refused {
            return Self::Absent;
        }
        match &error {
            kube::Error::Auth(_) | kube::Error::RustlsTls(_) | kube::Error::InferKubeconfig(_) => {
                Self::Unconfigured(chain(&error))
            }
            _ => Self::Lost(chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let kind = |code: u16, message: &str| {
            let status = Status {
                code,
                message: message.to_owned(),
                ..Default::default()
            };
            let error =
                ClusterError::from(kube::Error::Api(Box::new(status))).during("create a container");
            (error.kind, chain(&error))
        };
        let quota = "pods \"sbx-1\" is forbidden: exceeded quota: sandboxes, requested: pods=1";
        let (full, said) = kind(403, quota);
        assert_eq!(full, ErrorKind::Full);
        assert_eq!(said, format!("failed to create a container: {quota}"));
        assert_eq!(kind(403, "violates PodSecurity").0, ErrorKind::Unusable);
        let away = "pods \"sbx-1\" is forbidden: rpc error: code = Unavailable desc = transport is closing";
        assert_eq!(kind(403, away).0, ErrorKind::Unavailable);
        let away = "rpc error: code = Unavailable desc = transport is closing";
        assert_eq!(kind(500, away).0, ErrorKind::Unavailable);
        assert_eq!(kind(404, "pods \"sbx-1\" not found").0, ErrorKind::NotFound);
        assert_eq!(kind(429, "").0, ErrorKind::Unavailable);
        assert_eq!(
            kind(500, "etcdserver: request timed out").0,
            ErrorKind::Refused
        );
    }
}
