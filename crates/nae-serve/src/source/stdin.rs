//! JPEG images on standard input, one after the other, as `ffmpeg … -f mjpeg -` writes them.

use std::io::{BufReader, StdinLock, stdin};

use axum::body::Bytes;

use super::{Lost, MAX_FRAME, Source, jpeg};

pub(super) struct Stdin {
    input: BufReader<StdinLock<'static>>,
}

impl Stdin {
    pub(super) fn open() -> Self {
        Self { input: BufReader::with_capacity(1 << 16, stdin().lock()) }
    }
}

impl Source for Stdin {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        match jpeg::read(&mut self.input, MAX_FRAME) {
            Ok(Some(image)) => Ok(Some((jpeg::with_tables(image).into(), None))),
            Ok(None) => Err(Lost::Ended),
            Err(error) => Err(Lost::Failed(format!("standard input: {error}"))),
        }
    }
}
