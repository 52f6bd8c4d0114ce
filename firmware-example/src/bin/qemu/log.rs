//! The line that the tests read for each image.

use firmware_example::Report;

/// Logs the results for image `index`, with the bits of its energy.
pub(crate) fn image(index: u32, report: &Report) {
    defmt::println!(
        "image {=u32} energy {=u32:08x} {=f32} p {} {} alarm {=bool} drift {}",
        index,
        report.score.energy.to_bits(),
        report.score.energy,
        report.score.p_value,
        report.verdict,
        report.alarm,
        report.drift,
    );
}
