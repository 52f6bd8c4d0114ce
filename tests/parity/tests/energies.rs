//! The digits model through every runtime; every pair within its bound.
#![allow(clippy::unwrap_used)]

use nae_infer::BackendKind;
use nae_onnx::builder::GraphBuilder;
use parity::runtimes::{IMPORTED, Imported, Inferred, KEPT, NATIVE, Qemu, SIMD, Stored, TRACT, TRAINED, Trained};
use parity::{Images, Suite, Unavailable, vectors};

fn suite() -> Suite {
    let model = vectors::model();
    let mut suite = Suite::new(Vec::new());
    suite.push(Trained::new(&vectors::repository("models/digits")));
    suite.push(Stored::new(KEPT, vectors::energies()));
    suite.push(Imported::new());
    suite.push(Inferred::new(BackendKind::Tract, &model));
    suite.push(Inferred::new(BackendKind::Ort, &model));
    suite.push(Inferred::new(BackendKind::Simd, &model));
    suite.push(Inferred::new(BackendKind::Native, &model));
    suite.push(Qemu::cortex_m4f(env!("CARGO_TARGET_TMPDIR")));
    suite.push(Qemu::cortex_m3(env!("CARGO_TARGET_TMPDIR")));
    suite
}

#[test]
fn all_runtimes_agree() {
    let report = suite().run(&vectors::images().unwrap());
    println!("{}", report.table());
    for needed in [TRAINED, KEPT, IMPORTED, TRACT, SIMD, NATIVE] {
        assert!(report.energies(needed).is_some(), "{needed} gave nothing");
    }
    if std::env::var_os("NAE_EVERY_RUNTIME").is_some() {
        let missing: Vec<String> = report.unavailable().map(|(name, error)| format!("{name}: {error}")).collect();
        assert!(missing.is_empty(), "not all runtimes are there: {}", missing.join("; "));
    }
    let failures = report.failures();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_images_are_the_firmwares() {
    let images = vectors::images().unwrap();
    let bytes = std::fs::read(vectors::repository("firmware-example/vectors/digits.u8")).unwrap();
    let expected: Vec<f32> = bytes.iter().map(|&b| f32::from(b) / 255.0).collect();
    assert_eq!(images.shape, [bytes.len() / 256, 1, 16, 16]);
    assert_eq!(images.values, expected, "run `cargo run -p parity --example make_vectors`");
}

#[test]
fn the_deployed_model_is_the_exported_one() {
    let onnx = std::fs::read(vectors::model()).unwrap();
    let deployed = std::fs::read(vectors::repository("models/digits/digits.nae")).unwrap();
    let lowered = nae_onnx::lower::to_nae(&onnx).unwrap();
    let command = "nae-train deploy models/digits/digits.onnx -o models/digits/digits.nae";
    assert!(lowered == deployed, "models/digits/digits.nae is of another digits.onnx: run `{command}`");
}

/// A model that one runtime cannot run is in the table, with the operator's name.
#[test]
fn a_missing_operator_is_named() {
    let mut graph = GraphBuilder::new("absolute");
    let x = graph.image_input("image", [1, 4, 4]).unwrap();
    let y = graph.abs("y", x).unwrap();
    graph.output("reconstruction", y).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absolute.onnx");
    nae_onnx::file::write(&path, &graph.finish_bytes().unwrap()).unwrap();
    let suite = Suite::new(vec![Box::new(Inferred::new(BackendKind::Native, &path))]);
    let report = suite.run(&Images { shape: [1, 1, 4, 4], values: vec![0.5; 16] });
    let (_, missing) = report.unavailable().next().unwrap();
    assert!(matches!(missing, Unavailable::Operator { operator, .. } if operator == "Abs"), "{missing}");
    assert!(report.table().contains("nae-core: lacks Abs"), "{}", report.table());
}
