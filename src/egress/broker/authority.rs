//! The certificate authority for hosts that secrets are for. Its key is in memory alone and ends with the process; it can
//! sign for these hosts and for nothing else, so a program that trusts it gives nothing away.

use std::collections::BTreeMap;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use thiserror::Error;

use crate::allow_list::HostName;

/// The protocol that is spoken with programs and with hosts: requests of HTTP/2 are not looked at.
pub(super) const HTTP_1: &[u8] = b"http/1.1";

/// An authority for some hosts.
#[derive(Debug)]
pub struct Authority {
    pem: String,
    servers: BTreeMap<HostName, Arc<ServerConfig>>,
}

/// Why there is no authority.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// A certificate could not be made.
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS does not take it.
    #[error("failed to use a certificate")]
    Tls(#[from] rustls::Error),
}

impl Authority {
    /// Makes one for these hosts.
    ///
    /// # Errors
    /// [`AuthorityError`]; none is known to happen.
    pub fn new<'a>(hosts: impl IntoIterator<Item = &'a HostName>) -> Result<Self, AuthorityError> {
        let hosts: Vec<_> = hosts.into_iter().collect();
        let issuer = CertifiedIssuer::self_signed(root(&hosts), KeyPair::generate()?)?;
        let server = |name: &HostName| Ok((name.clone(), Arc::new(server(name, &issuer)?)));
        let servers: Result<_, AuthorityError> = hosts.into_iter().map(server).collect();
        Ok(Self {
            servers: servers?,
            pem: issuer.pem(),
        })
    }

    /// Its certificate, which programs have to trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// How TLS is spoken in the name of a host; `None` if it is not for it.
    pub(super) fn server(&self, name: &HostName) -> Option<Arc<ServerConfig>> {
        self.servers.get(name).cloned()
    }
}

fn root(hosts: &[&HostName]) -> CertificateParams {
    let mut root = CertificateParams::default();
    let name = "mcp-code-sandbox, for hosts with secrets";
    root.distinguished_name.push(DnType::CommonName, name);
    root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let subtree = |name: &&HostName| GeneralSubtree::DnsName(name.to_string());
    root.name_constraints = Some(NameConstraints {
        permitted_subtrees: hosts.iter().map(subtree).collect(),
        excluded_subtrees: Vec::new(),
    });
    root
}

fn server(
    name: &HostName,
    issuer: &CertifiedIssuer<'_, KeyPair>,
) -> Result<ServerConfig, AuthorityError> {
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new([name.to_string()])?;
    leaf.distinguished_name.push(DnType::CommonName, "a host");
    // Strict clients ask for both.
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let leaf = leaf.signed_by(&key, issuer)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)?;
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}
