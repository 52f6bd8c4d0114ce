//! Any bytes as what a camera answers to a request for its stream: parts within the limit, wherever the network cuts them.
#![no_main]

use std::io::BufReader;

use libfuzzer_sys::fuzz_target;

// It has no place in the service's interface.
#[path = "../../../crates/nae-serve/src/source/multipart.rs"]
mod multipart;

use multipart::{MAX_HEADERS, Parts, boundary, headers};

/// Bytes of one image: few, so that streams reach it.
const LIMIT: usize = 64;

fuzz_target!(|data: &[u8]| {
    let read = |capacity: usize| {
        let mut stream = BufReader::with_capacity(capacity, data);
        let head = headers(&mut stream).ok()?;
        assert!(head.len() <= MAX_HEADERS);
        let boundary = match boundary(&head).ok()? {
            Ok(boundary) => boundary,
            Err(unauthorized) => {
                assert!(unauthorized.said.starts_with("it answered 401") && unauthorized.asked.len() <= 64);
                return None;
            }
        };
        assert!(boundary.starts_with(b"--"));
        let (mut parts, mut images) = (Parts::new(stream, boundary, LIMIT), Vec::new());
        while let Ok(image) = parts.next() {
            assert!(image.len() <= LIMIT);
            images.push(image);
        }
        Some(images)
    };
    // How the network cuts the stream makes no difference.
    assert_eq!(read(1 << 16), read(3));
});
