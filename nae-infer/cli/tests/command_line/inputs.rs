//! What `score` reads: image files, folders, NumPy arrays and standard input, and what it says of those it cannot read.

use assert_cmd::Command;
use nae_infer::Detector;
use nae_infer::image::ImageFormat;
use predicates::prelude::*;
use predicates::str::{contains, diff, is_empty};

use super::{Folder, lines};

#[test]
fn batches_of_numpy_are_read() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..2 * 256).map(|i| (i % 251) as u8).collect();
    folder.npy("u8.npy", "|u1", "(2, 16, 16)", &bytes);
    let floats: Vec<u8> = bytes.iter().flat_map(|&b| (f32::from(b) / 255.0).to_le_bytes()).collect();
    folder.npy("f4.npy", "<f4", "(2, 1, 16, 16)", &floats);
    folder.npy("one.npy", "<f4", "(16, 16)", &floats[..1024]);
    // NumPy's own defaults: 64 bits, channels last.
    let doubles: Vec<u8> = bytes.iter().flat_map(|&b| (f64::from(b) / 255.0).to_le_bytes()).collect();
    folder.npy("f8.npy", "<f8", "(2, 16, 16, 1)", &doubles);
    let assert = folder.run(&["score", "model.nae", "u8.npy", "f4.npy", "one.npy", "f8.npy", "--json"]).success();
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|l| l["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["u8.npy[0]", "u8.npy[1]", "f4.npy[0]", "f4.npy[1]", "one.npy", "f8.npy[0]", "f8.npy[1]"]);
    assert_eq!(found[0]["energy"], found[2]["energy"]);
    assert_eq!(found[0]["energy"], found[4]["energy"]);
    assert_eq!(found[1]["energy"], found[6]["energy"]);
}

/// Otherwise nobody could tell which of them is the anomaly.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf_8_stay_different() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new();
    std::fs::create_dir(folder.path("parts")).unwrap();
    for name in [&b"x\xfe.png"[..], b"x\xff.png", "é.png".as_bytes()] {
        let path = folder.path("parts").join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy(folder.path("a.png"), path).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "parts", "--json"]).success();
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|line| line["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["parts/x\\xfe.png", "parts/x\\xff.png", "parts/é.png"]);
    let assert = folder.run(&["score", "model.nae", "parts"]).success();
    assert.stdout(contains(" parts/x\\xfe.png ").and(contains(" parts/x\\xff.png ")));
}

/// Without loss they hold the same image.
#[test]
fn formats_of_other_cameras_are_read() {
    let folder = Folder::new();
    let image = nae_infer::image::open(folder.path("a.png")).unwrap();
    let files = [("a.bmp", ImageFormat::Bmp), ("a.tiff", ImageFormat::Tiff), ("a.webp", ImageFormat::WebP)];
    for (name, format) in files {
        image.to_rgb8().save_with_format(folder.path(name), format).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "a.png", "a.bmp", "a.tiff", "a.webp", "--json"]).success();
    let energies: Vec<f64> =
        lines(&assert.get_output().stdout).iter().map(|line| line["energy"].as_f64().unwrap()).collect();
    assert_eq!(energies.len(), 4);
    assert!(energies.iter().all(|energy| (energy - energies[0]).abs() <= 1e-4 * energies[0]), "{energies:?}");

    // The formats of Netpbm, of one image in black and white, by their names in a folder.
    std::fs::create_dir(folder.path("netpbm")).unwrap();
    let bits = [0b1010_1010_u8, 0b0101_0101].repeat(4);
    let bytes: Vec<u8> =
        bits.iter().flat_map(|byte| (0..8).map(move |i| if byte >> (7 - i) & 1 == 1 { 0 } else { 255 })).collect();
    let header = b"P7\nWIDTH 8\nHEIGHT 8\nDEPTH 1\nMAXVAL 255\nTUPLTYPE GRAYSCALE\nENDHDR\n";
    for (name, header, values) in
        [("a.pbm", &b"P4 8 8\n"[..], &bits), ("b.pgm", b"P5 8 8 255\n", &bytes), ("c.pam", header, &bytes)]
    {
        std::fs::write(folder.path("netpbm").join(name), [header, values].concat()).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "netpbm", "--json"]).success();
    let energies: Vec<f64> =
        lines(&assert.get_output().stdout).iter().map(|line| line["energy"].as_f64().unwrap()).collect();
    assert_eq!(energies, [energies[0]; 3]);
}

/// docs/scoring.md shows both ways of scoring a file. `image::open` does not turn it.
#[test]
fn a_turned_image_has_the_same_score_from_rust() {
    let folder = Folder::new();
    // A TIFF of two grey pixels, 0 and 255, that is turned by a quarter.
    let entry = |tag: u16, value: u8| [&tag.to_le_bytes()[..], &[3, 0, 1, 0, 0, 0, value, 0, 0, 0]].concat();
    let entries = [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (274, 6), (277, 1), (279, 2)];
    let entries: Vec<u8> = entries.into_iter().flat_map(|(tag, value)| entry(tag, value)).collect();
    std::fs::write(folder.path("turned.tiff"), [&b"II*\0\x0a\0\0\0\0\xff\x09\0"[..], &entries, &[0; 4]].concat())
        .unwrap();
    let assert = folder.run(&["score", "model.nae", "turned.tiff", "--json"]).success();
    let energy = lines(&assert.get_output().stdout)[0]["energy"].as_f64().unwrap() as f32;
    let detector = Detector::open(folder.path("model.nae")).unwrap();
    let images = nae_infer::input::read(&folder.path("turned.tiff")).unwrap();
    assert_eq!((images[0].pixels.shape.height, images[0].pixels.shape.width), (2, 1));
    assert_eq!(detector.score_pixels(&images[0].pixels).unwrap().energy, energy);
    let as_it_is = nae_infer::image::open(folder.path("turned.tiff")).unwrap();
    assert_ne!(detector.score(&as_it_is).unwrap().energy, energy);
}

#[test]
fn a_folder_is_scored_with_what_is_below_it() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("parts/b/c")).unwrap();
    let png = std::fs::read(folder.path("a.png")).unwrap();
    for name in ["parts/z.png", "parts/b/y.PNG", "parts/b/c/x.png", "parts/.hidden.png", "parts/notes.txt"] {
        std::fs::write(folder.path(name), &png).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "parts", "a.png", "--json"]).success();
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|line| line["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["parts/b/c/x.png", "parts/b/y.PNG", "parts/z.png", "a.png"]);
    std::fs::create_dir(folder.path("empty")).unwrap();
    let assert = folder.run(&["score", "model.nae", "empty", "a.png", "--json"]);
    let assert = assert.code(1).stderr(contains("empty: expected images (by their names), found none"));
    assert_eq!(lines(&assert.get_output().stdout).len(), 1);
}

#[test]
fn an_image_comes_by_standard_input() {
    let folder = Folder::new();
    let score = |bytes: Vec<u8>| {
        let mut command = Command::cargo_bin("nae-infer").unwrap();
        command.current_dir(folder.0.path()).args(["score", "model.nae", "-", "--json"]).write_stdin(bytes).assert()
    };
    let assert = score(std::fs::read(folder.path("a.png")).unwrap()).success();
    let found = lines(&assert.get_output().stdout).remove(0);
    let assert = folder.run(&["score", "model.nae", "a.png", "--json"]).success();
    assert_eq!((&found["input"], &found["energy"]), (&"-".into(), &lines(&assert.get_output().stdout)[0]["energy"]));
    score(b"no image".to_vec()).code(1).stderr(contains("-: expected a PNG, JPEG"));
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let folder = Folder::new();
    std::fs::write(folder.path("bad.png"), b"not a picture").unwrap();
    let png = std::fs::read(folder.path("a.png")).unwrap();
    std::fs::write(folder.path("short.png"), &png[..png.len() / 2]).unwrap();
    let nan: Vec<u8> = [f32::NAN; 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    folder.npy("nan.npy", "<f4", "(2, 2)", &nan);
    folder.npy("long.npy", "<f4", "(3, 2, 2)", &nan);
    folder.npy("i4.npy", "<i4", "(1, 2)", &nan[..8]);
    folder.npy("deep.npy", "<f4", &"(".repeat(3000), &nan);
    folder.npy("huge.npy", "<f4", "(4294967296, 4294967296, 4294967296)", &nan);
    let bad = ["bad.png", "short.png", "missing.png", "nan.npy", "long.npy", "i4.npy", "deep.npy", "huge.npy"];
    let arguments = [&["score", "model.nae"][..], &bad, &["a.png", "--json"]].concat();
    let assert = folder
        .run(&arguments)
        .code(1)
        .stderr(contains("bad.png: expected a PNG, JPEG, BMP, TIFF, WebP or PNM image, or a .npy file"))
        .stderr(contains("cannot read missing.png: No such file"))
        .stderr(contains("nan.npy: expected values from 0 to 1, found NaN at 0"))
        .stderr(contains("long.npy: expected as many bytes as its header says, found 16 for [3, 2, 2] of <f4"))
        .stderr(contains(
            "i4.npy: expected little-endian float32 ('<f4') or float64 ('<f8'), or uint8 ('|u1'), found <i4",
        ))
        .stderr(contains(
            "deep.npy: expected an array of floats or uint8, found records, or a header that NumPy does not write",
        ))
        .stderr(contains("short.png: "))
        .stderr(contains("huge.npy: "));
    let found = lines(&assert.get_output().stdout);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["input"], "a.png");
}

/// An editor's lock, a link to a file that is gone, and one that leads back: what can be read is scored.
#[test]
#[cfg(unix)]
fn a_folder_is_scored_but_for_what_cannot_be_read() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = Folder::new();
    let inside = folder.path("f");
    std::fs::create_dir_all(inside.join("sub")).unwrap();
    for name in ["a.png", "sub/b.png"] {
        std::fs::copy(folder.path("a.png"), inside.join(name)).unwrap();
    }
    for (target, link) in [("gone", ".#a.png"), ("gone", "latest.txt"), ("..", "sub/up")] {
        symlink(target, inside.join(link)).unwrap();
    }
    for command in [&["score", "model.onnx", "f", "--json"][..], &["score", "model.onnx", "f/", "f/a.png", "--json"]] {
        let output = folder.run(command).success().stderr(is_empty());
        assert!(lines(&output.get_output().stdout).len() >= 2, "{command:?}");
    }
    symlink("gone", inside.join("lost.png")).unwrap();
    symlink("round.png", inside.join("round.png")).unwrap();
    // Another user's folders, of which one is hidden. The superuser reads them, and finds nothing.
    let locked = ["locked", ".locked"].map(|name| inside.join(name));
    let lock = |mode| {
        locked.iter().for_each(|path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap());
    };
    locked.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    lock(0);
    let is_locked = std::fs::read_dir(&locked[0]).is_err();
    let output = folder.run(&["score", "model.onnx", "f", "--json"]).code(1);
    lock(0o700);
    assert_eq!(lines(&output.get_output().stdout).len(), 2);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let mut expected = vec!["f/lost.png: cannot be read: No such file", "f/round.png: cannot be read: Too many levels"];
    if is_locked {
        expected.insert(0, "f/locked: cannot be read: Permission denied");
    }
    let found: Vec<&str> = said.lines().collect();
    assert_eq!(found.len(), expected.len(), "{said}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected) && found.matches("f/").count() == 1, "{said}");
    }
}

/// A camera that changes the form of its files would otherwise look as if all was normal.
#[test]
fn files_of_a_folder_that_are_left_out_are_counted() {
    let folder = Folder::new();
    let inside = folder.path("f");
    std::fs::create_dir_all(inside.join("sub")).unwrap();
    for name in ["a.png", "b.heic", "sub/c.gif", ".hidden"] {
        std::fs::copy(folder.path("a.png"), inside.join(name)).unwrap();
    }
    let note = "note: 2 files are left out, such as f/b.heic: only images are read, by their names\n";
    folder.run(&["score", "model.onnx", "f"]).success().stderr(diff(note));
    folder.run(&["score", "model.onnx", "f", "--quiet"]).success().stderr(is_empty());
}

/// `all/f` would be found again as `all/f/up/f`.
#[test]
#[cfg(unix)]
fn files_are_scored_once_also_below_a_link_to_a_folder_above() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("all/f")).unwrap();
    std::fs::copy(folder.path("a.png"), folder.path("all/f/a.png")).unwrap();
    std::os::unix::fs::symlink("..", folder.path("all/f/up")).unwrap();
    let output = folder.run(&["score", "model.onnx", "all/f", "--json"]).success();
    assert_eq!(lines(&output.get_output().stdout).len(), 1);
}
