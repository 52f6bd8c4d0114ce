//! IDX files, the format of MNIST and Fashion-MNIST: images and their labels, gzipped or not.
//!
//! The format is LeCun's: a magic number that gives the type and the number of axes, the length of each axis as a
//! big-endian 32-bit number, then the values. Only values of one byte are supported.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use nae_core::Shape;
use sha2::{Digest as _, Sha256};

use crate::error::DataError;
use crate::image_set::ImageSet;

/// The size limit of a file in bytes, far above that of real data, so that a damaged or hostile file cannot fill the
/// memory.
const MAX_BYTES: u64 = 1 << 30;
/// The type code for unsigned bytes in the magic number.
const BYTES: u8 = 0x08;

/// Reads images `1 × rows × columns` from `images`, values in [0, 1], with the classes in `labels`. If a file does not
/// exist, the file with `.gz` added to its name is read instead.
///
/// Adds the unpacked bytes to `hash`.
///
/// # Errors
/// [`DataError`] with the file, what was expected and what was found.
pub fn load(images: &Path, labels: &Path, hash: &mut Sha256) -> Result<ImageSet, DataError> {
    let (bytes, path) = read(images, hash)?;
    let ([count, rows, columns], pixels) = parse::<3>(&bytes, &path)?;
    let (label_bytes, label_path) = read(labels, hash)?;
    let ([found], classes) = parse::<1>(&label_bytes, &label_path)?;
    if found != count {
        return Err(DataError::at(&label_path, format_args!("{found} labels for {count} images")));
    }
    let values = pixels.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    ImageSet::new(Shape::new(1, rows, columns), values, classes.to_vec()).map_err(|cause| DataError::at(&path, cause))
}

/// Calls [`load`] for the two files whose names begin with `start`, as in the original sets: `t10k` for
/// `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`.
///
/// # Errors
/// The same as for [`load`].
pub fn load_named(start: &Path, hash: &mut Sha256) -> Result<ImageSet, DataError> {
    let path = |end: &str| {
        let mut path = start.as_os_str().to_owned();
        path.push(end);
        PathBuf::from(path)
    };
    load(&path("-images-idx3-ubyte"), &path("-labels-idx1-ubyte"), hash)
}

/// Returns the unpacked content and the path of the file that was found.
fn read(path: &Path, hash: &mut Sha256) -> Result<(Vec<u8>, PathBuf), DataError> {
    let mut gzipped = path.as_os_str().to_owned();
    gzipped.push(".gz");
    let gzipped = PathBuf::from(gzipped);
    let found = [path.to_owned(), gzipped].into_iter().find(|path| path.is_file());
    let Some(found) = found else {
        return Err(DataError::at(path, "neither this file nor the same name with .gz exists")
            .of_system(std::io::ErrorKind::NotFound));
    };
    let failed = |cause: std::io::Error| DataError::io(&found, &cause);
    let file = std::fs::File::open(&found).map_err(failed)?;
    let mut bytes = Vec::new();
    if found.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(file).take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    }
    hash.update(&bytes);
    Ok((bytes, found))
}

/// Returns the lengths of the axes, and the values.
fn parse<'a, const AXES: usize>(bytes: &'a [u8], path: &Path) -> Result<([usize; AXES], &'a [u8]), DataError> {
    let failed = |found: String| {
        DataError::at(path, format_args!("expected an IDX file of bytes with {AXES} axes, found {found}"))
    };
    let (magic, rest) = bytes.split_at_checked(4).ok_or_else(|| failed(format!("{} bytes", bytes.len())))?;
    if magic != [0, 0, BYTES, AXES as u8] {
        return Err(failed(format!("the magic number {magic:02x?}")));
    }
    let (header, values) = rest.split_at_checked(4 * AXES).ok_or_else(|| failed("a header cut short".to_owned()))?;
    let mut lengths = [0; AXES];
    for (length, bytes) in lengths.iter_mut().zip(header.as_chunks::<4>().0) {
        *length = u32::from_be_bytes(*bytes) as usize;
    }
    let expected = lengths.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
    if expected != Some(values.len()) {
        return Err(failed(format!("{} values for axes of {lengths:?}", values.len())));
    }
    Ok((lengths, values))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("writes");
        path
    }

    fn idx(axes: &[u32], values: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, BYTES, axes.len() as u8];
        axes.iter().for_each(|axis| bytes.extend(axis.to_be_bytes()));
        bytes.extend(values);
        bytes
    }

    #[test]
    fn images_and_labels_plain_and_gzipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let (images, labels) = (idx(&[2, 1, 3], &[0, 51, 255, 1, 2, 3]), idx(&[2], &[7, 1]));
        let plain = file(folder.path(), "images", &images);
        let label_path = file(folder.path(), "labels", &labels);
        let set = load(&plain, &label_path, &mut Sha256::new()).expect("valid");
        assert_eq!((set.shape(), set.labels()), (Shape::new(1, 1, 3), &[7, 1][..]));
        assert_eq!(set.image(0), [0.0, 0.2, 1.0]);

        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&images).expect("packs");
        file(folder.path(), "packed.gz", &packed.finish().expect("packs"));
        let (mut a, mut b) = (Sha256::new(), Sha256::new());
        let again = load(&folder.path().join("packed"), &label_path, &mut a).expect("valid");
        load(&plain, &label_path, &mut b).expect("valid");
        assert_eq!(again, set);
        assert_eq!(a.finalize(), b.finalize(), "packing does not change what the data is");
    }

    #[test]
    fn what_is_no_idx_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = file(folder.path(), "good", &idx(&[1, 1, 2], &[1, 2]));
        let label = file(folder.path(), "label", &idx(&[1], &[1]));
        let message =
            |images: &Path, labels: &Path| load(images, labels, &mut Sha256::new()).expect_err("no images").to_string();
        for (name, bytes) in [
            ("empty", Vec::new()),
            ("labels-for-images", idx(&[1], &[1])),
            ("cut", idx(&[1, 1, 2], &[1])),
            ("header", vec![0, 0, BYTES, 3, 0, 0]),
            ("huge", idx(&[u32::MAX, u32::MAX, u32::MAX], &[1])),
        ] {
            let path = file(folder.path(), name, &bytes);
            let message = message(&path, &label);
            assert!(message.contains(name) && message.contains("3 axes"), "{message}");
        }
        let two = file(folder.path(), "two", &idx(&[2], &[1, 2]));
        assert!(message(&good, &two).contains("2 labels for 1 images"));
        assert!(message(&folder.path().join("absent"), &label).contains("absent"));
        let broken = file(folder.path(), "broken.gz", b"not gzip");
        assert!(message(&broken.with_extension(""), &label).contains("broken.gz"));
    }
}
