//! Files of MNIST's form with one image each, for tests that need data but no training.

use std::path::Path;

/// Writes the four files into `folder`, which must exist: one image of `grey`, a 3, for training and one for the test.
pub(crate) fn write(folder: &Path, grey: u8) {
    for part in ["train", "t10k"] {
        let header = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28];
        let images: Vec<u8> = header.into_iter().chain([grey; 784]).collect();
        std::fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).expect("writes");
        let labels = [0, 0, 8, 1, 0, 0, 0, 1, 3];
        std::fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).expect("writes");
    }
}
