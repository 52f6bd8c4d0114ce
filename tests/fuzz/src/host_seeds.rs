//! Writes a small file of what the target named reads into the folder named.

use std::path::Path;

use image::{DynamicImage, ImageFormat};
use nae_onnx::builder::{BuildError, Conv2d, ConvTranspose2d, Gemm, GraphBuilder, GroupNorm, Pool2d};
use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(target), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: host-seeds TARGET FOLDER".into());
    };
    let seeds: Vec<Vec<u8>> = match target.as_str() {
        "onnx" => vec![convolutions()?, vectors()?],
        "table" => vec![
            b"temperature,pressure,state\n20.5,1.01,on\n21,,off\n-3e2,nan,\"on, again\"\n".to_vec(),
            b"1\t2\n3\t4\n".to_vec(),
            "\u{feff}a;b\r\n1,5;2\r\n".as_bytes().to_vec(),
        ],
        "npy" => vec![array("|u1", "(2, 3, 4)", &[7; 24]), array("<f4", "(1, 1, 2, 2)", &[0; 16])],
        "jpeg" => vec![frames()],
        "image" => images()?,
        "mjpeg" => vec![parts(), b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n".to_vec()],
        // The project's own file is beside it.
        _ => Vec::new(),
    };
    for (index, seed) in seeds.iter().enumerate() {
        std::fs::write(Path::new(&folder).join(format!("seed-{index}")), seed)?;
    }
    Ok(())
}

/// Most operators on images, with a residual path.
fn convolutions() -> Result<Vec<u8>, BuildError> {
    let weights: Vec<f32> = (0..72).map(|k| ((k * 37 % 19) as f32 - 9.0) / 20.0).collect();
    let mut graph = GraphBuilder::new("convolutions");
    let image = graph.image_input("image", [1, 8, 8])?;
    let conv = Conv2d { padding: [1; 4], ..Conv2d::new(2, [3, 3], &weights[..18], Some(&weights[..2])) };
    let x = graph.conv2d("conv", image, &conv)?;
    let x =
        graph.group_norm("norm", x, &GroupNorm { groups: 1, scale: &[1.0, 0.5], shift: &[0.0, 0.1], epsilon: 1e-5 })?;
    let skip = graph.relu("relu", x)?;
    let depthwise = Conv2d { padding: [1; 4], groups: 2, ..Conv2d::new(2, [3, 3], &weights[..18], None) };
    let x = graph.conv2d("depthwise", skip, &depthwise)?;
    let x = graph.add("add", x, skip)?;
    let x = graph.max_pool2d("pool", x, &Pool2d::square(2))?;
    let x = graph.average_pool2d("mean", x, &Pool2d::square(2))?;
    let x = graph.resize_nearest("larger", x, [4, 4])?;
    let up = ConvTranspose2d { stride: [2; 2], ..ConvTranspose2d::new(1, [2, 2], &weights[..8], Some(&weights[..1])) };
    let x = graph.conv_transpose2d("up", x, &up)?;
    let x = graph.sigmoid("reconstruction", x)?;
    finished(graph, image, x)
}

/// Dense layers, with a latent on the sphere.
fn vectors() -> Result<Vec<u8>, BuildError> {
    let weights: Vec<f32> = (0..24).map(|k| ((k * 37 % 19) as f32 - 9.0) / 20.0).collect();
    let mut graph = GraphBuilder::new("vectors");
    let image = graph.image_input("image", [1, 2, 4])?;
    let x = graph.flatten("flat", image)?;
    let x = graph.gemm(
        "encode",
        x,
        &Gemm { features: 3, weight: &weights, bias: Some(&weights[..3]), transposed: true },
    )?;
    let x = graph.l2_normalize("latent", x)?;
    let x = graph.gemm(
        "decode",
        x,
        &Gemm { features: 8, weight: &weights, bias: Some(&weights[..8]), transposed: true },
    )?;
    let x = graph.reshape("reconstruction", x, &[1, 2, 4])?;
    finished(graph, image, x)
}

fn finished(
    mut graph: GraphBuilder,
    image: nae_onnx::builder::Value,
    reconstruction: nae_onnx::builder::Value,
) -> Result<Vec<u8>, BuildError> {
    let energy = graph.mean_squared_difference("energy", reconstruction, image)?;
    graph.output("reconstruction", reconstruction)?;
    graph.output("energy", energy)?;
    Ok(graph.finish()?.encode_to_vec())
}

/// A `.npy` file, version 1.
fn array(kind: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(values);
    file
}

/// A grey and a coloured image in each format that is read.
fn images() -> Result<Vec<Vec<u8>>, image::ImageError> {
    use ImageFormat::{Bmp, Jpeg, Png, Pnm, Tiff, WebP};
    let coloured = image::RgbImage::from_fn(12, 9, |x, y| image::Rgb([20 * x as u8, 28 * y as u8, (x * y) as u8]));
    let coloured = DynamicImage::from(coloured);
    let mut files = Vec::new();
    for picture in [DynamicImage::from(coloured.to_luma8()), coloured] {
        for format in [Bmp, Jpeg, Png, Pnm, Tiff, WebP] {
            let mut file = std::io::Cursor::new(Vec::new());
            picture.write_to(&mut file, format)?;
            files.push(file.into_inner());
        }
    }
    Ok(files)
}

/// Two images by their markers, the second without Huffman tables, with something between.
fn frames() -> Vec<u8> {
    let mut stream =
        vec![0xFF, 0xD8, 0xFF, 0xC4, 0, 4, 1, 2, 0xFF, 0xDA, 0, 3, 9, 1, 0xFF, 0, 2, 0xFF, 0xD0, 3, 0xFF, 0xD9];
    stream.extend(b"--boundary\r\n");
    stream.extend([0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, 0xDA, 0, 2, 5, 6, 0xFF, 0xD9]);
    stream
}

/// Parts with their length and without, and one that is cut short.
fn parts() -> Vec<u8> {
    b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=\"--frame\"\r\n\r\n\
      --frame\r\nContent-Type: image/jpeg\r\nContent-Length: 6\r\n\r\none\r\n1\r\n\
      --frame\r\n\r\ntwo\r\n-\n2\r\n--frame\r\ncontent-length: 9\r\n\r\nshort"
        .to_vec()
}
