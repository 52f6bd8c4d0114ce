//! The brightness and colourfulness of a picture: two means over the whole frame, which distinguish day from night.

use nae_infer::input::Pixels;
use serde::Serialize;

/// The approximate number of pixels that are measured; more pixels of a large frame take longer and give the same
/// result.
const ENOUGH: usize = 1 << 16;
/// The weights of red, green and blue in the luma of ITU-R BT.601, which JPEG uses.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// Means over a frame, each from 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Light {
    /// The mean luma. A camera that lights the scene with infrared keeps this high at night.
    pub(crate) brightness: f32,
    /// The mean difference between the largest and the smallest of red, green and blue: 0 for grey, as in infrared
    /// pictures, and small in the dark.
    pub(crate) colour: f32,
}

impl Light {
    /// Measures a frame; `None` if it has no pixels.
    pub(crate) fn of(pixels: &Pixels) -> Option<Self> {
        let (channels, width, height) = (pixels.shape.channels, pixels.shape.width, pixels.shape.height);
        if channels == 0 || width == 0 || height == 0 {
            return None;
        }
        // The step is the same for columns and rows, so that a large frame is not sampled in one column only.
        let step = ((width * height / ENOUGH) as f64).sqrt().ceil().max(1.0) as usize;
        let (mut brightness, mut colour, mut count) = (0.0f64, 0.0f64, 0u32);
        for row in pixels.values.chunks_exact(channels * width).step_by(step) {
            for pixel in row.chunks_exact(channels).step_by(step) {
                let (luma, chroma) = match *pixel {
                    [red, green, blue, ..] => {
                        let luma = LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue;
                        (luma, red.max(green).max(blue) - red.min(green).min(blue))
                    }
                    [grey, ..] => (grey, 0.0),
                    [] => continue,
                };
                brightness += f64::from(luma);
                colour += f64::from(chroma);
                count += 1;
            }
        }
        let mean = |sum: f64| (255.0 * sum / f64::from(count)) as f32;
        (count > 0).then(|| Self { brightness: mean(brightness), colour: mean(colour) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nae_infer::Shape;

    use super::*;

    fn pixels(channels: usize, height: usize, width: usize, value: impl Fn(usize, usize, usize) -> f32) -> Pixels {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        let values = places.flat_map(|(y, x)| (0..channels).map(move |c| (y, x, c))).map(|(y, x, c)| value(y, x, c));
        Pixels { shape: Shape::new(channels, height, width), values: values.collect() }
    }

    /// A primary colour has its weight in luma, and full colourfulness.
    #[test]
    fn means_are_those_of_the_formula() {
        for (primary, luma) in [76.245f32, 149.685, 29.07].into_iter().enumerate() {
            let light = Light::of(&pixels(3, 4, 6, |_, _, c| f32::from(u8::from(c == primary)))).unwrap();
            assert!((light.brightness - luma).abs() < 0.01 && (light.colour - 255.0).abs() < 0.01, "{light:?}");
        }
        let grey = Light::of(&pixels(3, 4, 6, |_, _, _| 0.2)).unwrap();
        assert!((grey.brightness - 51.0).abs() < 0.01 && grey.colour.abs() < 0.01, "{grey:?}");
        let one_channel = Light::of(&pixels(1, 4, 6, |_, _, _| 0.2)).unwrap();
        assert!((one_channel.brightness - 51.0).abs() < 0.01 && one_channel.colour.abs() < 0.01, "{one_channel:?}");
        assert_eq!(Light::of(&pixels(3, 0, 0, |_, _, _| 0.0)), None);
    }

    /// The pixels are not all from one column of a large frame.
    #[test]
    fn of_a_large_frame_all_parts_are_seen() {
        let left = Light::of(&pixels(3, 1080, 1920, |_, x, _| if x < 480 { 1.0 } else { 0.0 })).unwrap();
        let upper = Light::of(&pixels(3, 1080, 1920, |y, _, _| if y < 270 { 1.0 } else { 0.0 })).unwrap();
        for light in [left, upper] {
            assert!((light.brightness - 63.75).abs() < 1.0, "{light:?}");
        }
    }
}
