//! Visits the files of a folder or an archive one after the other: names and bytes.
//!
//! Supports folders with all their sub-folders, `.tar`, `.tar.gz`, `.tgz`, `.zip`, and single files. Nothing is written
//! to disk: the names in an archive are only labels, so paths that lead outside the archive do no harm. The unpacked
//! size of an archive is limited, so that a small hostile archive cannot fill the memory. The bytes are not interpreted
//! here.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use nae_input::{FoldersAbove, MAX_FILE};
use nae_simd::threads;
use zip::ZipArchive;

use crate::error::DataError;
use crate::file_names::is_array;
use crate::reading::Reading;
use crate::tables::is_packed_table;

/// An archive may unpack to this many bytes, or to [`MAX_RATIO`] times its size if that is more.
const MIN_UNPACKED: u64 = 1 << 30;
/// Images are compressed already, so deflate reduces them little. Arrays that are mostly zeros may shrink by factors of
/// tens.
const MAX_RATIO: u64 = 100;
/// The largest number of entries in an archive, far more than any folder of images has.
const MAX_ENTRIES: usize = 10_000_000;
/// Why a link in an archive is not read.
const LINK: &str = "it is a link to another file; pack the files themselves (tar --dereference --hard-dereference)";
/// Why a sparse file in an archive is not read: its holes are in the archive's headers alone, so that a few hundred bytes unpack to
/// gigabytes.
const SPARSE: &str = "it is a sparse file; pack it without --sparse";

/// The largest number of threads that decode at the same time: a decoded image of a telephone takes 150 MB.
const DECODING: usize = 4;
/// Limits of the files that are decoded together: their number for each thread, and their bytes in total. The last file
/// may exceed the limit of bytes.
const TOGETHER: usize = 4;
const TOGETHER_BYTES: usize = 64 << 20;
/// A byte of an array counts as this many: it may be an image of its own, which is resized to hundreds of values.
const BYTES_OF_AN_ARRAY: usize = 64;

/// A folder, an archive or a file. It is opened again for every pass.
#[derive(Clone, Debug)]
pub(super) struct Files {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Tar,
    TarGz,
    Zip,
    File,
}

/// A file's bytes, or the reason why they cannot be read.
pub(super) type Content = Result<Vec<u8>, String>;

/// Receives a file's name, with `/` between folders, and its bytes; returns whether to continue.
pub(super) type Each<'a> = dyn FnMut(&str, Content) -> ControlFlow<()> + 'a;

/// Decodes a file's name and bytes; on failure it returns the reason.
pub(super) type Decode<'a, T> = dyn Fn(&str, Vec<u8>) -> Result<T, String> + Sync + 'a;

/// Receives a file's name and its decoded content; returns whether to continue.
pub(super) type EachDecoded<'a, T> = dyn FnMut(&str, Result<T, String>) -> ControlFlow<()> + 'a;

impl Files {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let wrong = |found: &str| {
            let expected = "a folder, or a .tar, .tar.gz, .tgz, .zip, .npy, .npz, .csv or .tsv file";
            DataError::at(path, format_args!("expected {expected}; found {found}"))
        };
        let kind = match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => Kind::Folder,
            Ok(data) if data.is_file() && is_foreign(path) => {
                return Err(wrong("an archive of another kind; unpack it"));
            }
            Ok(data) if data.is_file() && is_packed_table(path) => return Err(wrong("a packed table; unpack it")),
            Ok(data) if data.is_file() => kind(path),
            Ok(_) => return Err(wrong("a device or a pipe")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let found = if is_packed(path) { "an archive with its name instead; unpack it" } else { "nothing" };
                return Err(wrong(found).of_system(io::ErrorKind::NotFound));
            }
            Err(cause) => return Err(DataError::io(path, &cause)),
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads every file whose name `wanted` accepts: files of a folder in the order of names, of an archive in the
    /// archive's order.
    pub(super) fn visit(&self, wanted: &dyn Fn(&str) -> bool, each: &mut Each<'_>) -> Result<(), DataError> {
        let archive = |reason: String| {
            let problem = format_args!("the archive cannot be read: {reason}; unpack it and give the folder");
            DataError::at(&self.path, problem)
        };
        match self.kind {
            Kind::Folder => self.folder(wanted, each),
            Kind::File => {
                let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if wanted(&name) {
                    let _ = each(&name, read(&self.path));
                }
                Ok(())
            }
            Kind::Tar | Kind::TarGz | Kind::Zip => {
                let io = |cause: io::Error| DataError::io(&self.path, &cause);
                let file = File::open(&self.path).map_err(io)?;
                let limit = unpacked_limit(file.metadata().map_err(io)?.len());
                // Archives may be hostile, and the libraries that read them may panic.
                let unpack = AssertUnwindSafe(|| match self.kind {
                    Kind::Zip => zip(file, limit, wanted, each),
                    Kind::TarGz => {
                        tar(Limited::new(MultiGzDecoder::new(io::BufReader::new(file)), limit), wanted, each)
                    }
                    _ => tar(io::BufReader::new(file), wanted, each),
                });
                catch_unwind(unpack).unwrap_or_else(|_| Err("its reader panicked".to_owned())).map_err(archive)
            }
        }
    }

    /// Same as [`visit`](Self::visit), with `decode` on several threads in between: `each` receives the decoded files
    /// in the same order.
    pub(super) fn visit_decoded<T: Send>(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        decode: &Decode<'_, T>,
        each: &mut EachDecoded<'_, T>,
    ) -> Result<(), DataError> {
        let threads = NonZero::new(threads::count().get().min(DECODING)).unwrap_or(NonZero::<usize>::MIN);
        let (mut waiting, mut bytes): (Vec<(String, Content)>, usize) = (Vec::new(), 0);
        let mut pass_on = |waiting: &mut Vec<(String, Content)>| {
            let decoded = threads::with_threads(threads, || {
                threads::map(std::mem::take(waiting), |(name, content)| {
                    let decoded = content.and_then(|bytes| decode(&name, bytes));
                    (name, decoded)
                })
            });
            decoded.into_iter().try_for_each(|(name, decoded)| each(&name, decoded))
        };
        self.visit(wanted, &mut |name, content| {
            bytes += content.as_ref().map_or(0, |bytes| weight(name, bytes.len()));
            waiting.push((name.to_owned(), content));
            if waiting.len() < TOGETHER * threads.get() && bytes < TOGETHER_BYTES {
                return ControlFlow::Continue(());
            }
            bytes = 0;
            pass_on(&mut waiting)
        })?;
        // The list is empty if `each` has stopped the visit.
        let _ = pass_on(&mut waiting);
        Ok(())
    }

    fn folder(&self, wanted: &dyn Fn(&str) -> bool, each: &mut Each<'_>) -> Result<(), DataError> {
        let mut found = Vec::new();
        // Links are followed, since data sets often consist of links.
        let mut above = FoldersAbove::default();
        let walk = walkdir::WalkDir::new(&self.path).follow_links(true).into_iter();
        for entry in walk.filter_entry(|entry| !entry.file_type().is_dir() || above.enter(entry.path(), entry.depth()))
        {
            match entry {
                Ok(entry) => {
                    let name = self.name(entry.path());
                    if entry.file_type().is_file() && wanted(&name) {
                        found.push((name, Ok(entry.into_path())));
                    }
                }
                // A dangling link, such as editors leave, a link to a folder above it, or a folder of another user counts as
                // one unreadable file.
                Err(error) if error.depth() > 0 => {
                    let path = error.path().unwrap_or(&self.path).to_owned();
                    let name = self.name(&path);
                    // First whether it is a folder: those are not counted among the files with other names.
                    if path.is_dir() || wanted(&name) {
                        found.push((name, Err(io::Error::from(error).to_string())));
                    }
                }
                Err(error) => {
                    let path = error.path().unwrap_or(&self.path).to_owned();
                    return Err(DataError::io(&path, &io::Error::from(error)));
                }
            }
        }
        found.sort();
        let reading = Reading::of(found.len());
        for (name, file) in found {
            reading.one_more();
            if each(&name, file.and_then(|path: PathBuf| read(&path))).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The name of the file at `path` within the folder, with `/` between folders.
    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.path).unwrap_or(path);
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        printable(&parts.join("/"))
    }
}

/// What a file of `length` bytes counts among those that are decoded together.
fn weight(name: &str, length: usize) -> usize {
    // How many bytes the arrays of an .npz unpack to is not known.
    let is_packed = name.to_ascii_lowercase().ends_with(".npz");
    let of_array = if is_packed { TOGETHER_BYTES } else { length.saturating_mul(BYTES_OF_AN_ARRAY) };
    if is_array(Path::new(name)) { of_array } else { length }
}

/// The path of the folder or archive called `name` in `folder`.
pub(super) fn part_of(folder: &Path, name: &str) -> PathBuf {
    let archives = [".tar", ".tar.gz", ".tgz", ".zip"].map(|end| folder.join(format!("{name}{end}")));
    let plain = folder.join(name);
    if plain.is_dir() { plain } else { archives.into_iter().find(|path| path.is_file()).unwrap_or(plain) }
}

/// Visits the files in `bytes`, a zip archive in memory.
pub(super) fn zip_in_memory(bytes: &[u8], wanted: &dyn Fn(&str) -> bool, each: &mut Each<'_>) -> Result<(), String> {
    let limit = unpacked_limit(bytes.len() as u64);
    let unpack = AssertUnwindSafe(|| zip(io::Cursor::new(bytes), limit, wanted, each));
    catch_unwind(unpack).unwrap_or_else(|_| Err("its reader panicked".to_owned()))
}

fn unpacked_limit(packed: u64) -> u64 {
    packed.saturating_mul(MAX_RATIO).max(MIN_UNPACKED)
}

fn kind(path: &Path) -> Kind {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends(&[".tar"]) {
        Kind::Tar
    } else if ends(&[".tar.gz", ".tgz"]) {
        Kind::TarGz
    } else if ends(&[".zip"]) {
        Kind::Zip
    } else {
        Kind::File
    }
}

/// Whether `path` is an archive of an unsupported kind, judged by its name.
fn is_foreign(path: &Path) -> bool {
    const ENDS: [&str; 7] = ["xz", "txz", "bz2", "tbz2", "zst", "7z", "rar"];
    path.extension().is_some_and(|end| ENDS.iter().any(|foreign| end.eq_ignore_ascii_case(foreign)))
}

/// Whether an archive exists whose name is the folder `path` with an archive's extension.
fn is_packed(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    ["tar.xz", "tar.bz2", "tar.zst", "tar.gz", "tar", "zip"].iter().any(|end| {
        let mut packed = name.to_owned();
        packed.push(format!(".{end}"));
        path.with_file_name(packed).is_file()
    })
}

fn read(path: &Path) -> Content {
    nae_onnx::file::read(path, MAX_FILE).map_err(|error| error.to_string())
}

fn tar(archive: impl Read, wanted: &dyn Fn(&str) -> bool, each: &mut Each<'_>) -> Result<(), String> {
    let mut archive = tar::Archive::new(archive);
    for (count, entry) in archive.entries().map_err(|error| error.to_string())?.enumerate() {
        let entry = entry.map_err(|error| error.to_string())?;
        if count == MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} files"));
        }
        let name = label(&String::from_utf8_lossy(&entry.path_bytes()));
        let kind = entry.header().entry_type();
        if kind.is_dir() || !wanted(&name) {
            continue;
        }
        let content = if kind.is_symlink() || kind.is_hard_link() {
            // A folder's links are followed; here the file that is meant may not be in the archive.
            Err(LINK.to_owned())
        } else if kind.is_gnu_sparse() {
            Err(SPARSE.to_owned())
        } else if kind.is_file() || kind.is_contiguous() {
            whole(entry, MAX_FILE).0
        } else {
            continue;
        };
        if each(&name, content).is_break() {
            break;
        }
    }
    Ok(())
}

fn zip(
    archive: impl Read + io::Seek,
    limit: u64,
    wanted: &dyn Fn(&str) -> bool,
    each: &mut Each<'_>,
) -> Result<(), String> {
    let mut archive = ZipArchive::new(archive).map_err(|error| error.to_string())?;
    if archive.len() > MAX_ENTRIES {
        return Err(format!("it has more than {MAX_ENTRIES} files"));
    }
    let mut left = limit;
    let reading = Reading::of(archive.len());
    for index in 0..archive.len() {
        reading.one_more();
        // A name that is not text is not the name of an image.
        let Some(Ok(name)) = archive.name_for_index(index) else { continue };
        let name = label(&name);
        if name.ends_with('/') || !wanted(&name) {
            continue;
        }
        let (content, read) = match archive.by_index(index) {
            Ok(entry) if entry.is_file() => {
                // Several entries may share one file of the archive. Its packed bytes take time as well, also where they unpack
                // to nothing; the size that a damaged header gives them may be larger than the archive.
                let packed = entry.compressed_size().min(limit / MAX_RATIO);
                let (content, unpacked) = whole(entry, MAX_FILE.min(left));
                (content, unpacked.max(packed))
            }
            Ok(entry) if entry.is_symlink() => (Err(LINK.to_owned()), 0),
            Ok(_) => continue,
            Err(error) => (Err(error.to_string()), 0),
        };
        // What cannot be used is unpacked all the same.
        left = left.saturating_sub(read);
        if left == 0 {
            return Err(format!("it unpacks to more than {limit} bytes"));
        }
        if each(&name, content).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads all bytes of `entry`, up to `limit`; also returns the number of bytes that were read, whether they can be used or not.
fn whole(entry: impl Read, limit: u64) -> (Content, u64) {
    let mut bytes = Vec::new();
    // The size that the entry's header gives is not trusted.
    let end = entry.take(limit + 1).read_to_end(&mut bytes);
    let read = bytes.len() as u64;
    let content = match end {
        Err(error) => Err(error.to_string()),
        Ok(_) if read > limit => Err(format!("it has more than {limit} bytes")),
        Ok(_) => Ok(bytes),
    };
    (content, read)
}

/// Converts a name in an archive to the form of names in a folder, safe to print.
fn label(name: &str) -> String {
    let folder = name.ends_with(['/', '\\']);
    let parts: Vec<&str> = name.split(['/', '\\']).filter(|part| !matches!(*part, "" | "." | "..")).collect();
    printable(&(parts.join("/") + if folder { "/" } else { "" }))
}

/// A reader that fails after a number of bytes, in contrast to [`Read::take`], which ends as if the file did.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R> Limited<R> {
    fn new(inner: R, limit: u64) -> Self {
        Self { inner, left: limit }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(format!("it unpacks to more than {MAX_RATIO} times its size")))?;
        Ok(count)
    }
}

/// `name` without `end`, in upper or lower case.
fn without<'a>(name: &'a str, end: &str) -> Option<&'a str> {
    let (stem, found) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
    found.eq_ignore_ascii_case(end).then_some(stem)
}

/// The name of the folder, or the name of the file without its archive or table extension.
pub fn title(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known = [".tar.gz", ".tgz", ".tar", ".zip", ".npy", ".npz", ".csv", ".tsv"];
    let stem = if path.is_dir() { None } else { known.iter().find_map(|end| without(&name, end)) };
    let stem = stem.unwrap_or(&name);
    if stem.is_empty() { "images".to_owned() } else { printable(stem) }
}

/// A name without line breaks and commands to the terminal, for names are printed.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn names(path: &Path) -> Result<Vec<String>, DataError> {
        let mut names = Vec::new();
        Files::open(path)?.visit(&|name| !name.ends_with(".txt"), &mut |name, content| {
            names.push(format!("{name} {}", content.map_or_else(|reason| reason, |bytes| bytes.len().to_string())));
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// One header can make a gigabyte of zeros.
    #[test]
    fn sparse_files_of_an_archive_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sparse.tar");
        let mut builder = tar::Builder::new(File::create(&path).expect("creates"));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNUSparse);
        header.set_path("hole.png").expect("a name");
        header.set_size(0);
        let of_gnu = header.as_gnu_mut().expect("a header of GNU tar");
        // Octal digits: 2³⁰ bytes, all of them after the last part that is stored.
        of_gnu.realsize[..11].copy_from_slice(b"10000000000");
        of_gnu.sparse[0].offset[..11].copy_from_slice(b"10000000000");
        of_gnu.sparse[0].numbytes[..11].copy_from_slice(b"00000000000");
        header.set_cksum();
        builder.append(&header, io::empty()).expect("packs");
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        builder.append_data(&mut header, "a.png", &b"1"[..]).expect("packs");
        builder.finish().expect("packs");
        assert_eq!(names(&path).expect("reads"), [format!("hole.png {SPARSE}"), "a.png 1".to_owned()]);
    }

    #[test]
    fn hostile_names_in_archives_are_labels() {
        assert_eq!(label("../../etc/passwd"), "etc/passwd");
        assert_eq!(label("./a\\b.png"), "a/b.png");
        assert_eq!(label("folder/"), "folder/");
        assert_eq!(label("a\x1b[2J.png"), "a\u{fffd}[2J.png");
    }

    #[test]
    fn what_is_packed_comes_back_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("data/b")).expect("makes");
        for (name, bytes) in [("data/b/2.png", &b"12"[..]), ("data/1.png", b"1"), ("data/skip.txt", b"text")] {
            std::fs::write(at(name), bytes).expect("writes");
        }
        let expected = ["1.png 1", "b/2.png 2"];
        assert_eq!(names(&at("data")).expect("reads"), expected);

        let mut builder = tar::Builder::new(File::create(at("data.tar")).expect("creates"));
        builder.append_dir_all(".", at("data")).expect("packs");
        builder.finish().expect("packs");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&std::fs::read(at("data.tar")).expect("reads")).expect("packs");
        std::fs::write(at("data.tgz"), packed.finish().expect("packs")).expect("writes");
        let mut builder = tar::Builder::new(File::create(at("links.tar")).expect("creates"));
        for (name, kind) in [("a.png", tar::EntryType::Symlink), ("b.png", tar::EntryType::Link)] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            builder.append_link(&mut header, name, "data/1.png").expect("packs");
        }
        builder.append_path_with_name(at("data/1.png"), "data/1.png").expect("packs");
        builder.finish().expect("packs");
        let mut writer = zip::ZipWriter::new(File::create(at("links.zip")).expect("creates"));
        writer.add_symlink("a.png", "data/1.png", zip::write::SimpleFileOptions::default()).expect("packs");
        writer.start_file("data/1.png", zip::write::SimpleFileOptions::default()).expect("packs");
        writer.write_all(b"1").expect("packs");
        writer.finish().expect("packs");
        for (archive, links) in [("links.tar", 2), ("links.zip", 1)] {
            let (mut refused, mut read) = (0, 0);
            let each = &mut |_: &str, content: Content| {
                match content {
                    Err(reason) if reason.contains("link to another file") => refused += 1,
                    content => read += content.expect("reads").len(),
                }
                ControlFlow::Continue(())
            };
            Files::open(&at(archive)).expect("opens").visit(&|name| name.ends_with(".png"), each).expect("reads");
            assert_eq!((refused, read), (links, 1), "{archive}");
        }
        let mut writer = zip::ZipWriter::new(File::create(at("data.zip")).expect("creates"));
        writer.add_directory("b/", zip::write::SimpleFileOptions::default()).expect("packs");
        for (name, bytes) in [("b/2.png", &b"12"[..]), ("1.png", b"1"), ("skip.txt", b"text")] {
            writer.start_file(name, zip::write::SimpleFileOptions::default()).expect("packs");
            writer.write_all(bytes).expect("packs");
        }
        writer.finish().expect("packs");
        for archive in ["data.tar", "data.tgz", "data.zip"] {
            let mut found = names(&at(archive)).expect(archive);
            found.sort();
            assert_eq!(found, expected, "{archive}");

            // Archives that are cut or changed anywhere give an error or fewer files, and no panic.
            let whole = std::fs::read(at(archive)).expect("reads");
            for end in (0..whole.len()).step_by(7) {
                let mut damaged = whole.clone();
                damaged[end] ^= 0xff;
                for bytes in [&whole[..end], &damaged] {
                    let path = at(&format!("damaged-{archive}"));
                    std::fs::write(&path, bytes).expect("writes");
                    let _ = names(&path);
                }
            }
        }
    }

    /// A .zip of the entries `1`, `2` and `3`, each of `length` zeros.
    fn three_of_zeros(length: usize) -> io::Cursor<Vec<u8>> {
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for name in ["1", "2", "3"] {
            writer.start_file(name, zip::write::SimpleFileOptions::default()).expect("packs");
            writer.write_all(&vec![0; length]).expect("packs");
        }
        writer.finish().expect("packs")
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused() {
        let mut zeros = Limited::new(io::repeat(0), 1000);
        let mut bytes = Vec::new();
        assert!(zeros.read_to_end(&mut bytes).expect_err("no end").to_string().contains("100 times"));
        assert_eq!(whole(io::repeat(0), 9), (Err("it has more than 9 bytes".to_owned()), 10));
        assert_eq!(whole(io::repeat(0).take(9), 9), (Ok(vec![0; 9]), 9));
        assert_eq!((unpacked_limit(1), unpacked_limit(1 << 30)), (1 << 30, 100 << 30));

        let packed = three_of_zeros(1000);
        let mut seen = Vec::new();
        let mut each = |_: &str, content: Content| {
            seen.push(content.is_ok());
            ControlFlow::Continue(())
        };
        let error = zip(packed, 2000, &|_| true, &mut each).expect_err("too much");
        assert!(error.contains("2000 bytes"), "{error}");
        assert_eq!(seen, [true]);
    }

    /// Entries may share one file of the archive, and unpacking each of them takes its time.
    #[test]
    fn an_entry_that_is_too_large_counts_too() {
        let packed = three_of_zeros(600);
        let mut seen = Vec::new();
        let mut each = |_: &str, content: Content| {
            seen.push(content.map(|bytes| bytes.len()));
            ControlFlow::Continue(())
        };
        let end = zip(packed, 1000, &|_| true, &mut each);
        assert_eq!(end, Err("it unpacks to more than 1000 bytes".to_owned()));
        assert_eq!(seen, [Ok(600)]);
    }

    /// Blocks of deflate may be empty: reading them takes its time, and gives no byte.
    #[test]
    fn an_entry_of_nothing_counts_by_its_packed_size() {
        let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        let empty = [0, 0, 0, 0xff, 0xff].repeat(599);
        for name in 0..110 {
            writer.start_file(name.to_string(), stored).expect("packs");
            writer.write_all(&empty).expect("packs");
            writer.write_all(&[1, 0, 0, 0xff, 0xff]).expect("packs");
        }
        let mut bytes = writer.finish().expect("packs").into_inner();
        // Their blocks are taken for what they are, of no byte and no checksum.
        for (mark, method) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
            let heads: Vec<usize> = (0..bytes.len() - 4).filter(|&at| bytes[at..].starts_with(mark)).collect();
            assert_eq!(heads.len(), 110);
            for at in heads {
                bytes[at + method] = 8;
                bytes[at + method + 6..at + method + 10].fill(0);
                bytes[at + method + 14..at + method + 18].fill(0);
            }
        }
        let mut seen = Vec::new();
        let mut each = |_: &str, content: Content| {
            seen.push(content);
            ControlFlow::Continue(())
        };
        let end = zip(io::Cursor::new(bytes), 3000 * MAX_RATIO, &|_| true, &mut each);
        assert_eq!(seen, vec![Ok(Vec::new()); 99]);
        assert_eq!(end, Err("it unpacks to more than 300000 bytes".to_owned()));
    }

    /// An array of few bytes may hold many images: several in memory at once would take many times their bytes.
    #[test]
    fn arrays_of_many_images_are_decoded_one_after_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let most_at_once = |end: &str, length: usize| {
            for name in 0..4 {
                std::fs::write(folder.path().join(format!("{name}.{end}")), vec![0; length]).expect("writes");
            }
            let (waiting, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let decode = |_: &str, _: Vec<u8>| {
                most.fetch_max(waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                Ok(())
            };
            let files = Files::open(folder.path()).expect("a folder");
            let wanted = |name: &str| name.ends_with(end);
            let each = &mut |_: &str, _: Result<(), String>| {
                waiting.fetch_sub(1, Ordering::SeqCst);
                ControlFlow::Continue(())
            };
            files.visit_decoded(&wanted, &decode, each).expect("reads");
            most.into_inner()
        };
        assert_eq!((most_at_once("png", 2 << 20), most_at_once("npy", 1000)), (4, 4));
        assert_eq!((most_at_once("npy", 2 << 20), most_at_once("npz", 1000)), (1, 1));
    }

    /// A link to a folder above it, such as one that an archive left, ends no run.
    #[cfg(unix)]
    #[test]
    fn a_link_that_loops_is_one_unreadable_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("b")).expect("makes");
        for name in ["a.png", "b/c.png"] {
            std::fs::write(folder.path().join(name), b"1").expect("writes");
        }
        std::os::unix::fs::symlink("..", folder.path().join("b/again")).expect("links");
        let [a, again, c] = &names(folder.path()).expect("reads")[..] else { panic!("three") };
        assert_eq!((a.as_str(), c.as_str()), ("a.png 1", "b/c.png 1"));
        assert!(again.starts_with("b/again ") && again.contains("loop"), "{again}");
    }

    /// `all/in` would be found again as `all/in/up/in`.
    #[cfg(unix)]
    #[test]
    fn files_are_found_once_also_below_a_link_to_a_folder_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("all/in");
        std::fs::create_dir_all(&inner).expect("makes");
        for name in ["a.png", "../beside.png"] {
            std::fs::write(inner.join(name), b"1").expect("writes");
        }
        std::os::unix::fs::symlink("..", inner.join("up")).expect("links");
        assert_eq!(names(&inner).expect("reads"), ["a.png 1", "up/beside.png 1"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_title_has_no_line_breaks_and_no_commands_to_a_terminal() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("good\n\x1b[31mred");
        std::fs::create_dir(&path).expect("makes");
        assert_eq!(title(&path), "good\u{fffd}\u{fffd}[31mred");
    }

    #[test]
    fn a_title_has_no_ending_of_a_file_that_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, expected) in [("a.csv", "a"), ("B.CSV", "B"), ("c.Tar.GZ", "c"), ("d.é.tsv", "d.é"), ("éé", "éé")]
        {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("writes");
            assert_eq!(title(&path), expected);
        }
    }

    #[test]
    fn what_is_no_folder_and_no_archive_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let message = names(&folder.path().join("absent")).expect_err("nothing").to_string();
        assert!(message.contains("absent") && message.contains("found nothing"), "{message}");
        let path = folder.path().join("images.tar.xz");
        std::fs::write(&path, b"another archive").expect("writes");
        let message = names(&path).expect_err("not read").to_string();
        assert!(message.contains("images.tar.xz") && message.contains("another kind"), "{message}");
        let message = names(&folder.path().join("images")).expect_err("not there").to_string();
        assert!(message.contains("an archive with its name instead"), "{message}");
        let path = folder.path().join("bad.zip");
        std::fs::write(&path, b"no archive").expect("writes");
        let message = names(&path).expect_err("no archive").to_string();
        assert!(message.contains("bad.zip") && message.contains("unpack it"), "{message}");
    }
}
