//! `calibrate`: thresholds for models of other programs.

use assert_cmd::Command;
use nae_onnx::builder::{Conv2d, GraphBuilder};
use nae_onnx::proto::ModelProto;
use predicates::prelude::*;
use predicates::str::{contains, diff, is_empty};
use prost::Message as _;

use super::{Folder, lines};

#[test]
fn a_model_of_others_is_calibrated_and_then_scores() {
    let folder = Folder::new();
    // As somebody else would have exported it: nothing under `nae.`.
    let mut proto = ModelProto::decode(std::fs::read(folder.path("model.onnx")).unwrap().as_slice()).unwrap();
    proto.metadata_props.retain(|entry| !entry.key().starts_with("nae."));
    let theirs = proto.encode_to_vec();
    std::fs::write(folder.path("theirs.onnx"), &theirs).unwrap();
    let values: Vec<f32> = (0..200 * 64).map(|i| (i * 2_654_435_761_u64 % 1000) as f32 / 1000.0).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    folder.npy("normal.npy", "<f4", "(200, 8, 8)", &bytes);
    folder.run(&["score", "theirs.onnx", "a.png"]).failure().stderr(contains("nae-infer calibrate"));

    let calibrate = |arguments: &[&str]| {
        folder.run(&[&["calibrate", "theirs.onnx", "normal.npy", "-o", "ours.onnx"], arguments].concat())
    };
    calibrate(&["--range", "-1,1"]).success().stdout(contains("from 200 normal images"));
    // A folder of batches, and what is wrong is counted as what it is.
    std::fs::create_dir(folder.path("good")).unwrap();
    std::fs::copy(folder.path("normal.npy"), folder.path("good/normal.npy")).unwrap();
    folder
        .run(&["calibrate", "theirs.onnx", "good", "-o", "folder.onnx", "--range", "-1,1"])
        .success()
        .stdout(contains("from 200 normal images"));
    assert_eq!(std::fs::read(folder.path("folder.onnx")).unwrap(), std::fs::read(folder.path("ours.onnx")).unwrap());
    folder.npy("bad.npy", "<f4", "(60, 8, 8)", &f32::NAN.to_le_bytes().repeat(60 * 64));
    let batch = std::fs::read(folder.path("normal.npy")).unwrap();
    Command::cargo_bin("nae-infer")
        .unwrap()
        .current_dir(folder.0.path())
        .args(["calibrate", "theirs.onnx", "-", "-o", "stdin.onnx", "--range", "-1,1"])
        .write_stdin(batch)
        .assert()
        .success();
    assert_eq!(std::fs::read(folder.path("stdin.onnx")).unwrap(), std::fs::read(folder.path("ours.onnx")).unwrap());
    folder
        .run(&["calibrate", "theirs.onnx", "bad.npy", "-o", "bad.onnx"])
        .code(1)
        .stderr(contains("cannot be read: 0; images that cannot be scored: 60; images that can: 0\n"));
    // An empty folder, and a file that is missing.
    std::fs::create_dir(folder.path("empty")).unwrap();
    let mixed = ["calibrate", "theirs.onnx", "good", "bad.npy", "empty", "missing.png", "-o", "bad.onnx"];
    folder.run(&[&mixed[..], &["--strict"]].concat()).code(1).stderr(contains(
        "cannot be read: 2; images that cannot be scored: 60; images that can: 200; leave out --strict",
    ));
    assert!(!folder.path("bad.onnx").exists());
    folder.run(&mixed).code(1).stdout(contains("from 200 normal images"));
    folder.npy("empty.npy", "<f4", "(0, 8, 8)", &[]);
    let none = folder.run(&["score", "ours.onnx", "empty.npy"]).code(1).stdout(is_empty());
    none.stderr(contains("empty.npy: expected at least one image, found [0, 8, 8]"));
    assert!(std::fs::read(folder.path("ours.onnx")).unwrap().starts_with(&theirs), "the network is not touched");
    let scored = folder.run(&["score", "ours.onnx", "normal.npy", "--json"]).success();
    let lines = lines(&scored.get_output().stdout);
    let anomalies = lines.iter().filter(|line| line["verdict"] == "anomaly").count();
    assert!(lines.len() == 200 && anomalies <= 2, "{anomalies} of {}", lines.len());
    folder.run(&["inspect", "ours.onnx"]).success().stdout(contains("-1.0 to 1.0"));

    let ssim = ["--energy", "ssim", "--range", "-1,1"];
    calibrate(&ssim).failure().stderr(contains("ssim is for images from 0 to 1, not for --range -1,1"));
    calibrate(&["--false-positive-rate", "0.001"])
        .failure()
        .stderr(contains("; 999 would do, or --false-positive-rate 0.005"));
    let sure = ["--false-positive-rate", "0.05", "--confidence", "0.95"];
    calibrate(&sure).success().stdout(contains("rate of 0.05 with a confidence of 0.95, from 200 normal images"));
    // The fifth largest of 200 (Wilks, 1941).
    folder
        .run(&["inspect", "ours.onnx"])
        .success()
        .stdout(contains("0.024875622"))
        .stdout(contains("0.0082 to 0.0504"));
    let sure = ["--false-positive-rate", "0.01", "--confidence", "0.95"];
    calibrate(&sure).failure().stderr(contains("confidence is too high").and(contains("299 would do")));
    calibrate(&["missing.png", "--strict"]).failure().stderr(contains("missing.png"));
    // One of ours says itself how images are prepared, and is recalibrated.
    let again = ["calibrate", "model.onnx", "normal.npy", "-o", "again.onnx"];
    folder.run(&again).success();
    // At its own rate, unless another is given.
    folder.run(&[&again[..], &["--false-positive-rate", "0.05"]].concat()).success();
    let third = ["calibrate", "again.onnx", "normal.npy", "-o", "third.onnx"];
    folder.run(&third).success().stdout(contains("for a false-positive rate of 0.05,"));
    folder.run(&[&again[..], &["--range", "0,1"]].concat()).failure().stderr(contains("leave out --range"));
    folder
        .run(&["calibrate", "model.nae", "normal.npy", "-o", "x.onnx"])
        .failure()
        .stderr(contains("a .nae file cannot be calibrated: calibrate the ONNX model"));
}

/// Once for the model, not once for each of the images.
#[test]
fn a_model_of_other_things_than_images_is_refused_before_images_are_read() {
    let folder = Folder::new();
    let mut graph = GraphBuilder::new("two channels");
    let image = graph.image_input("image", [2, 8, 8]).unwrap();
    let made = graph.conv2d("made", image, &Conv2d::new(2, [1; 2], &[0.5; 4], None)).unwrap();
    graph.output("reconstruction", made).unwrap();
    std::fs::write(folder.path("two.onnx"), graph.finish().unwrap().encode_to_vec()).unwrap();
    folder
        .run(&["calibrate", "two.onnx", "a.png", "b.png", "-o", "x.onnx"])
        .code(1)
        .stderr(diff("error: two.onnx: it is not an ONNX model that takes images [N, C, H, W] of 1 or 3 channels\n"));
}

/// Images that are read would be lost, and what cannot be written would be found only after the work. The model may be replaced:
/// its network stays in the file.
#[test]
fn calibrate_refuses_an_output_first_that_cannot_be_written() {
    let folder = Folder::new();
    let values: Vec<u8> = (0..200 * 64).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("normal.npy", "|u1", "(200, 8, 8)", &values);
    let before = std::fs::read(folder.path("normal.npy")).unwrap();
    let lost = folder.run(&["calibrate", "model.onnx", "a.png", "normal.npy", "-o", "normal.npy"]).code(1);
    lost.stderr(contains("cannot write normal.npy: it is one of the files that are read; choose another name"));
    assert_eq!(std::fs::read(folder.path("normal.npy")).unwrap(), before);
    let other = folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "other.nae"]).code(1);
    other.stderr(contains("other.nae: the model is written as ONNX, and .nae is another format"));
    assert!(!folder.path("other.nae").exists());
    // A folder is given, and a file in it is read.
    std::fs::create_dir_all(folder.path("good/below")).unwrap();
    std::fs::copy(folder.path("normal.npy"), folder.path("good/below/normal.npy")).unwrap();
    for output in ["good/below/normal.npy", "good/../good/below/normal.npy"] {
        let lost = folder.run(&["calibrate", "model.onnx", "good", "-o", output]).code(1).stdout(is_empty());
        lost.stderr(contains(format!("cannot write {output}: it is one of the files that are read")));
        assert_eq!(std::fs::read(folder.path("good/below/normal.npy")).unwrap(), before);
    }
    // Beside the images, where it is not read.
    folder.run(&["calibrate", "model.onnx", "good", "-o", "good/model.onnx"]).success();
    folder.run(&["calibrate", "model.onnx", "good", "-o", "good/model.onnx"]).success();
    folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "model.onnx"]).success();
    let missing = folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "no/m.onnx"]).code(1);
    missing.stderr(contains("cannot write no/m.onnx: the folder no does not exist; make it first"));
}

/// The bounds are those of independent images: a file that counts twice would make the threshold look surer than it is.
#[test]
fn calibrate_counts_a_file_once_however_often_it_is_given() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("good")).unwrap();
    let values: Vec<u8> = (0..200 * 64).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("good/normal.npy", "|u1", "(200, 8, 8)", &values);
    folder.run(&["calibrate", "model.onnx", "good", "-o", "once.onnx"]).success().stderr(is_empty());
    let often = ["calibrate", "model.onnx", "good", "good/normal.npy", "./good/", "-o", "often.onnx"];
    let said = folder.run(&often).success().stdout(contains("from 200 normal images"));
    said.stderr(diff("note: files given more than once are counted once: 2 repetitions are left out\n"));
    let [once, often] = ["once.onnx", "often.onnx"].map(|name| std::fs::read(folder.path(name)).unwrap());
    assert_eq!(once, often);
    // Each of them is reported: there is nothing to count.
    let missing = ["calibrate", "model.onnx", "good", "none.png", "none.png", "-o", "x.onnx", "--strict"];
    folder.run(&missing).code(1).stderr(contains("files or folders that cannot be read: 2;"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("good/normal.npy", folder.path("link.npy")).unwrap();
        let linked = ["calibrate", "model.onnx", "link.npy", "good", "-o", "linked.onnx"];
        folder.run(&linked).success().stdout(contains("from 200 normal images")).stderr(contains("1 repetition is"));
    }
}

/// The printed interval is that of energies without ties: if the largest are equal, no image has to be above the threshold.
#[test]
fn calibrate_warns_of_energies_that_are_equal_to_the_threshold() {
    let folder = Folder::new();
    let image = |n: u64| (0..64).map(move |i| ((64 * n + i) * 2_654_435_761 % 251) as u8);
    let images = |numbers: &[u64]| numbers.iter().flat_map(|&n| image(n)).collect::<Vec<u8>>();
    let calibrate = || folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "ours.onnx"]).success();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&[3; 100]));
    let all = calibrate().stdout(contains("the rate lies between 0.00025 and 0.0362"));
    let all = all.stderr(contains("warning: all 100 energies are "));
    all.stderr(contains("the rate may be below 0.00025, also 0; check that the model is an autoencoder"));
    // The largest of 100 energies is the threshold: of two copies of its image.
    let numbers: Vec<u64> = (0..100).collect();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&numbers));
    calibrate().stderr(is_empty());
    let scored = folder.run(&["score", "ours.onnx", "normal.npy", "--json"]).success();
    let energies: Vec<f64> = lines(&scored.get_output().stdout).iter().map(|l| l["energy"].as_f64().unwrap()).collect();
    let sorted = {
        let mut numbers = numbers.clone();
        numbers.sort_by(|&a, &b| energies[a as usize].total_cmp(&energies[b as usize]));
        numbers
    };
    let (least, largest) = (sorted[0], sorted[99]);
    let copied: Vec<u64> = numbers.iter().map(|&n| if n == least { largest } else { n }).collect();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&copied));
    calibrate().stderr(contains("warning: 2 of 100 energies are ").and(contains("look for copies among the images")));
    // Equal energies elsewhere change nothing.
    let copied: Vec<u64> = numbers.iter().map(|&n| if n == sorted[1] { least } else { n }).collect();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&copied));
    calibrate().stderr(is_empty());
}
