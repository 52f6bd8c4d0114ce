//! A user's images: what is read, what is chosen, what is refused.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use nae_core::Shape;
use nae_core::model::Preprocessing;
use nae_data::own::{self, Corrupt, RESIZE};
use nae_infer::image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage};
use nae_input as input;
use nae_input::table::{self, Cell};
use nae_onnx::metadata::Transforms;
use proptest::prelude::*;
use tempfile::TempDir;

fn grey(side: (u32, u32), n: u32) -> DynamicImage {
    DynamicImage::ImageLuma8(GrayImage::from_fn(side.0, side.1, |x, y| Luma([(x * 3 + y * 5 + n * 7) as u8])))
}

fn rgb(side: (u32, u32), n: u32) -> DynamicImage {
    DynamicImage::ImageRgb8(RgbImage::from_fn(side.0, side.1, |x, y| Rgb([(x * 9 + n) as u8, (y * 5) as u8, 7])))
}

fn save(image: &DynamicImage, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    image.save_with_format(path, ImageFormat::from_path(path).unwrap()).unwrap();
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

fn message(path: &Path, corrupt: Corrupt) -> String {
    own::choose(path, corrupt).expect_err("no images").to_string()
}

#[test]
fn a_folder_and_archives_of_it_are_the_same_images_as_in_scoring() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("screws");
    // Sides of 40, 30, 30 and 20 pixels; three formats; two classes.
    let names = ["good/a.png", "good/b.jpg", "worn/c.pgm", "worn/d.png"];
    for (n, (name, size)) in names.iter().zip([(40, 50), (60, 30), (30, 30), (20, 90)]).enumerate() {
        save(&grey(size, n as u32), &data.join(name));
    }
    std::fs::write(data.join("good/.hidden.png"), b"left by another system").unwrap();
    std::fs::write(data.join("notes.txt"), b"no image").unwrap();
    let (chosen, read) = own::choose(&data, Corrupt::Refuse).unwrap();
    assert_eq!((chosen.title.as_str(), chosen.shape()), ("screws", Shape::new(1, 28, 28)));
    assert_eq!(
        (read.classes.as_slice(), read.images.labels()),
        (&["good".to_owned(), "worn".into()][..], &[0, 0, 1, 1][..])
    );
    assert_eq!((read.skipped.len(), read.others, read.grey), (0, 2, 4));
    assert!(read.warnings()[0].contains("2 other files left out, such as \"notes.txt\""), "{:?}", read.warnings());
    for (n, name) in names.iter().enumerate() {
        let scored = input::read(&data.join(name)).unwrap();
        let prepared =
            input::prepare(&scored[0].pixels, chosen.shape(), Preprocessing::unit(RESIZE), Transforms::default())
                .unwrap();
        assert_eq!(read.images.image(n), prepared, "{name}");
    }

    let at = |name: &str| folder.path().join(name);
    let mut builder = tar::Builder::new(File::create(at("screws.tar")).unwrap());
    builder.append_dir_all("some/where", &data).unwrap();
    builder.finish().unwrap();
    let mut packed =
        flate2::write::GzEncoder::new(File::create(at("screws.tar.gz")).unwrap(), flate2::Compression::fast());
    packed.write_all(&std::fs::read(at("screws.tar")).unwrap()).unwrap();
    packed.finish().unwrap();
    let mut writer = zip::ZipWriter::new(File::create(at("screws.zip")).unwrap());
    for name in names.iter().rev() {
        writer.start_file(format!("../../{name}"), zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&std::fs::read(data.join(name)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    for archive in ["screws.tar", "screws.tar.gz", "screws.zip"] {
        let (again, packed) = own::choose(&at(archive), Corrupt::Refuse).unwrap();
        assert_eq!(again, chosen, "{archive}");
        assert_eq!((&packed.images, &packed.classes, &packed.sha256), (&read.images, &read.classes, &read.sha256));
    }
    assert!(!folder.path().parent().unwrap().join("good").exists(), "nothing is unpacked");
}

#[test]
fn colour_is_seen_in_pixels() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    // Grey images in RGB files.
    for n in 0..3 {
        save(&grey((10, 10), n).to_rgb8().into(), &path.join(format!("{n}.png")));
    }
    let (chosen, read) = own::choose(path, Corrupt::Refuse).unwrap();
    assert_eq!((chosen.shape(), read.grey), (Shape::new(1, 16, 16), 3));

    save(&rgb((10, 10), 0), &path.join("9.png"));
    let (chosen, read) = own::choose(path, Corrupt::Skip).unwrap();
    assert_eq!((chosen.shape(), read.grey), (Shape::new(3, 16, 16), 3));
    assert!(read.warnings()[0].contains("3 of 4 images are grey"), "{:?}", read.warnings());
    let message = message(path, Corrupt::Refuse);
    assert!(message.contains("3 of 4 images are grey") && message.contains("--strict"), "{message}");
}

#[test]
fn arrays_are_batches() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let bytes: Vec<u8> = (0..4 * 20 * 18).map(|i| (i % 251) as u8).collect();
    std::fs::write(path.join("x.npy"), npy("|u1", "(4, 20, 18, 1)", &bytes)).unwrap();
    let (chosen, array) = own::choose(&path.join("x.npy"), Corrupt::Refuse).unwrap();
    assert_eq!((chosen.title.as_str(), chosen.shape(), array.images.len()), ("x", Shape::new(1, 16, 16), 4));

    let floats: Vec<u8> = bytes.iter().flat_map(|&b| (f64::from(b) / 255.0).to_le_bytes()).collect();
    let mut writer = zip::ZipWriter::new(File::create(path.join("y.npz")).unwrap());
    for (name, array) in [("labels.npy", npy("<i8", "(1,)", &[0; 8])), ("x.npy", npy("<f8", "(4, 20, 18, 1)", &floats))]
    {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&array).unwrap();
    }
    writer.finish().unwrap();
    let (_, archive) = own::choose(&path.join("y.npz"), Corrupt::Refuse).unwrap();
    assert_eq!(archive.images, array.images);

    std::fs::write(path.join("z.npy"), npy("<f4", "(1, 2, 2)", &[64; 16])).unwrap();
    let message = message(&path.join("z.npy"), Corrupt::Skip);
    assert!(message.contains("z.npy") && message.contains("values from 0 to 1"), "{message}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    for n in 0..19 {
        save(&grey((16, 16), n), &data.join(format!("{n:02}.png")));
    }
    std::fs::write(data.join("05a.png"), b"no image").unwrap();
    let (_, read) = own::choose(&data, Corrupt::Skip).unwrap();
    assert_eq!((read.images.len(), read.skipped[0].name.as_str()), (19, "05a.png"));
    assert!(read.warnings()[0].contains("05a.png"), "{:?}", read.warnings());
    let refused = own::choose(&data, Corrupt::Refuse).unwrap_err();
    assert!(refused.to_string().contains(": 05a.png: "), "{refused}");
    #[cfg(unix)]
    {
        // Links to nothing: of an editor, and of an image that is no more.
        for name in [".#notes", "05b.png"] {
            std::os::unix::fs::symlink("nowhere", data.join(name)).unwrap();
        }
        let (_, read) = own::choose(&data, Corrupt::Skip).unwrap();
        let skipped: Vec<&str> = read.skipped.iter().map(|skipped| skipped.name.as_str()).collect();
        assert_eq!((read.images.len(), &skipped[..]), (19, &["05a.png", "05b.png"][..]));
        std::fs::remove_file(data.join("05b.png")).unwrap();
    }
    for n in 0..2 {
        std::fs::write(data.join(format!("cut{n}.jpg")), [0xff, 0xd8]).unwrap();
    }
    let refused = message(&data, Corrupt::Skip);
    assert!(refused.contains("3 of 22 files") && refused.contains("05a.png"), "{refused}");

    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(empty.join("notes.txt"), b"no image").unwrap();
    let refused = message(&empty, Corrupt::Skip);
    assert!(
        refused.contains("empty") && refused.contains("1 other file, such as ") && refused.contains("PNG"),
        "{refused}"
    );
    let refused = message(&folder.path().join("absent"), Corrupt::Skip);
    assert!(refused.contains("absent") && refused.contains("found nothing"), "{refused}");
}

#[test]
fn truncated_files_are_no_panic() {
    let folder = TempDir::new().unwrap();
    for name in ["a.png", "a.jpg", "a.ppm"] {
        let path = folder.path().join(name);
        save(&rgb((9, 7), 1), &path);
        let whole = std::fs::read(&path).unwrap();
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let _ = own::choose(&path, Corrupt::Skip);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_files_are_no_panic(
        name in prop::sample::select(vec!["a.png", "a.jpg", "a.ppm", "a.npy", "a.npz", "a.zip", "a.tar", "a.tar.gz"]),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(name);
        let array = npy("|u1", "(2, 3, 4)", &[1; 24]);
        match name {
            "a.npy" => std::fs::write(&path, &array).unwrap(),
            "a.npz" | "a.zip" => {
                let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
                writer.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
                writer.write_all(&array).unwrap();
                writer.finish().unwrap();
            }
            "a.tar" | "a.tar.gz" => {
                let mut header = tar::Header::new_gnu();
                header.set_size(array.len() as u64);
                let mut builder = tar::Builder::new(Vec::new());
                builder.append_data(&mut header, "x.npy", &array[..]).unwrap();
                let mut bytes = builder.into_inner().unwrap();
                if name.ends_with("gz") {
                    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    packed.write_all(&bytes).unwrap();
                    bytes = packed.finish().unwrap();
                }
                std::fs::write(&path, bytes).unwrap();
            }
            _ => save(&rgb((6, 5), 2), &path),
        }
        let mut bytes = std::fs::read(&path).unwrap();
        *at.get_mut(&mut bytes) = byte;
        std::fs::write(&path, bytes).unwrap();
        let _ = own::choose(&path, Corrupt::Skip);
    }

    #[test]
    fn tables_of_anything_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[0-9a,;\"\r\n\t .-]{0,80}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            if let Ok(table) = table::parse(Path::new("t.csv"), bytes) {
                prop_assert!(table.rows().iter().all(|row| row.cells.len() == table.names().len()));
            }
        }
    }

    #[test]
    fn tables_are_read_as_they_were_written(
        rows in (1usize..6).prop_flat_map(|width| {
            let cell = prop_oneof![any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Some), Just(None)];
            prop::collection::vec(prop::collection::vec(cell, width..=width), 1..20)
        }),
        delimiter in prop::sample::select(vec![",", ";", "\t"]),
        end in prop::sample::select(vec!["\n", "\r\n", "\n\n"]),
    ) {
        // One cell in quotes: a row of one missing cell is an empty line otherwise.
        let cell = |cell: &Option<f64>| cell.map_or_else(|| "\"\"".to_owned(), |number| format!("{number:?}"));
        let line = |row: &Vec<Option<f64>>| row.iter().map(cell).collect::<Vec<_>>().join(delimiter);
        let text = rows.iter().map(line).collect::<Vec<_>>().join(end);
        let table = table::parse(Path::new("t.csv"), text.as_bytes()).unwrap();
        let cells = rows.iter().map(|row| row.iter().map(|cell| cell.map_or(Cell::Missing, Cell::Number)).collect());
        prop_assert_eq!(table.rows().iter().map(|row| row.cells.clone()).collect::<Vec<_>>(), cells.collect::<Vec<Vec<_>>>());
        let step = end.matches('\n').count() as u64;
        prop_assert!(table.rows().iter().zip(0..).all(|(row, n)| row.line == 1 + n * step));
    }
}
