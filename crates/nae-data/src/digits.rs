//! The embedded default data set: 1,797 handwritten digits of 8×8 pixels, enlarged to 16×16.
//!
//! UCI "Optical Recognition of Handwritten Digits", test part (E. Alpaydin, C. Kaynak, 1998), CC BY 4.0; see
//! `SOURCE.txt`.

use std::io::Read as _;

use flate2::read::GzDecoder;
use nae_core::Shape;
use sha2::{Digest as _, Sha256};

use crate::digest::hex;
use crate::error::DataError;
use crate::image_set::ImageSet;
use nae_simd::Alignment;

const FILE: &[u8] = include_bytes!("../digits.csv.gz");
const SIDE: usize = 8;
/// The side of the enlarged images, in pixels.
pub(crate) const ENLARGED: usize = 16;

/// Returns all digits, 1×16×16, values in [0, 1]; the label is the digit.
///
/// # Errors
/// [`DataError`] if the embedded file is damaged.
pub(crate) fn load() -> Result<ImageSet, DataError> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(FILE).read_to_string(&mut text);
    unpacked.map_err(|error| DataError::new(format_args!("the embedded digits do not unpack: {error}")))?;
    parse(&text)
}

/// The SHA-256 of the embedded file, in hexadecimal; a model's metadata records it as the digest of its data.
pub(crate) fn sha256() -> String {
    hex(Sha256::new_with_prefix(FILE))
}

fn parse(text: &str) -> Result<ImageSet, DataError> {
    let wrong =
        |row| DataError::new(format_args!("row {row} of the digits is not 64 pixels of 0 to 16 and a label of 0 to 9"));
    let weights = Alignment::Corners.weights(SIDE, ENLARGED);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for (row, line) in text.lines().enumerate() {
        let numbers: Vec<u8> =
            line.split(',').map(|field| field.trim().parse().map_err(|_| wrong(row))).collect::<Result<_, _>>()?;
        let [pixels @ .., label] = numbers.as_slice() else { return Err(wrong(row)) };
        if pixels.len() != SIDE * SIDE || pixels.iter().any(|&p| p > 16) || *label > 9 {
            return Err(wrong(row));
        }
        values.extend(enlarge(pixels, &weights));
        labels.push(*label);
    }
    ImageSet::new(Shape::new(1, ENLARGED, ENLARGED), values, labels).map_err(DataError::new)
}

/// Enlarges an image bilinearly with aligned corners, and scales values of 0 to 16 to [0, 1].
fn enlarge(pixels: &[u8], weights: &[f32]) -> Vec<f32> {
    let mut image = Vec::with_capacity(ENLARGED * ENLARGED);
    for row in weights.chunks_exact(SIDE) {
        for column in weights.chunks_exact(SIDE) {
            let mut sum = 0.0;
            for (i, a) in row.iter().enumerate() {
                for (j, b) in column.iter().enumerate() {
                    sum += a * b * f32::from(pixels[i * SIDE + j]);
                }
            }
            image.push((sum / 16.0).clamp(0.0, 1.0));
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_set_is_whole() {
        let digits = load().expect("embedded data");
        assert_eq!(digits.len(), 1797);
        let count = |digit| digits.labels().iter().filter(|&&label| label == digit).count();
        // The class sizes are those in UCI's description of the test part.
        assert_eq!([178, 182, 177, 183, 181, 182, 181, 179, 174, 180], std::array::from_fn(|d| count(d as u8)));
    }

    #[test]
    fn corners_are_the_original_corners() {
        let digits = load().expect("embedded data");
        let (first, last) = (digits.image(0)[0], digits.image(0)[255]);
        assert_eq!((first, last), (0.0, 0.0));
        let mut text = String::new();
        GzDecoder::new(FILE).read_to_string(&mut text).expect("gzip");
        let corner: f32 = text.lines().nth(5).and_then(|l| l.split(',').nth(56)?.parse().ok()).expect("a pixel");
        assert_eq!(digits.image(5)[15 * 16], corner / 16.0);
    }

    #[test]
    fn damaged_rows_are_named() {
        let row = vec!["1"; 65].join(",");
        for damaged in ["1,2,3".to_owned(), row.replacen('1', "17", 1), row.replacen('1', "x", 1)] {
            let text = format!("{row}\n{damaged}\n");
            assert!(parse(&text).expect_err("damaged").to_string().starts_with("row 1 "), "{damaged}");
        }
    }
}
