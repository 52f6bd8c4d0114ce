//! CIFAR-10's binary batches (Krizhevsky 2009): records of a label and 32×32 pixels, red before green before blue.

use std::path::Path;

use nae_core::Shape;
use nae_onnx::file::{self};
use sha2::{Digest as _, Sha256};

use crate::error::DataError;
use crate::image_set::ImageSet;

/// The shape of an image.
pub const SHAPE: Shape = Shape::new(3, 32, 32);
/// The files of the training part, in order.
pub const TRAIN: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
/// The files of the test part.
pub const TEST: [&str; 1] = ["test_batch.bin"];

/// The name of the folder in the set's archive.
const UNPACKED: &str = "cifar-10-batches-bin";
const RECORD: usize = 1 + SHAPE.channels * SHAPE.height * SHAPE.width;
const CLASSES: u8 = 10;
/// The size limit of a file in bytes; a batch has 10,000 records, about 30 MB.
const MAX_BYTES: u64 = 1 << 28;

/// Reads the images of the files `names` in `folder`, or in the folder of the unpacked archive within it: 3×32×32,
/// values in [0, 1], with their classes. Adds the bytes read to `hash`.
///
/// # Errors
/// [`DataError`] with the file, what was expected and what was found.
pub fn load(folder: &Path, names: &[&str], hash: &mut Sha256) -> Result<ImageSet, DataError> {
    let unpacked = folder.join(UNPACKED);
    let folder = if unpacked.is_dir() { &unpacked } else { folder };
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for name in names {
        let path = folder.join(name);
        let bytes = file::read(&path, MAX_BYTES)?;
        let (records, rest) = bytes.as_chunks::<RECORD>();
        if records.is_empty() || !rest.is_empty() {
            let found = bytes.len();
            return Err(DataError::at(
                &path,
                format_args!(
                    "expected records of {RECORD} bytes, found {found} bytes; the binary version of CIFAR-10 is read, \
                     not the one for Python"
                ),
            ));
        }
        for (record, [label, pixels @ ..]) in records.iter().enumerate() {
            if *label >= CLASSES {
                let problem = format_args!("record {record}: expected a label of 0 to 9, found {label}");
                return Err(DataError::at(&path, problem));
            }
            labels.push(*label);
            values.extend(pixels.iter().map(|&byte| f32::from(byte) / 255.0));
        }
        hash.update(&bytes);
    }
    ImageSet::new(SHAPE, values, labels).map_err(|cause| DataError::at(folder, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(label: u8, [red, green, blue]: [u8; 3]) -> Vec<u8> {
        let plane = |value| std::iter::repeat_n(value, SHAPE.height * SHAPE.width);
        std::iter::once(label).chain(plane(red)).chain(plane(green)).chain(plane(blue)).collect()
    }

    #[test]
    fn planes_and_labels_come_in_the_order_of_the_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let unpacked = folder.path().join(UNPACKED);
        std::fs::create_dir(&unpacked).expect("makes");
        for (n, name) in TRAIN.iter().enumerate() {
            let bytes = [record(n as u8, [0, 51, 255]), record(9, [n as u8, 0, 0])].concat();
            std::fs::write(unpacked.join(name), bytes).expect("writes");
        }
        let (mut a, mut b) = (Sha256::new(), Sha256::new());
        let set = load(folder.path(), &TRAIN, &mut a).expect("valid");
        assert_eq!(set, load(&unpacked, &TRAIN, &mut b).expect("valid"));
        assert_eq!(a.finalize(), b.finalize());
        assert_eq!((set.shape(), set.labels()), (SHAPE, &[0, 9, 1, 9, 2, 9, 3, 9, 4, 9][..]));
        let image = set.image(2);
        assert_eq!((image[0], image[1023], image[1024], image[2048]), (0.0, 0.0, 0.2, 1.0));
        let message = load(folder.path(), &TEST, &mut Sha256::new()).expect_err("absent").to_string();
        assert!(message.contains("test_batch.bin"), "{message}");
    }

    #[test]
    fn what_is_no_batch_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let message = |bytes: &[u8]| {
            std::fs::write(folder.path().join(TEST[0]), bytes).expect("writes");
            load(folder.path(), &TEST, &mut Sha256::new()).expect_err("no batch").to_string()
        };
        let good = record(3, [1, 2, 3]);
        for bytes in [&good[..RECORD - 1], &[], &[&good[..], &[0]].concat()] {
            let message = message(bytes);
            assert!(message.contains("test_batch.bin") && message.contains("3073 bytes"), "{message}");
        }
        let message = message(&[&good[..], &record(10, [0; 3])].concat());
        assert!(message.contains("record 1") && message.contains("found 10"), "{message}");
    }
}
