//! The line that the tests read of each image.

use firmware_example::Report;

/// Logs what follows from the score of image `index`, its energy with its bits.
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
