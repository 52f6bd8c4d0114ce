//! `NAE_INSTRUCTIONS`: selects the vector instructions of the backend `simd`, to measure the time of another processor.

/// Selects the instructions that the environment requests, for this process.
#[cfg(feature = "simd")]
pub(crate) fn choose() -> anyhow::Result<()> {
    use anyhow::Context as _;
    use nae_simd::Instructions;

    const VARIABLE: &str = "NAE_INSTRUCTIONS";
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let chosen = name.to_string_lossy().parse::<Instructions>().and_then(Instructions::choose_for_process);
    chosen.context(VARIABLE)
}

/// Does nothing without the backend `simd`.
#[cfg(not(feature = "simd"))]
pub(crate) fn choose() -> anyhow::Result<()> {
    Ok(())
}
