//! Distributes images over threads, which run several images through a network at a time.

use nae_simd::threads;
use nae_simd::{Planes, Size, Workspace};

/// The number of images in one pass of a network.
const TOGETHER: usize = 4;

/// Calls `run` for all of `images`, which are channels first and of this size, on as many threads as [`threads`] says, and
/// returns its results in order. Each call of `run` gets several images and returns as many vectors.
pub(crate) fn side_by_side(
    images: &[&[f32]],
    size: Size,
    run: impl Fn(Planes) -> Vec<Vec<f32>> + Sync,
) -> Vec<Vec<f32>> {
    let share = images.len().div_ceil(threads::count().get()).max(1);
    let of_share = |images: &[&[f32]]| {
        let workspace = Workspace::default();
        let planes = |part: &[&[f32]]| Planes::from_channels_first(&workspace, part.len(), size, &part.concat());
        images.chunks(TOGETHER).flat_map(|part| run(planes(part))).collect::<Vec<_>>()
    };
    threads::map(images.chunks(share).collect(), of_share).into_iter().flatten().collect()
}
