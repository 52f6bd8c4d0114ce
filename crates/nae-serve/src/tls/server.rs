//! The service's own certificate. Its files are read repeatedly, so that a renewed one is used without a restart. If
//! one cannot be used, the current one stays in use, and the error is logged once. If one expires soon, that is logged
//! every day.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use ring::digest::{SHA256, digest};
use rumqttc::tokio_rustls::TlsAcceptor;
use rumqttc::tokio_rustls::rustls::ServerConfig;
use rumqttc::tokio_rustls::rustls::crypto::ring::default_provider;
use rumqttc::tokio_rustls::rustls::pki_types::PrivateKeyDer;
use rumqttc::tokio_rustls::rustls::pki_types::pem::PemObject as _;
use rumqttc::tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use rumqttc::tokio_rustls::rustls::sign::CertifiedKey;
use tokio::time::MissedTickBehavior;

use super::validity::{Holds, Said, Validity};
use super::{certificates, read};

/// How often the files are checked. A change is applied when two successive checks find the same content.
const LOOK: Duration = Duration::from_secs(1);

/// The paths of certificate and key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CertificateFiles {
    /// The certificate, with intermediate certificates.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The digests of both files' content, or the reason why one cannot be read.
type Seen = Result<[Vec<u8>; 2], String>;

impl CertificateFiles {
    /// Reads the files and checks that they belong together. An expired certificate is accepted: clients report that,
    /// and it is better than no page.
    ///
    /// # Errors
    /// The file that is wrong, and what is wrong with it.
    pub(crate) fn open(&self) -> Result<CertifiedKey, String> {
        self.certified(&self.read()?)
    }

    fn read(&self) -> Result<[Vec<u8>; 2], String> {
        Ok([read(&self.certificate)?, read(&self.key)?])
    }

    fn certified(&self, [certificate, key]: &[Vec<u8>; 2]) -> Result<CertifiedKey, String> {
        let chain = certificates(&self.certificate, certificate)?;
        let private = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("{}: expected a private key in PEM: {error}", self.key.display()))?;
        CertifiedKey::from_der(chain, private, &default_provider()).map_err(|error| {
            let (key, certificate) = (self.key.display(), self.certificate.display());
            format!("{key} is not the key of the first certificate in {certificate}, or of a kind that is not known: {error}")
        })
    }
}

/// The certificate for new connections.
#[derive(Debug)]
pub(crate) struct OwnCertificate {
    in_use: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.in_use.load_full())
    }
}

/// The metrics of the certificate.
pub(crate) struct CertificateFigures {
    /// 1 while the files cannot be used.
    pub(crate) refused: Gauge,
    /// When the certificate expires, in seconds of Unix time.
    pub(crate) expires: Gauge<f64, AtomicU64>,
}

impl OwnCertificate {
    /// Opens the files, and applies later changes of them. Must be called within a runtime.
    ///
    /// # Errors
    /// The file that is wrong, and what is wrong with it.
    pub(crate) fn watch(files: CertificateFiles, figures: CertificateFigures) -> Result<TlsAcceptor, String> {
        let (mut renewal, certified) = Renewal::open(files)?;
        let own = Arc::new(Self { in_use: ArcSwap::from_pointee(certified) });
        // The provider is given explicitly: otherwise, rustls panics if a second provider is linked.
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&own) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (mut said, file) = (Said::default(), renewal.files.certificate.clone());
        figures.expires.set(own.end());
        own.say_how_long(&mut said, &file);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(LOOK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let looked = tokio::task::spawn_blocking(move || {
                    let found = renewal.look();
                    (renewal, found)
                });
                // The task does not panic, and only ends with the process.
                let Ok((same, found)) = looked.await else { return };
                renewal = same;
                own.take(found, &figures);
                own.say_how_long(&mut said, &file);
            }
        });
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn take(&self, found: Option<Result<CertifiedKey, String>>, figures: &CertificateFigures) {
        match found {
            None => {}
            Some(Ok(certified)) => {
                self.in_use.store(Arc::new(certified));
                // Set before logging: whoever reads the log may check the metrics next.
                figures.refused.set(0);
                figures.expires.set(self.end());
                tracing::info!("the certificate was read again and is in use");
            }
            Some(Err(error)) => {
                figures.refused.set(1);
                tracing::error!(%error, "the certificate cannot be used; the one before stays in use until its files change");
            }
        }
    }

    fn validity(&self) -> Option<Validity> {
        Validity::of_chain(&self.in_use.load().cert)
    }

    /// When the current certificate expires, in seconds of Unix time.
    fn end(&self) -> f64 {
        self.validity().map_or(f64::NAN, |validity| validity.end.as_second() as f64)
    }

    /// Logs that the certificate expires soon: once clients refuse it, users cannot reach the page any more.
    fn say_how_long(&self, said: &mut Said, file: &Path) {
        let now = Timestamp::now();
        let Some((Validity { begin, end }, news)) =
            self.validity().and_then(|validity| Some((validity, said.news(validity.holds(now), now)?)))
        else {
            return;
        };
        let file = file.display();
        match news {
            Holds::Yes => tracing::info!(expires = %end, "the certificate holds"),
            Holds::NotYet => {
                tracing::error!(%file, begins = %begin, "the certificate does not hold yet: clients refuse it")
            }
            Holds::NotForLong => tracing::warn!(%file, expires = %end, "the certificate expires soon: renew it"),
            Holds::NoMore => tracing::error!(%file, expired = %end, "the certificate has expired: clients refuse it"),
        }
    }
}

/// Checks whether the files have changed.
struct Renewal {
    files: CertificateFiles,
    /// The digests at the last check.
    seen: Seen,
    /// The digests that were accepted or refused.
    known: Seen,
}

impl Renewal {
    /// Starts with the certificate to use first.
    fn open(files: CertificateFiles) -> Result<(Self, CertifiedKey), String> {
        let both = files.read()?;
        let certified = files.certified(&both)?;
        let seen: Seen = Ok(digests(&both));
        Ok((Self { files, seen: seen.clone(), known: seen }, certified))
    }

    /// The new certificate, once for each change. The files are written one after the other: content counts only if the
    /// previous check also found it.
    fn look(&mut self) -> Option<Result<CertifiedKey, String>> {
        let found = self.files.read();
        let seen = found.as_ref().map(digests).map_err(String::clone);
        if seen != self.seen {
            self.seen = seen;
            return None;
        }
        if seen == self.known {
            return None;
        }
        self.known = seen;
        Some(found.and_then(|both| self.files.certified(&both)))
    }
}

fn digests(both: &[Vec<u8>; 2]) -> [Vec<u8>; 2] {
    both.each_ref().map(|bytes| digest(&SHA256, bytes).as_ref().to_vec())
}
