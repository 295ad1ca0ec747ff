//! Installs one package for the programs of a caller.

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::PYTHON;
use crate::api::error::CallError;
use crate::api::names::{INSTALL, argument};
use crate::audit::Origin;
use crate::packages::{Asked, InstallRequest, Installed, PackagesError};
use crate::services::Services;

/// What came of it.
#[derive(Debug, Serialize, JsonSchema, ToSchema)]
pub(crate) struct PipInstalled {
    /// Whether programs can import it now.
    success: bool,
    /// What happened, in a sentence.
    message: String,
    /// The version that is there; null when there is none.
    installed_version: Option<String>,
    /// Seconds that it took.
    installation_time: f64,
    /// Why nothing was installed, in a word; missing on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

/// Installs a package. A package that cannot be had is a result; errors are for faults of the call and for trouble of
/// the server.
pub(crate) async fn install(
    services: &Services,
    origin: &Origin,
    name: String,
    version: Option<String>,
    cancel: &CancellationToken,
) -> Result<PipInstalled, CallError> {
    let started = Instant::now();
    let request = InstallRequest {
        conversation: super::conversation(&services.files, &origin.caller)?,
        language: PYTHON.to_owned(),
        packages: vec![Asked {
            name: name.clone(),
            version,
        }],
        remove: Vec::new(),
    };
    match services.packages.install(origin, &request, cancel).await {
        Ok(installed) => Ok(PipInstalled::done(installed, &name)),
        Err(error) if is_result(&error) => {
            let CallError { code, message, .. } = error.into();
            Ok(PipInstalled {
                success: false,
                message,
                installed_version: None,
                installation_time: started.elapsed().as_secs_f64(),
                code: Some(code.into_str()),
            })
        }
        Err(error) => Err(CallError::from(error).naming(|about| argument(INSTALL, about))),
    }
}

impl PipInstalled {
    fn done(installed: Installed, name: &str) -> Self {
        // Extras are not part of a package's name.
        let name = name
            .trim()
            .split(['[', '=', '<', '>', '~', '!', ' '])
            .next();
        Self {
            installed_version: installed
                .version_of(name.unwrap_or_default())
                .map(str::to_owned),
            success: true,
            message: installed.message,
            installation_time: installed.duration.as_secs_f64(),
            code: None,
        }
    }
}

/// Whether the error is about the package and not about the call.
fn is_result(error: &PackagesError) -> bool {
    matches!(
        error,
        PackagesError::Blocked { .. }
            | PackagesError::NotFound(_)
            | PackagesError::Incompatible(_)
            | PackagesError::TooLarge(_)
            | PackagesError::Offline(_)
            | PackagesError::TimedOut(_)
    )
}
