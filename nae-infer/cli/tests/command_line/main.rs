//! The program `nae-infer` as its users call it, but for the service. A file for each thing it does; here is the folder with models
//! and images that all tests use.
#![allow(clippy::unwrap_used)]

mod bench;
mod calibrate;
mod inputs;
mod printing;
mod score;
#[path = "../../../../crates/nae-onnx/tests/support/mod.rs"]
mod support;
mod tables;
mod usage;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use nae_core::energy::Energy;
use nae_infer::image::{DynamicImage, GrayImage, ImageFormat, Luma};
use nae_onnx::metadata::ModelMetadata;
use nae_onnx::proto::ModelProto;
use prost::Message as _;

struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with `model.onnx`, `model.nae`, and an 8×8 `a.png`, `a.jpg` and `a.pgm`.
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        let onnx = support::digits(1, Energy::SquaredL2).unwrap();
        std::fs::write(this.path("model.onnx"), &onnx).unwrap();
        std::fs::write(this.path("model.nae"), nae_onnx::lower::to_nae(&onnx).unwrap()).unwrap();
        let image = GrayImage::from_fn(8, 8, |x, y| Luma([(17 * (x + y)) as u8]));
        let image = DynamicImage::ImageLuma8(image);
        for (name, format) in [("a.png", ImageFormat::Png), ("a.jpg", ImageFormat::Jpeg), ("a.pgm", ImageFormat::Pnm)] {
            image.save_with_format(this.path(name), format).unwrap();
        }
        this
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Adds the file `name`: `model.onnx` with other metadata.
    fn model_with(&self, name: &str, change: impl FnOnce(&mut ModelMetadata)) {
        let mut model = ModelProto::decode(&*std::fs::read(self.path("model.onnx")).unwrap()).unwrap();
        let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
        change(&mut metadata);
        metadata.replace_in(&mut model);
        std::fs::write(self.path(name), model.encode_to_vec()).unwrap();
    }

    /// The command, in the folder.
    fn run(&self, arguments: &[&str]) -> assert_cmd::assert::Assert {
        Command::cargo_bin("nae-infer").unwrap().current_dir(self.0.path()).args(arguments).assert()
    }

    fn npy(&self, name: &str, descr: &str, shape: &str, data: &[u8]) {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        std::fs::write(self.path(name), bytes).unwrap();
    }
}

fn lines(output: &[u8]) -> Vec<serde_json::Value> {
    std::str::from_utf8(output).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}
