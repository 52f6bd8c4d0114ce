//! Whether a service that runs elsewhere, in a container for instance, is ready. Not here: what makes it so (`scorer`).

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Flags of `nae-infer health`.
#[derive(Args, Clone, Debug)]
pub struct Health {
    /// Where the service listens
    #[arg(default_value = "http://127.0.0.1:8080")]
    url: String,
}

impl Health {
    /// Asks the service whether it is ready to score.
    ///
    /// # Errors
    /// It cannot be reached within five seconds, or says that it is not ready, and why.
    pub fn ask(&self) -> anyhow::Result<()> {
        let url = format!("{}/readyz", self.url.trim_end_matches('/'));
        // It is asked by the address at which it listens, which its certificate need not have; and nothing secret is sent.
        let tls = ureq::tls::TlsConfig::builder().disable_verification(true).build();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .tls_config(tls)
            .build();
        let mut response = ureq::Agent::from(config).get(&url).call().with_context(|| url.clone())?;
        if !response.status().is_success() {
            let reason = response.body_mut().with_config().limit(4096).read_to_string().unwrap_or_default();
            bail!("{url}: {}: {}", response.status(), reason.trim());
        }
        Ok(())
    }
}
