//! Any bytes as an ONNX file: refused, or a model that the vector engine runs and that `.nae` holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nae_onnx::check::{Limits, check};
use nae_onnx::lower::{lower, to_nae};
use nae_simd::{Options, Planes, Program, Workspace};

fuzz_target!(|data: &[u8]| {
    // What one input may take is little, so that many are tried.
    let limits = Limits { elements: 1 << 14, operations: 1 << 22, ..Limits::default() };
    let Ok(model) = check(data, &limits) else { return };
    if let Ok(graph) = lower(&model) {
        if let Ok(program) = Program::compile(&graph, &Options::scoring()) {
            let size = program.input();
            let image: Vec<f32> = (0..size.len()).map(|index| index as f32 / size.len() as f32).collect();
            let planes = Planes::from_channels_first(&Workspace::default(), 1, size, &image);
            let output = program.run(planes).output;
            assert_eq!(output.data.len(), output.size.len());
        }
    }
    if let Ok(nae) = to_nae(data) {
        host_fuzz::is_read(&nae);
    }
});
