//! The certificates that programs have to trust where there are secrets: the usual ones, those of the operator, and that
//! of the authority for hosts that secrets are for. They are one file in every container, since the variables that name
//! it replace what programs trusted before.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use thiserror::Error;

/// Where the file is in every container.
pub const PATH: &str = "/.sandbox-ca.pem";
/// The variables by which clients find it. Some read them only when they start, so every interpreter has them.
pub const VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "DENO_CERT",
];
/// Characters of a line (RFC 7468, 2).
const LINE: usize = 64;

/// Why a file of certificates is not usable.
#[derive(Debug, Error)]
#[error("NETWORK_CA_BUNDLE={path} is not usable: {reason}")]
pub struct CertificatesError {
    path: String,
    reason: String,
}

/// The certificates of `NETWORK_CA_BUNDLE`; none without it.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn of_operator(path: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let unusable = |reason: String| CertificatesError {
        path: path.display().to_string(),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| unusable(error.to_string()))?;
    if found.is_empty() {
        return Err(unusable("it has no certificate (PEM)".to_owned()));
    }
    Ok(found)
}

/// The text of the file: the usual certificates, `more`, and that of the authority.
pub fn bundle(more: &[CertificateDer<'_>], authority: &str) -> String {
    let usual = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let all = usual.chain(more).map(pem);
    all.chain([authority.to_owned()]).collect()
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let digits = STANDARD.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for start in (0..digits.len()).step_by(LINE) {
        let end = digits.len().min(start + LINE);
        text.push_str(&digits[start..end]);
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate(key: &KeyPair) -> rcgen::Certificate {
        CertificateParams::default().self_signed(key).unwrap()
    }

    #[test]
    fn the_file_has_the_usual_certificates_those_of_the_operator_and_that_of_the_authority() {
        let key = KeyPair::generate().unwrap();
        let (own, authority) = (certificate(&key), certificate(&key));
        let file = tempfile::NamedTempFile::new().unwrap();
        // Nothing but certificates is taken from there.
        std::fs::write(file.path(), key.serialize_pem() + &own.pem()).unwrap();
        let more = of_operator(Some(file.path())).unwrap();
        assert_eq!(more, [own.der().clone()]);
        let bundle = bundle(&more, &authority.pem());
        assert!(!bundle.contains("PRIVATE KEY"));
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect();
        let all = all.unwrap();
        let usual = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        assert_eq!(all[..usual.len()], *usual);
        assert_eq!(
            all[usual.len()..],
            [own.der().clone(), authority.der().clone()]
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = |path: &Path| {
            let error = of_operator(Some(path)).unwrap_err().to_string();
            error.replace(&path.display().to_string(), "…")
        };
        insta::assert_snapshot!(told(file.path()), @"NETWORK_CA_BUNDLE=… is not usable: it has no certificate (PEM)");
        insta::assert_snapshot!(told(Path::new("/nowhere")), @"NETWORK_CA_BUNDLE=… is not usable: No such file or directory (os error 2)");
    }
}
