//! Files of MNIST's form with images of nothing.

use std::path::Path;

/// Four small IDX files in the place of MNIST's; makes the folder.
pub(crate) fn write(folder: &Path) {
    write_of(folder, 255);
}

/// The same with stripes of another grey.
pub(crate) fn write_of(folder: &Path, grey: u8) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, count) in [("train", 400u32), ("t10k", 60)] {
        let header = |axes: &[u32]| -> Vec<u8> {
            [0, 0, 8, axes.len() as u8].into_iter().chain(axes.iter().flat_map(|axis| axis.to_be_bytes())).collect()
        };
        // Stripes whose width is the label, moved from image to image.
        let pixel =
            |image: u32, at: u32| if ((at % 28 + image) / (image % 10 + 1)).is_multiple_of(2) { grey } else { 0 };
        let mut images = header(&[count, 28, 28]);
        images.extend((0..count).flat_map(|image| (0..784).map(move |at| pixel(image, at))));
        let mut labels = header(&[count]);
        labels.extend((0..count).map(|image| (image % 10) as u8));
        std::fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
}
