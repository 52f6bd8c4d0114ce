//! The files for a TLS client: certificates of authorities, and its own certificate with its key, all PEM. They are
//! read for every connection, so that a replaced certificate is used without a restart.

use std::path::PathBuf;
use std::sync::Arc;

use rumqttc::tokio_rustls::rustls::crypto::ring;
use rumqttc::tokio_rustls::rustls::pki_types::PrivateKeyDer;
use rumqttc::tokio_rustls::rustls::pki_types::pem::PemObject;
use rumqttc::tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{certificates, read};

/// The paths of the files.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TlsFiles {
    /// The authorities that are trusted; `None` for those of the system.
    pub(crate) authorities: Option<PathBuf>,
    /// The certificate, with intermediate certificates, and the private key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// The file that is wrong, and what is wrong with it.
    pub(crate) fn read(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                for certificate in certificates(path, &read(path)?)? {
                    roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
                    return Err(format!("this system has no certificates of authorities{why}: give a file of them"));
                }
            }
        }
        // The provider is given explicitly: otherwise, rustls panics if a second provider is linked.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let Some((certificate, key)) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain = certificates(certificate, &read(certificate)?)?;
        let private = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| format!("{}: expected a private key in PEM: {error}", key.display()))?;
        builder.with_client_auth_cert(chain, private).map_err(|error| {
            format!("{} is not the key of the certificate {}: {error}", key.display(), certificate.display())
        })
    }
}
