//! Any bytes as an image, as a client of the camera service sends one: refused, or the input of a grey and of a colour network
//! that the image becomes.
//!
//! A decoder's panic is caught where images are decoded, and is no failure here; any other is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nae_core::Shape;
use nae_core::model::{Preprocessing, ResizeFilter};
use nae_input::image::{decode, dimensions, prepare};
use nae_onnx::metadata::Transforms;

/// Pixels of an image that is decoded. Larger ones take more time and memory, and no other way.
const MAX_PIXELS: u64 = 1 << 18;

fuzz_target!(
    init: {
        // libFuzzer's own ends the process before the panic can be caught.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    },
    |data: &[u8]| {
        let Ok((width, height)) = dimensions(data) else { return };
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            return;
        }
        let Ok(pixels) = decode(data) else { return };
        assert_eq!((pixels.shape.width, pixels.shape.height), (width as usize, height as usize));
        for (target, filter) in
            [(Shape::new(1, 8, 8), ResizeFilter::Lanczos3), (Shape::new(3, 5, 9), ResizeFilter::BilinearAlignCorners)]
        {
            let Ok(input) = prepare(&pixels, target, Preprocessing::unit(filter), Transforms::default()) else { continue };
            assert_eq!(input.len(), target.len());
            assert!(input.iter().all(|value| (0.0..=1.0).contains(value)));
        }
    }
);
