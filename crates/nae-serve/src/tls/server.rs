//! The service's own certificate. Its files are read again and again, so that a renewed one is taken without a restart; one that
//! cannot be used leaves that which is in use, and is said once. So is one that will not hold for long, every day.

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

/// How often the files are looked at. What has changed is taken when it is the same twice.
const LOOK: Duration = Duration::from_secs(1);

/// Where certificate and key are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CertificateFiles {
    /// With those between it and its authority.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// What both files hold, by a digest; or why one cannot be read.
type Seen = Result<[Vec<u8>; 2], String>;

impl CertificateFiles {
    /// Reads them and looks whether they belong together. One that has expired is taken: clients say so, and it is better than
    /// no page.
    ///
    /// # Errors
    /// Which file is wrong, and how.
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

/// The certificate that clients are shown from now on.
#[derive(Debug)]
pub(crate) struct OwnCertificate {
    in_use: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.in_use.load_full())
    }
}

/// What `/metrics` shows of it.
pub(crate) struct CertificateFigures {
    /// 1 while the files cannot be used.
    pub(crate) refused: Gauge,
    /// When it ends, in seconds of Unix time.
    pub(crate) expires: Gauge<f64, AtomicU64>,
}

impl OwnCertificate {
    /// Opens the files, and from then on takes what they become. Within a runtime.
    ///
    /// # Errors
    /// Which file is wrong, and how.
    pub(crate) fn watch(files: CertificateFiles, figures: CertificateFigures) -> Result<TlsAcceptor, String> {
        let (mut renewal, certified) = Renewal::open(files)?;
        let own = Arc::new(Self { in_use: ArcSwap::from_pointee(certified) });
        // By name: without one, rustls panics where a program has a second provider linked.
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
                // It does not panic, and is not ended before the process is.
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
                // Before it is said: who reads that looks at the figures next.
                figures.refused.set(0);
                figures.expires.set(self.end());
                tracing::info!("the certificate was read anew and is in use");
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

    /// When the one in use ends, in seconds of Unix time.
    fn end(&self) -> f64 {
        self.validity().map_or(f64::NAN, |validity| validity.end.as_second() as f64)
    }

    /// That clients are about to refuse it has to be known before they do: who looks on then sees nothing any more.
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

/// Looks whether files have changed.
struct Renewal {
    files: CertificateFiles,
    /// At the last look.
    seen: Seen,
    /// What was taken, or refused.
    known: Seen,
}

impl Renewal {
    /// With what is to be used at first.
    fn open(files: CertificateFiles) -> Result<(Self, CertifiedKey), String> {
        let both = files.read()?;
        let certified = files.certified(&both)?;
        let seen: Seen = Ok(digests(&both));
        Ok((Self { files, seen: seen.clone(), known: seen }, certified))
    }

    /// What the files have become, once for each change. They are written one after the other: what is in them counts when it was
    /// there at the look before, too.
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
