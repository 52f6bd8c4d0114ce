//! Files of TLS, all PEM: what the service needs as a client of a broker (`client`), and its own certificate as a server
//! (`server`), which has a time in which it holds (`validity`). Not here: who connects, and how long that may take (`mqtt`, `http`).

mod client;
mod server;
mod validity;

use std::path::Path;

use rumqttc::tokio_rustls::rustls::pki_types::CertificateDer;
use rumqttc::tokio_rustls::rustls::pki_types::pem::PemObject;

pub(crate) use client::TlsFiles;
pub(crate) use server::{CertificateFigures, CertificateFiles, OwnCertificate};

/// The largest file read.
const MAX_FILE: u64 = 1 << 20;

fn read(path: &Path) -> Result<Vec<u8>, String> {
    nae_onnx::file::read(path, MAX_FILE).map_err(|error| error.to_string())
}

/// The certificates in a file, at least one. `path` is what errors call it.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{}: expected certificates in PEM, found none", path.display())),
        Err(error) => Err(format!("{}: expected certificates in PEM: {error}", path.display())),
    }
}
