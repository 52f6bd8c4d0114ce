//! The functions of the service that the fuzz targets (`fuzz/`) call; compiled only for them.

use axum::body::Bytes;
use nae_core::Shape;
use nae_core::contract::Contract;

use crate::http::inference::{self, Coding};

/// The compression of a request's body.
#[derive(Clone, Copy)]
pub enum Packed {
    /// None.
    Plain,
    /// The gzip format.
    Gzip,
    /// The zlib format: deflate with zlib's header and checksum.
    Deflate,
}

/// Parses the images of a request of the Open Inference Protocol, for a network of 1 × 2 pixels; `length` is that of
/// its JSON part.
///
/// # Errors
/// The HTTP status with which the service would refuse the request.
pub fn inference(body: &[u8], packed: Packed, length: Option<usize>, limit: usize) -> Result<Vec<Vec<f32>>, u16> {
    let coding = match packed {
        Packed::Plain => None,
        Packed::Gzip => Some(Coding::Gzip),
        Packed::Deflate => Some(Coding::Deflate),
    };
    inference::images(Bytes::copy_from_slice(body), coding, length, limit, &Contract::new(Shape::new(1, 1, 2)))
}
