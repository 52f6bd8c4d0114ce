//! Tests whether a running service, for example in a container, is ready. What that means is in `http`, at the address
//! `/readyz`.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

/// The timeout of the request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Flags of `nae-infer health`.
#[derive(Args, Clone, Debug)]
pub struct Health {
    /// Where the service listens
    #[arg(default_value = "http://127.0.0.1:8080")]
    url: String,
}

impl Health {
    /// Requests whether the service is ready.
    ///
    /// # Errors
    /// If it cannot be reached within five seconds, or is not ready; the error contains the reason.
    pub fn ask(&self) -> anyhow::Result<()> {
        let scheme = if self.url.contains("://") { "" } else { "http://" };
        let url = format!("{scheme}{}/readyz", self.url.trim_end_matches('/'));
        // Its certificate need not contain the address at which it listens; and the request contains nothing secret.
        let tls = ureq::tls::TlsConfig::builder().disable_verification(true).build();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .tls_config(tls)
            // The service is near; a proxy of the environment would be asked about its own near.
            .proxy(None)
            .build();
        let mut response = ureq::Agent::from(config).get(&url).call().with_context(|| url.clone())?;
        if !response.status().is_success() {
            let reason = response.body_mut().with_config().limit(4096).read_to_string().unwrap_or_default();
            bail!("{url}: {}: {}", response.status(), reason.trim());
        }
        Ok(())
    }
}
