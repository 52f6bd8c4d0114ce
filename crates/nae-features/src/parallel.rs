//! Images shared out among threads, some at a time through a network.

use nae_simd::{Planes, Size, Workspace};

/// Images that go through a network together.
const TOGETHER: usize = 4;

/// What `run` gives for each of `images`, channels first and of this size, in order, on as many threads as the machine has.
/// Each call of `run` has some images, and gives as many vectors.
pub(crate) fn side_by_side(
    images: &[&[f32]],
    size: Size,
    run: impl Fn(Planes) -> Vec<Vec<f32>> + Sync,
) -> Vec<Vec<f32>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = images.len().div_ceil(threads).max(1);
    let of_share = |images: &[&[f32]]| {
        let workspace = Workspace::default();
        let planes = |part: &[&[f32]]| Planes::from_channels_first(&workspace, part.len(), size, &part.concat());
        images.chunks(TOGETHER).flat_map(|part| run(planes(part))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = images.chunks(share).map(|images| scope.spawn(|| of_share(images))).collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    })
}
