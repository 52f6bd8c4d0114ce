//! Any bytes as a TFLite file: refused, or a model that `.nae` holds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(nae) = nae_onnx::tflite::to_nae(data) {
        host_fuzz::is_read(&nae);
    }
});
