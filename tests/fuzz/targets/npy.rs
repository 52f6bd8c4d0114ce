//! Any bytes as an array of images: refused, or images of as many values as their shapes say.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // What does not begin like an array is an image, whose decoders' panics are caught: not here.
    let _ = nae_input::image::parse(Path::new("images.npy"), data);
});
