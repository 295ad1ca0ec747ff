//! The secrets that programs may use, as the settings say, and what programs trust for them.

use super::App;
use super::instance::Instance;
use crate::access::Access;
use crate::config::Config;
use crate::gate::network::{NetworkPolicy, Reach};
use crate::secrets::{Secrets, SecretsFileError, certificates};

impl App {
    /// The secrets that programs may use.
    ///
    /// # Errors
    /// The file of secrets is not usable, or one is for a host that nobody reaches who may use it.
    pub fn secrets(config: &Config, access: &Access) -> Result<Secrets, SecretsFileError> {
        let secrets = Secrets::open(config.network.secrets_file.clone())?;
        let network = NetworkPolicy::new(&config.network);
        secrets.check_hosts(
            |tenant| match network.reach(&access.limits(tenant).network) {
                Reach::Listed(list) => Some(list),
                Reach::Nothing | Reach::Internet => None,
            },
        )?;
        Ok(secrets)
    }
}

/// Puts the file of certificates where containers see it, and returns its name: there is none without secrets.
/// `authority` is the certificate of the authority for hosts that secrets are for (PEM).
///
/// # Errors
/// The file of the operator's certificates is not usable, or nothing can be written.
pub(super) fn install_certificates(
    config: &Config,
    instance: &Instance,
    secrets: &Secrets,
    authority: &str,
) -> anyhow::Result<Option<String>> {
    if !secrets.is_some() {
        return Ok(None);
    }
    let more = certificates::of_operator(config.network.ca_bundle.as_deref())?;
    let bundle = certificates::bundle(&more, authority);
    Ok(Some(instance.install_certificates(&bundle)?))
}
