//! `bench`: what it measures, and its exit status.

use predicates::str::{contains, is_match};

use super::{Folder, lines};

#[test]
fn bench_measures_every_backend() {
    let folder = Folder::new();
    let output = folder.run(&["bench", "model.onnx", "--seconds", "0.05", "--json"]).success();
    let lines = lines(&output.get_output().stdout);
    let backends: Vec<&str> = lines.iter().map(|line| line["backend"].as_str().unwrap()).collect();
    assert!(backends.contains(&"tract") && backends.contains(&"native"), "{backends:?}");
    for line in lines.iter().filter(|line| line["error"].is_null()) {
        let number = |key: &str| line[key].as_f64().unwrap();
        assert!(number("latency_p99") >= number("latency_median") && number("latency_median") > 0.0, "{line}");
        assert!(number("throughput_32") > 0.0 && number("memory") > 1e6 && number("start_up") > 0.0, "{line}");
    }
    folder.run(&["bench", "model.nae", "--seconds", "0.05"]).success().stdout(contains("does not read .nae files"));
    folder.run(&["bench", "none.onnx"]).failure().stderr(contains("none.onnx"));
}

/// The child of each backend gets the model's path too.
#[test]
fn bench_takes_a_model_whose_name_looks_like_a_flag() {
    let folder = Folder::new();
    std::fs::copy(folder.path("model.nae"), folder.path("-m.nae")).unwrap();
    let output = folder.run(&["bench", "--backend", "native", "--seconds", "0", "--json", "--", "-m.nae"]).success();
    let found = lines(&output.get_output().stdout);
    assert_eq!((found.len(), &found[0]["backend"], &found[0]["error"]), (1, &"native".into(), &().into()));
}

/// One backend that cannot run a model is a result, and no failure.
#[test]
fn bench_fails_where_no_backend_runs_the_model_as_its_help_says() {
    let folder = Folder::new();
    let bench = |backend: &str| folder.run(&["bench", "model.nae", "--seconds", "0", "--json", "--backend", backend]);
    bench("native").code(0);
    bench("simd").code(1).stdout(contains("does not read .nae files"));
    folder.run(&["bench", "model.nae", "--seconds", "0"]).code(0).stdout(contains("does not read .nae files"));
    // The help is wrapped.
    let says = |arguments: &[&str], text: &str| {
        folder.run(arguments).success().stdout(is_match(text.replace(' ', r"\s+")).unwrap());
    };
    says(&["bench", "--help"], "the exit status is 1 only if no backend can run it");
    says(&["--help"], "for bench, when no backend ran the model");
}
