//! Images shared out among threads, some at a time through a network.

use nae_simd::threads;
use nae_simd::{Planes, Size, Workspace};

/// Images that go through a network together.
const TOGETHER: usize = 4;

/// What `run` gives for each of `images`, channels first and of this size, in order, on as many threads as [`threads`]
/// says. Each call of `run` has some images, and gives as many vectors.
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
