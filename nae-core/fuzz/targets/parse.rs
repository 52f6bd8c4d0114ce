//! The parser on any bytes, as they are and with a right checksum; what a parsed model says of itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nae_core::model::Model;
use nae_core_fuzz::mended;

fuzz_target!(|data: &[u8]| {
    let _ = Model::parse(data);
    let words = mended(data);
    if let Ok(model) = Model::parse(bytemuck::cast_slice(&words)) {
        assert_eq!(model.layers().count(), model.layer_count());
        assert!(model.layers().all(|layer| layer.output.len() > 0));
        let _ = (model.arena_len(), model.operators(), model.threshold(), model.latent_shape());
        let _ = (model.preprocessing(), model.reconstruction_quantization(), model.latent_quantization());
        let _ = model.calibration().map(|calibration| calibration.p_value(0.1));
    }
});
