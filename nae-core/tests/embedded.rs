//! Models embedded at compile time, and the format's bytes as they are on disk.
#![allow(clippy::unwrap_used)]

mod models;

use nae_core::Shape;
use nae_core::calibration::Calibration;
use nae_core::contract::{Contract, Preprocessing, ResizeFilter};
use nae_core::energy::Energy;
use nae_core::layer::{Activation, Padding};
use nae_core::model::{Kind, Model, ModelError, Operators};
use nae_graph::{Conv2d, Graph, emit};

nae_core::include_model! {
    /// A box blur.
    struct Blur = "data/blur.nae";
}

#[test]
fn constants_and_operators_of_an_embedded_model() {
    const ARENA: [f32; Blur::ARENA_LEN] = [0.0; Blur::ARENA_LEN];
    let mut arena = ARENA;
    let image = [0.9; Blur::IMAGE_LEN];
    let output = Blur::engine().unwrap().run(&image, &mut arena).unwrap();
    // A corner sees four of nine pixels.
    assert!((output.reconstruction[0] - 0.4).abs() < 1e-6);
    assert!((output.reconstruction[5] - 0.9).abs() < 1e-6);

    let operators = Blur::MODEL.operators();
    assert!(operators.contains(Operators::kind(Kind::Conv2d)));
    assert!(!operators.contains(Operators::kind(Kind::ConvTranspose2d)));
    assert!(!operators.contains(Operators::activation(Activation::Tanh)));
}

#[cfg(target_os = "linux")]
nae_core::include_model! {
    /// A box blur in a section of its own.
    struct Placed = "data/blur.nae", section = ".nae_test_models";
}

/// The test's own program has the file in the section.
#[cfg(target_os = "linux")]
#[test]
fn a_model_lies_in_the_section_that_is_named() {
    let mut arena = [0.0; Placed::ARENA_LEN];
    let output = Placed::engine().unwrap().run(&[0.9; Placed::IMAGE_LEN], &mut arena).unwrap();
    assert!((output.reconstruction[0] - 0.4).abs() < 1e-6);

    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let number =
        |at: usize, len: usize| (0..len).rev().fold(0, |number, byte| number << 8 | usize::from(program[at + byte]));
    // ELF of 64 bits: where the sections' headers are, how long one is, how many there are, and which has their names.
    assert_eq!(program[..6], *b"\x7FELF\x02\x01");
    let [table, len, count, names] = [(0x28, 8), (0x3A, 2), (0x3C, 2), (0x3E, 2)].map(|(at, len)| number(at, len));
    let content = |section: usize| {
        let header = table + section * len;
        let (start, size) = (number(header + 0x18, 8), number(header + 0x20, 8));
        &program[start..start + size]
    };
    let name = |section: usize| content(names)[number(table + section * len, 4)..].split(|byte| *byte == 0).next();
    let found = (1..count).find(|section| name(*section) == Some(b".nae_test_models"));
    // Up to the alignment of 16.
    let (file, rest) = content(found.unwrap()).split_at(include_bytes!("data/blur.nae").len());
    assert_eq!(file, include_bytes!("data/blur.nae"));
    assert!(rest.len() < 16 && rest.iter().all(|byte| *byte == 0));
}

/// The twin of `include_model!`'s example that must not compile: this is why it doesn't.
#[test]
fn the_damaged_model_fails_by_its_checksum() {
    let damaged = include_bytes!("data/blur-damaged.nae");
    assert_eq!(Model::parse(damaged).map(|_| ()), Err(ModelError::Checksum));
}

/// Version 2 must stay readable and writable as it is: a change of the format shows here.
#[test]
fn the_format_on_disk_has_not_changed() {
    let blur = Conv2d::from_oihw(&[1.0 / 9.0; 9], [1, 1, 3, 3], None)
        .unwrap()
        .with_padding(Padding::all(1))
        .with_activation(Activation::Relu);
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.push(blur);
    let bytes = emit(&graph).unwrap();
    assert_eq!(bytes, include_bytes!("data/blur.nae"));
    // Header, one layer, nine weights and a bias.
    assert_eq!(bytes.len(), 128 + 80 + 4 * 10);
    assert_eq!(bytes[..12], *b"\x89NAE\r\n\x1a\n\x02\x00\x80\x00");
    assert_eq!(bytes[128..136], [1, 1, 0, 0, 0, 0, 0, 0]);
}

/// CRC-32 (IEEE 802.3), bit by bit: not the parser's own.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// As above, for files with every kind of layer of both types, every activation and both layouts: two numbers that are
/// exchanged in parser and writer alike show here alone. Where the writer comes to plan or pack such a model in another way,
/// these numbers change and the format does not; firmware that is in use has to read the new file, too.
#[test]
fn files_with_every_kind_of_layer_are_what_they_were() {
    let found = models::all().map(|file| (file.len(), crc32(&file)));
    assert_eq!(found, [(4212, 0x593D_2F4F), (3484, 0x739F_76AA), (3524, 0x8DCE_B955), (740, 0xF151_3DE5)]);
}

#[test]
fn energies_filters_and_flags_have_the_numbers_that_they_had() {
    let header = |change: &dyn Fn(&mut Contract)| {
        let mut graph = Graph::new(Shape::new(1, 4, 4));
        graph.push(Activation::Relu);
        change(&mut graph.contract);
        let bytes = emit(&graph).unwrap();
        [bytes[56], bytes[57], bytes[58]]
    };
    let energies = [Energy::SquaredL2, Energy::L1, Energy::Ssim];
    for (number, energy) in (0..).zip(energies) {
        assert_eq!(header(&|contract| contract.energy = energy)[0], number, "{energy:?}");
    }
    let filters = ["nearest", "box", "bilinear", "bilinear-align-corners", "catmull-rom", "lanczos3"];
    for (number, name) in (0..).zip(filters) {
        let preprocessing = Preprocessing::unit(ResizeFilter::from_name(name).unwrap());
        assert_eq!(header(&|contract| contract.preprocessing = preprocessing)[1], number, "{name}");
    }
    let calibration = |count| Calibration::from_energies(&mut vec![0.5; count]).unwrap();
    let flags = |change: &dyn Fn(Contract) -> Contract| header(&|contract| *contract = change(contract.clone()))[2];
    assert_eq!(flags(&|contract| contract), 0);
    assert_eq!(flags(&|contract| contract.with_log_normalizer(1.0).unwrap()), 1);
    assert_eq!(flags(&|contract| contract.with_calibration(calibration(9), 0.5).unwrap()), 2);
    assert_eq!(flags(&|contract| contract.with_p_values(calibration(257))), 4);
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.push(Activation::Relu);
    graph.prepared = true;
    assert_eq!(emit(&graph).unwrap()[58], 8);
}
