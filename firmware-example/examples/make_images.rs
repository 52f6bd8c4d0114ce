//! Writes `vectors/digits.u8`, the images the firmware scores under QEMU: the first of each digit of
//! the 8×8 set enlarged to 16×16 (bilinear, aligned corners), then a half digit, a uniform gray, black, white
//! and a checkerboard. One byte a pixel, 256 bytes an image, nothing else.
//!
//! ```sh
//! cargo run -p firmware-example --example make_images
//! ```

use std::io::Read;
use std::path::Path;

const SIDE: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(root.join("../data/digits-8x8/digits.csv.gz"))?;
    let mut table = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut table)?;
    let mut images: Vec<[u8; SIDE * SIDE]> = Vec::new();
    for digit in 0..10 {
        for line in table.lines() {
            let row = line.split(',').map(|v| v.trim().parse::<f32>()).collect::<Result<Vec<_>, _>>()?;
            if row.get(64) == Some(&(digit as f32)) {
                images.push(enlarge(&row[..64]));
                break;
            }
        }
    }
    let mut half = *images.get(3).ok_or("there is no digit 3")?;
    for row in half.chunks_exact_mut(SIDE) {
        row[SIDE / 2..].fill(0);
    }
    images.push(half);
    images.extend([[128; 256], [0; 256], [255; 256]]);
    images.push(core::array::from_fn(|i| if (i / SIDE + i).is_multiple_of(2) { 255 } else { 0 }));
    std::fs::write(root.join("vectors/digits.u8"), images.concat())?;
    Ok(())
}

/// Bilinear, aligned corners; values 0..16 become 0..255.
fn enlarge(small: &[f32]) -> [u8; SIDE * SIDE] {
    core::array::from_fn(|i| {
        let source = |i: usize| i as f32 * 7.0 / 15.0;
        let (y, x) = (source(i / SIDE), source(i % SIDE));
        let at = |y: f32, x: f32| small[y.min(7.0) as usize * 8 + x.min(7.0) as usize];
        let mix = |a: f32, b: f32, t: f32| a + (b - a) * t;
        let top = mix(at(y, x), at(y, x + 1.0), x.fract());
        let bottom = mix(at(y + 1.0, x), at(y + 1.0, x + 1.0), x.fract());
        (mix(top, bottom, y.fract()) / 16.0 * 255.0).round() as u8
    })
}
