//! What the fuzz targets (`fuzz/`) reach of the service; it is compiled for them alone.

use axum::body::Bytes;
use nae_core::Shape;
use nae_core::contract::Contract;

use crate::http::inference;
pub use crate::http::inference::Coding;

/// The images of a request of the Open Inference Protocol, for a network of 1 × 2 pixels; `length` is that of its JSON.
///
/// # Errors
/// The status with which the service would refuse it.
pub fn inference(
    body: &[u8],
    coding: Option<Coding>,
    length: Option<usize>,
    limit: usize,
) -> Result<Vec<Vec<f32>>, u16> {
    inference::images(Bytes::copy_from_slice(body), coding, length, limit, &Contract::new(Shape::new(1, 1, 2)))
}
