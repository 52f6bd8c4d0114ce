//! `NAE_INSTRUCTIONS`: selects the vector instructions of the CPU engine, to measure the time of another processor.

use anyhow::Context as _;
use nae_simd::Instructions;

const VARIABLE: &str = "NAE_INSTRUCTIONS";

/// Selects the instructions that the environment requests, for this process.
pub(crate) fn choose() -> anyhow::Result<()> {
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let chosen = name.to_string_lossy().parse::<Instructions>().and_then(Instructions::choose_for_process);
    chosen.context(VARIABLE)
}
