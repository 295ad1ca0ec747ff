//! The secrets that programs may use, as the settings say, and what programs trust for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::App;
use super::instance::Instance;
use crate::access::Access;
use crate::config::Config;
use crate::egress::{Authority, Interception};
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

/// What is between programs and the hosts that secrets are for.
pub(super) struct SecretHosts {
    pub(super) interception: Arc<Interception>,
    /// The name of the file of certificates that programs trust.
    pub(super) certificates: String,
}

impl SecretHosts {
    /// Makes an authority for the hosts of all secrets, and puts its certificate where containers see it. There is none
    /// without secrets.
    ///
    /// # Errors
    /// The file of the operator's certificates is not usable, or nothing can be written.
    pub(super) fn install(
        config: &Config,
        instance: &Instance,
        secrets: &Secrets,
    ) -> anyhow::Result<Option<Self>> {
        if !secrets.is_some() {
            return Ok(None);
        }
        let hosts: BTreeSet<_> = secrets.hosts().collect();
        let authority = Authority::new(hosts)?;
        let more = certificates::of_operator(config.network.ca_bundle.as_deref())?;
        let interception = Interception::new(authority, &more)?;
        let bundle = certificates::bundle(&more, interception.pem());
        Ok(Some(Self {
            interception: Arc::new(interception),
            certificates: instance.install_certificates(&bundle)?,
        }))
    }
}
