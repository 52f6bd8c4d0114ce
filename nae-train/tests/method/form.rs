//! The form of a user's images, chosen by made-up defects.

use std::path::Path;

use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_onnx::metadata::Transforms;
use nae_train::engine::EngineChoice;
use nae_train::form::{self, Chosen, Form, FormError, Forms};

/// Images of 96 pixels a side: `value` of column and row, each shifted a little.
fn images(folder: &Path, count: usize, value: impl Fn(usize, usize) -> u8) {
    for n in 0..count {
        let mut pgm = b"P5 96 96 255\n".to_vec();
        pgm.extend((0..96 * 96).map(|at| value(at % 96 + n % 5, at / 96 + n % 7)));
        std::fs::write(folder.join(format!("{n:03}.pgm")), pgm).expect("written");
    }
}

/// A weave of threads eight pixels wide.
fn weave(x: usize, y: usize) -> u8 {
    if (x / 8 + y / 8).is_multiple_of(2) { 60 } else { 190 }
}

fn best(folder: &Path) -> Result<Chosen, FormError> {
    let (transforms, corrupt) = (Transforms::default(), Corrupt::Skip);
    let forms = Forms { transforms, tiles: None, top_k: 1, features: None, corrupt };
    // As many updates on every machine.
    form::best(folder, &forms, EngineChoice::Auto, &Device::flex(), None, 5)
}

/// A tile knows all there is of a weave, and an image made small has its threads blurred.
#[test]
fn a_weave_is_cut_into_tiles() {
    let folder = tempfile::tempdir().expect("a folder");
    images(folder.path(), 60, weave);
    // Smaller than any tile: it is left out.
    std::fs::write(folder.path().join("thumbnail.pgm"), [b"P5 10 10 255\n", &[60; 100][..]].concat()).expect("written");
    let Chosen { form, said, warnings } = best(folder.path()).expect("images");
    assert_eq!(warnings, Vec::<String>::new());
    assert!(matches!(form, Form::Tiles(32, tiles) if tiles.stride == 16), "{form:?}: {said:?}");
    assert!(said[0].starts_with("form: tiles of 32x32 pixels") && said[0].contains("15 images"), "{said:?}");
    assert!(said.len() >= 3, "why, and each form's figures: {said:?}");
    let mean = |said: &str| said.split("mean AUROC ").nth(1)?.split(' ').next()?.parse::<f64>().ok();
    let means = [mean(&said[1]), mean(&said[2])].map(|mean| mean.expect("a figure"));
    assert!(means[1] > means[0] + 0.1, "{said:?}");
}

#[test]
fn images_that_lose_nothing_and_too_few_stay_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    images(folder.path(), 60, |x, y| (x + y) as u8);
    let whole = Chosen { form: Form::Whole, said: Vec::new(), warnings: Vec::new() };
    assert_eq!(best(folder.path()).expect("images"), whole);
    // Without the two that are smaller than a tile there would be too few.
    let barely = tempfile::tempdir().expect("a folder");
    images(barely.path(), 59, weave);
    for name in ["a.pgm", "b.pgm"] {
        std::fs::write(barely.path().join(name), [b"P5 10 10 255\n", &[60; 100][..]].concat()).expect("written");
    }
    let Chosen { form, said, .. } = best(barely.path()).expect("images");
    assert!(form == Form::Whole && said[0].ends_with("tiles do not fit them: give --tile, or --features"), "{said:?}");
    let few = tempfile::tempdir().expect("a folder");
    images(few.path(), 20, weave);
    let Chosen { form, said, .. } = best(few.path()).expect("images");
    assert_eq!(form, Form::Whole);
    assert!(said[0].contains("fewer than 60 images are too few"), "{said:?}");
}
