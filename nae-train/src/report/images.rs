//! Converts tensors of images to pictures: side by side, enlarged by whole pixels.

use burn::tensor::Tensor;
use image::{ImageFormat, Rgb, RgbImage};
use nae_core::Shape;

/// The least size of an enlarged image, in pixels.
const SIDE: usize = 56;
/// The number of white pixels between images.
const GAP: usize = 2;

/// Arranges `images` `[N, C, H, W]`, values in [0, 1], in rows of `columns`. One channel is shown as grey, three as
/// red, green and blue; of other numbers of channels only the first is shown.
pub fn grid(images: &Tensor<4>, shape: Shape, columns: usize) -> RgbImage {
    let values: Vec<f32> = images.to_data().iter::<f32>().collect();
    let count = values.len() / shape.len().max(1);
    let columns = columns.clamp(1, count.max(1));
    let zoom = SIDE.div_ceil(shape.height.max(1)).max(1);
    let (width, height) = (shape.width * zoom + GAP, shape.height * zoom + GAP);
    let size = ((columns * width - GAP) as u32, (count.div_ceil(columns).max(1) * height - GAP) as u32);
    let mut picture = RgbImage::from_pixel(size.0, size.1, Rgb([255; 3]));
    for (k, image) in values.chunks_exact(shape.len()).enumerate() {
        let (left, top) = (k % columns * width, k / columns * height);
        for y in 0..height - GAP {
            for x in 0..width - GAP {
                let at = y / zoom * shape.width + x / zoom;
                let channel = |c: usize| {
                    let c = if shape.channels == 3 { c } else { 0 };
                    (image[c * shape.height * shape.width + at].clamp(0.0, 1.0) * 255.0).round() as u8
                };
                picture.put_pixel((left + x) as u32, (top + y) as u32, Rgb([0, 1, 2].map(channel)));
            }
        }
    }
    picture
}

/// Encodes `picture` as a PNG file.
pub fn png(picture: &RgbImage) -> Vec<u8> {
    let mut png = std::io::Cursor::new(Vec::new());
    // Writing to memory in a compiled-in format cannot fail.
    let _ = picture.write_to(&mut png, ImageFormat::Png);
    png.into_inner()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    #[test]
    fn a_grid_is_a_picture_of_its_images() {
        let shape = Shape::new(1, 28, 28);
        let values: Vec<f32> = (0..3 * 784).map(|k| if k < 784 { 0.0 } else { 0.5 }).collect();
        let images = Tensor::from_data(TensorData::new(values, [3, 1, 28, 28]), &Device::flex());
        let picture = image::load_from_memory(&png(&grid(&images, shape, 2))).expect("a PNG").to_rgb8();
        assert_eq!(picture.dimensions(), (2 * 58 - 2, 2 * 58 - 2));
        let at = |x, y| picture.get_pixel(x, y).0[0];
        assert_eq!((at(10, 10), at(70, 10), at(10, 70), at(70, 70), at(57, 10)), (0, 128, 128, 255, 255));
    }
}
