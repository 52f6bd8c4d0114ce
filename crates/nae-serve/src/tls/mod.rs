//! Files of TLS, all PEM: for the service as a client of a broker (`client`), and its own certificate as a server
//! (`server`), with its period of validity (`validity`). Connections and their time limits are in `mqtt` and `http`.

mod client;
mod server;
mod validity;

use std::path::Path;

use rumqttc::tokio_rustls::rustls::pki_types::CertificateDer;
use rumqttc::tokio_rustls::rustls::pki_types::pem::PemObject;

pub(crate) use client::TlsFiles;
pub(crate) use server::{CertificateFigures, CertificateFiles, OwnCertificate};

/// The maximum size of a file, in bytes.
const MAX_FILE: u64 = 1 << 20;

fn read(path: &Path) -> Result<Vec<u8>, String> {
    nae_onnx::file::read(path, MAX_FILE).map_err(|error| error.to_string())
}

/// The certificates in a file, at least one. `path` is its name in errors.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{}: expected certificates in PEM, found none", path.display())),
        Err(error) => Err(format!("{}: expected certificates in PEM: {error}", path.display())),
    }
}
