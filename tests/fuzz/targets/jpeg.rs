//! Any bytes as a stream of JPEG images without lengths: each image whole and within the limit, none lost that follows.
#![no_main]

use std::io::BufReader;

use libfuzzer_sys::fuzz_target;

// It has no place in the service's interface.
#[path = "../../../crates/nae-serve/src/source/jpeg.rs"]
mod jpeg;

/// Bytes of one image: few, so that streams reach it.
const LIMIT: usize = 64;

fuzz_target!(|data: &[u8]| {
    let read = |capacity: usize| {
        let mut stream = BufReader::with_capacity(capacity, data);
        let mut images = Vec::new();
        while let Ok(Some(image)) = jpeg::read(&mut stream, LIMIT) {
            assert!(image.len() <= LIMIT && image.starts_with(&[0xFF, 0xD8]));
            let whole = jpeg::with_tables(image.clone());
            assert!(whole.len() >= image.len());
            images.push(image);
        }
        images
    };
    // How the network cuts the stream makes no difference.
    assert_eq!(read(1 << 16), read(3));
});
