//! Parser and engine on any bytes with a right checksum: an error, or a run that stays within its arena.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nae_core::engine::Engine;
use nae_core::model::Model;
use nae_core_fuzz::mended;

/// What one input may take: values of the arena, and of all layers' outputs.
const MOST: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let words = mended(data);
    let Ok(model) = Model::parse(bytemuck::cast_slice(&words)) else { return };
    let outputs: usize = model.layers().map(|layer| layer.output.len()).sum();
    if model.arena_len() > MOST || outputs > MOST || model.input_shape().len() > MOST {
        return;
    }
    let engine = Engine::new(&model).expect("aligned, little-endian");
    // The image follows from the bytes, too.
    let pixel = |index: usize| data[(index * 7) % data.len()];
    let image: Vec<u8> = (0..model.input_shape().len()).map(pixel).collect();
    let mut arena = vec![f32::from_bits(0x7FC0_5A5A); model.arena_len()];
    let mut integers = vec![0; image.len()];
    if model.quantize_bytes(&image, &mut integers).is_ok() {
        if let Ok(output) = engine.run_i8(&integers, &mut arena) {
            assert!(output.score.energy.is_finite());
        }
    }
    let mut reals = vec![0.0; image.len()];
    if model.preprocessing().apply(&image, &mut reals).is_ok() {
        if let Ok(output) = engine.run(&reals, &mut arena) {
            assert!(output.score.energy.is_finite() && output.reconstruction.iter().all(|value| value.is_finite()));
        }
    }
});
