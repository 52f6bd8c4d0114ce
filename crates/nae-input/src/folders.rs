//! Walks through folders that follow links. The walk itself is the caller's.

use std::path::{Path, PathBuf};

/// The folders that are entered, down to the current one.
///
/// A walk ends at a link to a folder above it, but not at that folder itself below such a link: with `in/loop -> ..`, all of
/// `in` would be found again as `in/loop/in`.
#[derive(Debug, Default)]
pub struct FoldersAbove(Vec<PathBuf>);

impl FoldersAbove {
    /// Enters the folder at `path`, `depth` levels below the first one. Returns whether it is another folder than those above
    /// it: otherwise all its files have been found.
    pub fn enter(&mut self, path: &Path, depth: usize) -> bool {
        self.0.truncate(depth);
        // What cannot be entered is the walk's error.
        let folder = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_other = !self.0.contains(&folder);
        self.0.push(folder);
        is_other
    }
}
