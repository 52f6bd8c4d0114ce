//! Turns the exported model into burn code with burn-onnx: `$OUT_DIR/imported/digits.rs`.

fn main() {
    let model = "../../models/digits/digits.onnx";
    println!("cargo::rerun-if-changed={model}");
    burn_onnx::ModelGen::new()
        .input(model)
        .out_dir("imported/")
        .load_strategy(burn_onnx::LoadStrategy::Embedded)
        .run_from_script();
}
