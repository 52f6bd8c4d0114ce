//! `NAE_INSTRUCTIONS`: the vector instructions that the backend `simd` is to run on, to time what another processor would
//! do.

/// Has this process run on the instructions that the environment asks for.
#[cfg(feature = "simd")]
pub(crate) fn choose() -> anyhow::Result<()> {
    use anyhow::Context as _;
    use nae_simd::Instructions;

    const VARIABLE: &str = "NAE_INSTRUCTIONS";
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let chosen = name.to_string_lossy().parse::<Instructions>().and_then(Instructions::choose_for_process);
    chosen.context(VARIABLE)
}

/// Without the backend `simd` there is nothing to choose.
#[cfg(not(feature = "simd"))]
pub(crate) fn choose() -> anyhow::Result<()> {
    Ok(())
}
