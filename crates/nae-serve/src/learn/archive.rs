//! A collection as a tar file for download, made while it is sent, since it may be larger than memory. It does not
//! contain frames that were thrown out.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use axum::body::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

use super::collection::Collection;

/// How long a client may take for a piece.
const PATIENCE: Duration = Duration::from_secs(30);
/// The approximate size of a piece, in bytes.
const PIECE: usize = 1 << 16;

/// Sends the frames to train on as a tar file. Blocks, and must be called where that is permitted.
///
/// # Errors
/// If a file cannot be read, or the receiver of the pieces was dropped.
pub(super) fn send(collection: &Collection, pieces: Sender<io::Result<Bytes>>, runtime: &Handle) -> io::Result<()> {
    let mut archive = tar::Builder::new(Pieces { pieces, runtime, waiting: Vec::with_capacity(PIECE) });
    for listed in collection.list(0, usize::MAX).into_iter().filter(|listed| !listed.thrown_out) {
        // It may have been thrown out meanwhile.
        let Some(path) = collection.file(listed.number) else { continue };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // Only the name: paths of this machine are not sent.
        let Some(name) = path.file_name() else { continue };
        let mut header = tar::Header::new_gnu();
        header.set_size(file.metadata()?.len());
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        archive.append_data(&mut header, std::path::Path::new("frames").join(name), &mut file)?;
    }
    archive.into_inner()?.flush()
}

/// Collects small writes into pieces.
struct Pieces<'a> {
    pieces: Sender<io::Result<Bytes>>,
    runtime: &'a Handle,
    waiting: Vec<u8>,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.waiting, Vec::with_capacity(PIECE));
        // A client that accepts no data must not occupy a thread.
        let sent = async { tokio::time::timeout(PATIENCE, self.pieces.send(Ok(piece.into()))).await };
        match self.runtime.block_on(sent) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
