//! Images shared out among threads.

/// Images that go through a network together.
pub(crate) const TOGETHER: usize = 4;

/// What `run` gives for each image, in order, on as many threads as the machine has: each calls it once, with a share.
pub(crate) fn side_by_side(images: &[&[f32]], run: impl Fn(&[&[f32]]) -> Vec<Vec<f32>> + Sync) -> Vec<Vec<f32>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = images.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = images.chunks(share).map(|part| scope.spawn(|| run(part))).collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    })
}
