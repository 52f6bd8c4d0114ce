//! Any bytes as a request of the Open Inference Protocol: refused as the client's fault, or images of the network's size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nae_serve::fuzzing::{Packed, inference};

/// Beyond this a body is too large, packed or unpacked.
const LIMIT: usize = 1 << 14;

// The first byte says how the body is packed, the next two how long its JSON is; 65,535 says nothing.
fuzz_target!(|data: &[u8]| {
    let Some(([packed, low, high], body)) = data.split_first_chunk::<3>() else { return };
    let length = Some(usize::from(u16::from_le_bytes([*low, *high]))).filter(|length| *length < 0xFFFF);
    let packed = [Packed::Plain, Packed::Gzip, Packed::Deflate][usize::from(packed % 3)];
    match inference(body, packed, length, LIMIT) {
        Ok(images) => assert!((1..=256).contains(&images.len()) && images.iter().all(|image| image.len() == 2)),
        Err(status) => assert!((400..500).contains(&status), "{status}"),
    }
});
