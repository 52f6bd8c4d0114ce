//! What the targets share.

use nae_core::model::Model;

/// # Panics
/// Where `nae`, a file as this project writes it, is not read again.
pub fn is_read(nae: &[u8]) {
    let mut words = vec![0u64; nae.len().div_ceil(8)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    bytes[..nae.len()].copy_from_slice(nae);
    Model::parse(&bytes[..nae.len()]).expect("what is written is read");
}
