//! A user's images: PNG, JPEG, BMP, TIFF, WebP and PNM files and NumPy batches in a folder or an archive, converted to
//! one shape.
//!
//! Decoding and resizing are those of `nae-infer`, so that a model has the same inputs in training and in scoring.
//! [`choose`] reads images and chooses their shape; [`load`] reads images with a given shape. Both return the same
//! images for the same files, whether packed or not: sorted by name, with the sub-folder as class. The trainer chooses
//! the model for them.

use std::cell::{Cell, OnceCell};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nae_core::Shape;
use nae_core::contract::ResizeFilter;
use nae_input::table::is_table;
use nae_input::{Named, Pixels};
use nae_onnx::metadata::{Tiles, Transforms};
use serde::{Deserialize, Serialize};

use crate::collect::{Collected, Collector, MAX_VALUES};
use crate::counted::{counted, listed};
use crate::error::DataError;
use crate::file_names::{is_array, is_hidden, is_image};
use crate::files::{Files, zip_in_memory};
use crate::tables::{mostly_tables, others_beside};

pub use crate::files::title;
use crate::image_form::{ImageForm, Samples};
use crate::image_set::ImageSet;
use crate::not_normal::means_not_normal;

/// The sides that [`choose`] selects from, in pixels.
pub const SIDES: [usize; 3] = [16, 28, 32];
/// How a user's images are resized: bilinear, with a wider filter for reduction so that every pixel contributes.
pub const RESIZE: ResizeFilter = ResizeFilter::Bilinear;
/// Up to one damaged file in this many is accepted as an accident; more are probably a mistake of the user.
const CORRUPT_SHARE: usize = 10;

/// The endings of files that are probably tables, and of images in formats that are not read.
const TABLE_ENDS: [&str; 8] = ["txt", "dat", "tab", "xls", "xlsx", "ods", "parquet", "json"];
const IMAGE_ENDS: [&str; 8] = ["gif", "heic", "heif", "avif", "jxl", "dng", "dcm", "svg"];
/// The addition to an error for an array that is a single image: it is perhaps meant as a table.
const ONE_ARRAY: &str = "; an array [H, W] is one image: give a table as .csv";
/// If no value of any image is larger, they probably do not use the range of their files.
const DARK: f32 = 0.1;
/// The largest number of images in all arrays of an .npz file, as `nae_input` reads from one array, and of their values: as
/// many as the largest array of bytes has.
const MOST_IMAGES: usize = 1 << 20;
const MOST_VALUES: usize = nae_input::MAX_FILE as usize;
/// Names of folders, besides [words](means_not_normal), whose images are probably not normal, or not all of them.
const MIXED: [&str; 3] = ["ground_truth", "test", "tests"];
/// The number of damaged files that a warning lists.
const NAMED: usize = 5;

/// The title of a user's images and the shape they are converted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnImages {
    /// The name of the folder or file, for tables and metadata.
    pub title: String,
    /// The number of channels: 1 for grey, 3 for RGB.
    pub channels: usize,
    /// The side in pixels, for both rows and columns: of the image, or of its tiles.
    pub side: usize,
    /// How images are cut into tiles; `None` if they are resized as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiles: Option<Tiles>,
}

impl OwnImages {
    /// The shape of an image, or of a tile.
    pub fn shape(&self) -> Shape {
        Shape::new(self.channels, self.side, self.side)
    }

    /// How an image is converted to samples, without transforms.
    pub fn form(&self) -> ImageForm {
        ImageForm { tiles: self.tiles, ..ImageForm::resized(self.shape(), RESIZE) }
    }
}

/// How files that cannot be decoded are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Corrupt {
    /// They are skipped and reported, as long as they are at most a tenth of the files.
    #[default]
    Skip,
    /// Reading fails at the first such file, and also if grey and coloured images are mixed.
    Refuse,
}

/// A file that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The name of the file in the folder or archive.
    pub name: String,
    /// The reason why it cannot be read.
    pub reason: String,
}

/// The images of a folder or archive, with a report on its files.
#[derive(Clone, Debug)]
pub struct Collection {
    /// The images, sorted by name. The label is the position of the [class](Self::classes), modulo 256, since labels
    /// are only compared with each other.
    pub images: ImageSet,
    /// The names of the sub-folders that contain the images, sorted; one empty name if there are no sub-folders.
    /// Folders that contain all files are ignored.
    pub classes: Vec<String>,
    /// The number of images of each class.
    pub counts: Vec<usize>,
    /// The SHA-256 of the files' names and contents, in hexadecimal; the same for a folder and for an archive of it.
    pub sha256: String,
    /// The files that cannot be decoded.
    pub skipped: Vec<Skipped>,
    /// The number of files whose names are not those of supported images, including hidden files.
    pub others: usize,
    /// The name of the first of these files that is not hidden.
    pub first_other: Option<String>,
    /// The number of images without colour.
    pub grey: usize,
}

impl Collection {
    /// Warnings about folders whose names say that their images are not normal, one sentence each; for data that are
    /// trained on.
    pub fn doubtful(&self) -> Vec<String> {
        let is_mixed = |name: &str| MIXED.iter().any(|known| name.eq_ignore_ascii_case(known));
        let is_doubtful = |name: &str| is_mixed(name) || means_not_normal(name);
        let found = self.classes.iter().zip(&self.counts).filter(|(name, _)| is_doubtful(name));
        let warn = |(name, count): (&String, &usize)| {
            format!(
                "the folder {name:?} ({}) is trained on like the others: if its images are not all normal, keep it apart, and \
                 give it with --outliers",
                counted(*count, "image")
            )
        };
        found.map(warn).collect()
    }

    /// Warnings about the data that affect how far a model can be trusted, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.skipped.is_empty() {
            let named = self.skipped.iter().map(|Skipped { name, reason }| format!("{name}: {reason}"));
            let named = listed(&named.collect::<Vec<_>>(), NAMED, "; ");
            warnings.push(format!("files that cannot be read are left out: {named}"));
        }
        if self.others > 0 {
            let such = self.first_other.as_ref().map(|name| format!(", such as {name:?}")).unwrap_or_default();
            let files = counted(self.others, "other file");
            warnings.push(format!("{files} left out{such}: only files with the name of an image or array are read"));
        }
        if self.images.shape().channels == 3 && self.grey > 0 && self.grey < self.images.units().len() {
            let (grey, all) = (self.grey, self.images.units().len());
            warnings.push(format!("{grey} of {all} images are grey, the others coloured: all are taken as coloured"));
        }
        let largest = self.images.values().iter().copied().fold(0.0, f32::max);
        if largest == 0.0 {
            warnings.push("all images are black".to_owned());
        } else if largest < DARK {
            warnings.push(format!(
                "the largest value of all images is {largest:.3}, where 1 is white: images of 10 or 12 bits in files of 16 are \
                 like this, and training may diverge; multiply the values by {:.0}",
                (1.0 / largest).floor()
            ));
        }
        warnings
    }
}

/// Reads the images at `path` and chooses their shape: one channel if every image is grey, even if stored as RGB; the
/// side is the largest of [`SIDES`] that does not exceed the median of the images' shorter sides.
///
/// # Errors
/// [`DataError`] with the folder or archive, what was expected, what was found, and what to do.
pub fn choose(path: &Path, corrupt: Corrupt) -> Result<(OwnImages, Collection), DataError> {
    choose_with(path, &Asked::default(), corrupt)
}

/// Requested properties of the images, in place of chosen ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The number of channels and the side of the network's input.
    pub shape: Option<(usize, usize)>,
    /// The side of tiles in pixels, and how images are cut.
    pub tiles: Option<(usize, Tiles)>,
    /// The transforms that are applied to every image.
    pub transforms: Transforms,
}

/// Reads the images at `path`, and chooses what `asked` leaves open as [`choose`] does.
///
/// # Errors
/// The same as for [`choose`]. An image smaller than a tile counts as one that cannot be read.
pub fn choose_with(path: &Path, asked: &Asked, corrupt: Corrupt) -> Result<(OwnImages, Collection), DataError> {
    if let Some(found) = mostly_tables(path) {
        return Err(mixed(path, &found));
    }
    let files = Files::open(path)?;
    let given = asked.tiles.map(|(side, _)| side).or(asked.shape.map(|(_, side)| side));
    let side = given.map_or_else(|| side(&files), Ok)?;
    let mut own = OwnImages { title: title(path), channels: 1, side, tiles: asked.tiles.map(|(_, tiles)| tiles) };
    let form = |own: &OwnImages| ImageForm { transforms: asked.transforms, ..own.form() };
    if let Some((channels, _)) = asked.shape {
        own.channels = channels;
        let collection = load(path, &form(&own), corrupt)?;
        return Ok((own, collection));
    }
    let collection =
        match gather(&files, &form(&own), corrupt, Wanted { grey_only: true, most: MAX_VALUES, named: &|_| true })? {
            Some(collection) => collection,
            // At least one image is coloured.
            None => {
                own.channels = 3;
                load(path, &form(&own), corrupt)?
            }
        };
    Ok((own, collection))
}

/// Reads the images at `path` in a given form, as in scoring.
///
/// # Errors
/// [`DataError`] with the folder or archive, what was expected, what was found, and what to do.
pub fn load(path: &Path, form: &ImageForm, corrupt: Corrupt) -> Result<Collection, DataError> {
    load_some(path, form, corrupt, MAX_VALUES, &|_| true)
}

/// Same as [`load`], for the images whose names `wanted` accepts, with `most` values at most.
pub(super) fn load_some(
    path: &Path,
    form: &ImageForm,
    corrupt: Corrupt,
    most: usize,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Collection, DataError> {
    let files = Files::open(path)?;
    let collection = gather(&files, form, corrupt, Wanted { grey_only: false, most, named: wanted })?;
    // `None` is only returned for `grey_only`.
    collection.ok_or_else(|| empty(path, 0, None))
}

/// Chooses the side to train at. Files that cannot be read are ignored here; reading the images reports them.
fn side(files: &Files) -> Result<usize, DataError> {
    // Number of images by side; all sides above the largest of `SIDES` count as one.
    let mut counts = [0_usize; SIDES[SIDES.len() - 1] + 1];
    let mut count = |side: usize| counts[side.min(SIDES[SIDES.len() - 1])] += 1;
    files.visit(&is_image, &mut |name, content| {
        let Ok(bytes) = content else { return ControlFlow::Continue(()) };
        if let Ok((width, height)) = nae_input::dimensions(&bytes) {
            count(width.min(height) as usize);
        } else if let Ok(images) = images(name, &bytes) {
            images.iter().for_each(|image| count(image.pixels.shape.height.min(image.pixels.shape.width)));
        }
        ControlFlow::Continue(())
    })?;
    let middle = counts.iter().sum::<usize>() / 2;
    let mut up_to = 0;
    let median = counts.iter().position(|&count| {
        up_to += count;
        up_to > middle
    });
    Ok(largest_side(median.unwrap_or(SIDES[0])))
}

/// The largest of [`SIDES`] that does not exceed `shorter`, the shorter side of an image; the smallest if all exceed
/// it.
pub fn largest_side(shorter: usize) -> usize {
    SIDES.into_iter().rev().find(|&side| side <= shorter).unwrap_or(SIDES[0])
}

/// Decodes the images of one file.
pub(super) fn images(name: &str, bytes: &[u8]) -> Result<Vec<Named>, String> {
    if !name.to_ascii_lowercase().ends_with(".npz") {
        // The caller adds the name to the message.
        let named = format!("{name}: ");
        return nae_input::parse(Path::new(name), bytes)
            .map_err(|error| error.to_string().trim_start_matches(&named).to_owned());
    }
    let (mut all, mut values, mut failure) = (Vec::new(), 0, None);
    let mut arrays: Vec<(String, Shape, usize)> = Vec::new();
    let read = zip_in_memory(bytes, &|entry| entry.ends_with(".npy"), &mut |entry, content| {
        let array = content.and_then(|bytes| {
            // Arrays with at most one axis are not images, for example labels.
            if is_list(&bytes) { Ok(Vec::new()) } else { images(&format!("{name}/{entry}"), &bytes) }
        });
        let array = array.map_err(|reason| format!("{entry}: {reason}")).and_then(|images| {
            arrays.extend(images.first().map(|image| (entry.to_owned(), image.pixels.shape, images.len())));
            values += images.iter().map(|image| image.pixels.values.len()).sum::<usize>();
            check_counts(all.len() + images.len(), values).map(|()| images)
        });
        match array {
            Ok(images) => all.extend(images),
            Err(reason) => failure = Some(reason),
        }
        if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.map_err(|reason| format!("expected a .npz file: {reason}"))?;
    let failure = failure.or_else(|| of_one_kind(&arrays).err());
    match failure {
        Some(reason) => Err(reason),
        None if all.is_empty() => Err("expected an array of images, [N, H, W] or [N, H, W, C], found none".to_owned()),
        None => Ok(all),
    }
}

/// Refuses an array of one image beside one of several images of another shape, with names and shapes: it may have one-hot labels, a
/// row for each image.
fn of_one_kind(arrays: &[(String, Shape, usize)]) -> Result<(), String> {
    let (many, single): (Vec<_>, Vec<_>) = arrays.iter().partition(|(.., count)| *count > 1);
    let (Some(some), Some(one)) = (many.first(), single.first()) else { return Ok(()) };
    // If any two differ, one of these does.
    let differing = single.iter().find(|(_, shape, _)| *shape != some.1).map(|single| (some, single));
    let differing = differing.or_else(|| many.iter().find(|(_, shape, _)| *shape != one.1).map(|many| (many, one)));
    match differing {
        Some(((many, shape, _), (single, one, _))) => Err(format!(
            "expected images of one shape, found {shape} in {many} and {one} in {single}; give only the arrays that are images"
        )),
        None => Ok(()),
    }
}

/// Refuses more images or values in one file than a program keeps in memory without need.
fn check_counts(images: usize, values: usize) -> Result<(), String> {
    let wrong = |most, what| Err(format!("expected at most {most} {what}, found more; divide them into several files"));
    match (images, values) {
        (images, _) if images > MOST_IMAGES => wrong("1,048,576", "images"),
        (_, values) if values > MOST_VALUES => wrong("1,073,741,824", "values"),
        _ => Ok(()),
    }
}

/// Whether the array in `bytes` has at most one axis. If the header cannot be parsed here, the array is treated as
/// images.
fn is_list(bytes: &[u8]) -> bool {
    let header = String::from_utf8_lossy(bytes.get(..bytes.len().min(256)).unwrap_or_default());
    let shape = header.split_once("'shape':").and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
    shape.is_some_and(|(shape, _)| shape.split(',').filter(|extent| !extent.trim().is_empty()).count() < 2)
}

/// Which images are read.
struct Wanted<'a> {
    /// Whether reading ends at the first coloured image.
    grey_only: bool,
    /// The largest number of values.
    most: usize,
    /// Selects from the files with names of images those that are read.
    named: &'a dyn Fn(&str) -> bool,
}

/// The images of one file.
enum Decoded {
    /// The file's bytes, the number of images without colour, and the samples of each image.
    Images(Vec<u8>, usize, Vec<Samples>),
    /// At least one is coloured, and only grey ones are wanted.
    Coloured,
    /// They are more than all files together may have.
    TooMany,
}

/// Reads images in one form; `None` if one is coloured and only grey ones are wanted.
fn gather(
    files: &Files,
    form: &ImageForm,
    corrupt: Corrupt,
    Wanted { grey_only, most, named }: Wanted<'_>,
) -> Result<Option<Collection>, DataError> {
    let (path, shape) = (files.path(), form.shape);
    let mut collector = Collector::new(form, most);
    let limit = collector.limit();
    // Of all files that have been decoded, in whatever order.
    let total = AtomicUsize::new(0);
    let (mut skipped, mut grey, mut coloured, mut failure) = (Vec::new(), 0, false, None);
    let (others, first_other) = (Cell::new(0), OnceCell::new());
    let wanted = |name: &str| {
        let image = is_image(name);
        if !image {
            others.set(others.get() + 1);
            if !is_hidden(name) {
                first_other.get_or_init(|| name.to_owned());
            }
        }
        image && named(name)
    };
    let decode = |name: &str, bytes: Vec<u8>| {
        let images = images(name, &bytes)?;
        let greys = images.iter().filter(|image| is_grey(&image.pixels)).count();
        if grey_only && greys < images.len() {
            return Ok(Decoded::Coloured);
        }
        // Before they are made: a single image may have more tiles than fit into the memory.
        let samples = images.iter().map(|image| form.count(image.pixels.shape).unwrap_or(1));
        let samples = samples.fold(0, usize::saturating_add);
        if total.fetch_add(samples, Ordering::Relaxed).saturating_add(samples) > limit {
            return Ok(Decoded::TooMany);
        }
        // The caller names the file.
        let at = |index| if images.len() > 1 { format!("image {index}: ") } else { String::new() };
        let of_one = if images.len() == 1 && is_array(Path::new(name)) { ONE_ARRAY } else { "" };
        let prepared = images
            .iter()
            .enumerate()
            .map(|(index, image)| form.samples(&image.pixels).map_err(|error| format!("{}{error}{of_one}", at(index))));
        Ok(Decoded::Images(bytes, greys, prepared.collect::<Result<Vec<_>, String>>()?))
    };
    files.visit_decoded(&wanted, &decode, &mut |name, decoded| {
        match decoded {
            Ok(Decoded::Coloured) => coloured = true,
            Ok(Decoded::TooMany) => {
                let what = format_args!("more than {limit} images or tiles of {shape}");
                let todo = "give a part of them, or a larger --stride";
                failure = Some(DataError::at(path, format_args!("{what}; {todo}")));
            }
            Ok(Decoded::Images(bytes, greys, values)) => {
                grey += greys;
                collector.add(name, &bytes, values);
            }
            Err(reason) if corrupt == Corrupt::Refuse => {
                let problem = format_args!("{name}: {reason}; correct or remove it, or leave --strict out");
                failure = Some(DataError::at(path, problem));
            }
            Err(reason) => skipped.push(Skipped { name: name.to_owned(), reason }),
        }
        if coloured || failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if coloured {
        return Ok(None);
    }
    let files = collector.files() + skipped.len();
    if files == 0 {
        return Err(empty(path, others.get(), first_other.get().map(String::as_str)));
    }
    if let Some(Skipped { name, reason }) = skipped.first()
        && skipped.len() * CORRUPT_SHARE > files
    {
        let corrupt = skipped.len();
        let share = format_args!("{corrupt} of {files} files cannot be read, where at most a tenth may be");
        return Err(DataError::at(path, format_args!("{share}; the first is {name}: {reason}")));
    }
    let Collected { images, classes, counts, sha256 } =
        collector.finish().map_err(|cause| DataError::at(path, cause))?;
    if corrupt == Corrupt::Refuse && shape.channels == 3 && grey > 0 && grey < images.units().len() {
        let images = images.units().len();
        let problem = format_args!("{grey} of {images} images are grey, the others coloured");
        return Err(DataError::at(path, format_args!("{problem}; keep them apart, or leave --strict out")));
    }
    let (others, first_other) = (others.get(), first_other.into_inner());
    Ok(Some(Collection { images, classes, counts, sha256, skipped, others, first_other, grey }))
}

/// The error for a folder of tables and other files.
fn mixed(path: &Path, found: &str) -> DataError {
    DataError::at(path, format_args!("expected a folder of images, or of .csv or .tsv tables; {found}"))
}

/// The error for data without images: `others` files were found, the `first` of which is named.
fn empty(path: &Path, others: usize, first: Option<&str>) -> DataError {
    if let Some(found) = others_beside(path) {
        return mixed(path, &found);
    }
    let expected = "expected PNG, JPEG, BMP, TIFF, WebP or PNM images or .npy or .npz arrays, by their names";
    let Some(first) = first else { return DataError::at(path, format_args!("{expected}; found no file")) };
    let name = Path::new(first);
    let ends =
        |ends: &[&str]| name.extension().is_some_and(|end| ends.iter().any(|known| end.eq_ignore_ascii_case(known)));
    let todo = if path.is_file() && is_table(path) {
        "a table cannot be compared with images; give images"
    } else if is_table(name) && path.is_dir() {
        // Tables in the folder itself have been described above.
        "put the tables into one folder, without sub-folders"
    } else if is_table(name) {
        "unpack tables, and give the table or a folder of tables only"
    } else if ends(&TABLE_ENDS) {
        "if it is a table, save it as .csv or .tsv"
    } else if ends(&IMAGE_ENDS) {
        "convert images to PNG"
    } else {
        "a data set in files of its own, such as MNIST's, needs its --preset"
    };
    DataError::at(path, format_args!("{expected}; found {}, such as {first:?}; {todo}", counted(others, "other file")))
}

/// Whether every pixel has R = G = B.
pub(super) fn is_grey(image: &Pixels) -> bool {
    image.shape.channels == 1 || image.values.as_chunks::<3>().0.iter().all(|[r, g, b]| r == g && g == b)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Values of 12 bits in files of 16: training on them diverges.
    #[test]
    fn images_that_do_not_use_the_range_of_their_files_are_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let warnings = |white: u16| {
            let pixels = (0..256).flat_map(|n| (white / 256 * (n + 1)).to_be_bytes());
            let image: Vec<u8> = b"P5 16 16 65535\n".iter().copied().chain(pixels).collect();
            std::fs::write(folder.path().join("a.pgm"), image).expect("writes");
            choose(folder.path(), Corrupt::Refuse).expect("an image").1.warnings()
        };
        let [warning] = &warnings(4096)[..] else { panic!("{:?}", warnings(4096)) };
        assert!(warning.contains("all images is 0.06") && warning.contains("multiply the values by 1"), "{warning}");
        assert_eq!(warnings(65_280), [""; 0]);
    }

    /// The folders of an archive are none of its other files; tables that prevent each other from being read are no images.
    #[test]
    fn folders_in_archives_and_tables_beside_images_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = folder.path().join("images/ok");
        std::fs::create_dir_all(&images).expect("makes");
        for n in 0..3 {
            std::fs::write(images.join(format!("{n}.pgm")), "P2 1 1 1 1").expect("writes");
        }
        let packed = folder.path().join("images.tar");
        let mut archive = tar::Builder::new(std::fs::File::create(&packed).expect("makes"));
        archive.append_dir_all(".", folder.path().join("images")).expect("packs");
        archive.finish().expect("packs");
        let (_, read) = choose(&packed, Corrupt::Refuse).expect("images");
        assert_eq!((read.others, read.images.units().len()), (0, 3));

        let tables = |names: &[&str]| {
            for name in names {
                std::fs::write(images.join(name), "a,b\n1,2\n").expect("writes");
            }
            choose(&images, Corrupt::Refuse)
        };
        assert_eq!(tables(&["a.csv", "b.csv"]).expect("more images").1.others, 2);
        let said = tables(&["c.csv", "d.tsv"]).expect_err("more tables").to_string();
        assert!(
            said.contains(
                "found 4 tables and 3 other files, such as \"0.pgm\"; keep tables and images in folders of their own"
            ),
            "{said}"
        );
    }

    #[test]
    fn folders_named_for_what_is_not_normal_are_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, count) in [("normal", 3), ("Anomaly", 2), ("ground_truth", 1), ("testbench", 1)] {
            std::fs::create_dir(folder.path().join(name)).expect("makes");
            for n in 0..count {
                std::fs::write(folder.path().join(name).join(format!("{n}.pgm")), "P2 1 1 1 1").expect("writes");
            }
        }
        let (_, read) = choose(folder.path(), Corrupt::Refuse).expect("images");
        assert_eq!(
            (&read.classes[..], &read.counts[..]),
            (&["Anomaly", "ground_truth", "normal", "testbench"].map(str::to_owned)[..], &[2, 1, 3, 1][..])
        );
        let [anomaly, truth] = &read.doubtful()[..] else { panic!("{:?}", read.doubtful()) };
        assert!(anomaly.contains("\"Anomaly\" (2 images)") && anomaly.contains("--outliers"), "{anomaly}");
        assert!(truth.contains("\"ground_truth\" (1 image)"), "{truth}");
        // One folder is not a part of the data.
        let (_, read) = choose(&folder.path().join("Anomaly"), Corrupt::Refuse).expect("images");
        assert_eq!(read.doubtful(), [""; 0]);
    }

    /// An .npz file of arrays of images of one pixel, as many in each as `counts` says.
    fn npz(counts: &[usize]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (index, count) in counts.iter().enumerate() {
            let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 1, 1, 1), }}");
            writer.start_file(format!("{index}.npy"), zip::write::SimpleFileOptions::default()).expect("packs");
            writer.write_all(b"\x93NUMPY\x01\x00").expect("packs");
            writer.write_all(&(header.len() as u16).to_le_bytes()).expect("packs");
            writer.write_all(header.as_bytes()).expect("packs");
            writer.write_all(&vec![0; *count]).expect("packs");
        }
        writer.finish().expect("packs").into_inner()
    }

    /// A file of 5 KB had millions of images, each some hundred bytes in memory.
    #[test]
    fn images_are_counted_over_all_arrays_of_a_file() {
        assert_eq!(images("a.npz", &npz(&[3, 4])).expect("images").len(), 7);
        let many = images("a.npz", &npz(&[(1 << 20) - 1, (1 << 20) - 1]));
        let reason = many.map(|images| images.len()).expect_err("too many");
        let expected = "expected at most 1,048,576 images, found more; divide them into several files";
        assert_eq!(reason, expected);
        assert_eq!((check_counts(1 << 20, 1 << 30), check_counts(1, (1 << 30) + 1).is_err()), (Ok(()), true));
    }

    /// Images in arrays of their own may have any size; labels of images, a row for each, are no image.
    #[test]
    fn arrays_that_are_not_of_the_images_are_refused() {
        let array = |name: &str, height, count| (name.to_owned(), Shape::new(1, height, 2), count);
        assert_eq!(of_one_kind(&[array("a.npy", 3, 1), array("b.npy", 4, 1)]), Ok(()));
        assert_eq!(of_one_kind(&[array("a.npy", 3, 5), array("b.npy", 4, 7)]), Ok(()));
        for arrays in [[array("x.npy", 3, 80), array("y.npy", 80, 1)], [array("y.npy", 80, 1), array("x.npy", 3, 80)]] {
            let said = of_one_kind(&arrays).expect_err("labels");
            assert!(said.contains("1x3x2 in x.npy") && said.contains("1x80x2 in y.npy"), "{said}");
        }
    }

    /// Before any of them is resized: the file may have only a byte of each.
    #[test]
    fn more_images_than_a_set_may_have_are_not_resized() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.npz"), npz(&[40])).expect("writes");
        let message = |shape, most| {
            let form = ImageForm::resized(shape, RESIZE);
            load_some(folder.path(), &form, Corrupt::Skip, most, &|_| true).expect_err("too many").to_string()
        };
        let found = message(Shape::new(1, 16, 16), 39 * 256);
        assert!(found.contains("more than 39 images or tiles") && found.contains("give a part of them"), "{found}");
        // It would take 2^40 bytes.
        let found = message(Shape::new(1, 1 << 19, 1 << 19), 39 << 38);
        assert!(found.contains("more than 39 images or tiles"), "{found}");
    }

    /// Before any of them is cut: these would take 4 GB.
    #[test]
    fn more_tiles_than_a_set_may_have_are_not_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut image = b"P5 2000 2000 255\n".to_vec();
        image.resize(image.len() + 2000 * 2000, 7);
        std::fs::write(folder.path().join("a.pgm"), image).expect("writes");
        let tiles = Some(Tiles { stride: 1, top_k: 1 });
        let form = ImageForm { tiles, ..ImageForm::resized(Shape::new(1, 16, 16), RESIZE) };
        let error = load_some(folder.path(), &form, Corrupt::Skip, 100 * 256, &|_| true).expect_err("too many");
        assert!(error.to_string().contains("more than 100 images or tiles"), "{error}");
    }

    #[test]
    fn the_side_is_that_of_the_median_image() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |sides: &[(usize, usize)]| {
            for (index, (width, height)) in sides.iter().enumerate() {
                let mut image = format!("P5 {width} {height} 255\n").into_bytes();
                image.resize(image.len() + width * height, 7);
                std::fs::write(folder.path().join(format!("{index}.pgm")), image).expect("writes");
            }
            side(&Files::open(folder.path()).expect("a folder")).expect("a side")
        };
        assert_eq!(of(&[]), 16);
        assert_eq!(of(&[(900, 31), (8, 8), (300, 300)]), 28);
        assert_eq!(of(&[(900, 32), (8, 8), (300, 300), (300, 40)]), 32);
        assert_eq!(of(&[(9, 900), (8, 8), (300, 300), (15, 15)]), 16);
    }
}
