//! `NAE_INSTRUCTIONS`: the vector instructions that the CPU engine is to run on, to time what another processor would do.

use anyhow::Context as _;
use nae_simd::Instructions;

const VARIABLE: &str = "NAE_INSTRUCTIONS";

/// Has this process run on the instructions that the environment asks for.
pub(crate) fn choose() -> anyhow::Result<()> {
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let chosen = name.to_string_lossy().parse::<Instructions>().and_then(Instructions::choose_for_process);
    chosen.context(VARIABLE)
}
