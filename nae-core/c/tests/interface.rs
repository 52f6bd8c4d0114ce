//! The header is what cbindgen makes of the source; programs in C get what `nae-core` computes, bit for bit, and cannot
//! bring the library down.
#![allow(clippy::unwrap_used, missing_docs)]

use nae_core::engine::Engine;
use nae_core::model::Model;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that has the built examples, beside the one with this test.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned()
}

/// The static library. What `cargo test` has built of it has a hash in its name that a test cannot know.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = built().parent().unwrap().to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--locked", "--offline", "-p", "nae-core-c", "--lib", "--target-dir"])
            .arg(&target);
        succeeded(&cargo.current_dir(here()).output().unwrap());
        target.join("debug/libnae_core_c.a")
    })
}

fn models() -> [PathBuf; 2] {
    ["digits-int8.nae", "digits.nae"].map(|name| here().join("../../models/digits").join(name))
}

fn images() -> PathBuf {
    here().join("../../firmware-example/vectors/digits.u8")
}

/// What C is to print of each image: bits of the energy, p-value and threshold, and the verdict.
fn expected(path: &Path) -> Vec<[String; 4]> {
    let bytes = std::fs::read(path).unwrap();
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let (engine, mut arena) = (Engine::new(&model).unwrap(), vec![0.0; model.arena_len()]);
    let bits = |value: f32| format!("{:08x}", value.to_bits());
    let images = std::fs::read(images()).unwrap();
    let score = |pixels: &[u8]| {
        let (score, verdict) = if model.image_quantization().is_some() {
            let mut image = vec![0; pixels.len()];
            model.quantize_bytes(pixels, &mut image).unwrap();
            let output = engine.run_i8(&image, &mut arena).unwrap();
            (output.score, output.verdict)
        } else {
            let mut image = vec![0.0; pixels.len()];
            model.preprocessing().apply(pixels, &mut image).unwrap();
            let output = engine.run(&image, &mut arena).unwrap();
            (output.score, output.verdict)
        };
        let numbers = [score.energy, score.p_value.unwrap(), model.threshold().unwrap()].map(bits);
        let [energy, p_value, threshold] = numbers;
        [energy, p_value, threshold, verdict.unwrap().to_string()]
    };
    images.chunks(model.input_shape().len()).map(score).collect()
}

fn compile(program: &Path, sources: &[&Path], folders: &[&Path]) {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(here());
    folders.iter().for_each(|folder| _ = compiler.arg("-I").arg(folder));
    compiler.args(sources).arg(library()).args(["-lm", "-lpthread", "-ldl", "-o"]).arg(program);
    succeeded(&compiler.output().unwrap());
}

fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The header that `embed` writes.
fn embed(model: &Path, name: &str) -> Output {
    let program = built().join("examples/embed");
    Command::new(program).arg(model).arg(name).output().unwrap()
}

#[test]
fn the_header_is_the_sources() {
    let mut builder = cbindgen::Builder::new();
    for name in ["status", "model", "score", "alarm"] {
        builder = builder.with_src(here().join(format!("src/{name}.rs")));
    }
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    builder.with_config(config).generate().unwrap().write(&mut made);
    let (made, path) = (String::from_utf8(made).unwrap(), here().join("nae_core.h"));
    if std::env::var_os("NAE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(made == committed, "nae_core.h is stale: run this test with NAE_WRITE_HEADER=1");
}

#[test]
fn a_program_in_c_scores_as_nae_core() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("interface");
    compile(&program, &[&here().join("tests/interface.c")], &[]);
    for model in models() {
        let output = Command::new(&program).arg("score").arg(&model).arg(images()).output().unwrap();
        let found: Vec<Vec<String>> =
            succeeded(&output).lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
        assert_eq!(found, expected(&model), "{}", model.display());
    }
}

#[test]
fn null_and_wrong_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("interface");
    compile(&program, &[&here().join("tests/interface.c")], &[]);
    for model in models() {
        succeeded(&Command::new(&program).arg("refuse").arg(&model).output().unwrap());
    }
}

#[test]
fn damaged_models_are_refused_or_run_in_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("interface");
    compile(&program, &[&here().join("tests/interface.c")], &[]);
    for model in models() {
        let said = succeeded(&Command::new(&program).arg("damage").arg(&model).output().unwrap());
        println!("{}: {said}", model.display());
    }
}

/// The example of the README compiles, against the header that `embed` writes, and says what it says there.
#[test]
fn the_readme_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let [model, _] = models();
    std::fs::write(folder.path().join("digits.h"), succeeded(&embed(&model, "digits"))).unwrap();
    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let example = readme.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let source = folder.path().join("example.c");
    // A zero image is the thirteenth of the vectors.
    let main = "\nint main(void) {\n  static const uint8_t black[DIGITS_IMAGE_LEN];\n  \
                return watch_start() == NAE_CORE_STATUS_OK ? watch_frame(black) : 9;\n}\n";
    std::fs::write(&source, example.to_owned() + main).unwrap();
    let program = folder.path().join("example");
    compile(&program, &[&source], &[folder.path()]);
    let status = Command::new(program).status().unwrap();
    // Its alarm takes three of five.
    assert_eq!((status.code(), expected(&model)[12][3].as_str()), (Some(0), "anomaly"));
}

/// Two source files include the header, one of them twice: the program has the bytes once.
#[test]
fn an_embedded_model_is_in_a_program_once() {
    let folder = tempfile::tempdir().unwrap();
    let [model, _] = models();
    std::fs::write(folder.path().join("digits.h"), succeeded(&embed(&model, "digits"))).unwrap();
    let [has, uses] = ["has.c", "uses.c"].map(|name| folder.path().join(name));
    let lines = "#include \"digits.h\"\n#define DIGITS_IMPLEMENTATION\n#include \"digits.h\"\n#include \"digits.h\"\n\
                 const uint8_t *here(void);\nconst uint8_t *here(void) { return digits_model; }\n";
    std::fs::write(&has, lines).unwrap();
    let lines = "#include \"digits.h\"\n#include \"nae_core.h\"\nconst uint8_t *here(void);\n\
                 int main(void) {\n  static nae_core_model model;\n  if (digits_model != here()) return 2;\n  \
                 return nae_core_open(&model, digits_model, DIGITS_LEN) != NAE_CORE_STATUS_OK;\n}\n";
    std::fs::write(&uses, lines).unwrap();
    let program = folder.path().join("program");
    compile(&program, &[&has, &uses], &[folder.path()]);
    assert_eq!(Command::new(&program).status().unwrap().code(), Some(0));
}

#[test]
fn embed_says_what_does_not_go() {
    let [model, _] = models();
    let failed = |output: Output| {
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(failed(embed(&here().join("README.md"), "digits")).contains("not a .nae file"));
    assert!(failed(embed(&model, "3digits")).contains("is not a name of C"));
    assert!(failed(embed(&here().join("nothing.nae"), "digits")).contains("nothing.nae"));
}
