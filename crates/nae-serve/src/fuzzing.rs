//! What the fuzz targets (`fuzz/`) reach of the service; it is compiled for them alone.

use axum::body::Bytes;
use nae_core::Shape;
use nae_core::contract::Contract;

use crate::http::inference::{self, Coding};

/// How the body of a request is packed.
#[derive(Clone, Copy)]
pub enum Packed {
    /// It is not.
    Plain,
    /// By gzip.
    Gzip,
    /// With zlib's header and checksum.
    Deflate,
}

/// The images of a request of the Open Inference Protocol, for a network of 1 × 2 pixels; `length` is that of its JSON.
///
/// # Errors
/// The status with which the service would refuse it.
pub fn inference(body: &[u8], packed: Packed, length: Option<usize>, limit: usize) -> Result<Vec<Vec<f32>>, u16> {
    let coding = match packed {
        Packed::Plain => None,
        Packed::Gzip => Some(Coding::Gzip),
        Packed::Deflate => Some(Coding::Deflate),
    };
    inference::images(Bytes::copy_from_slice(body), coding, length, limit, &Contract::new(Shape::new(1, 1, 2)))
}
