//! A connection whose other end may read slowly, but not forever, since it would occupy a place that others need.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that fails if no byte of what is written is taken for a given time.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while the other end takes nothing.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waits: None }
    }

    /// Handles the result of an attempt to write.
    fn wait<T>(&mut self, attempt: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.waits = None;
            return attempt;
        }
        let patience = self.patience;
        ready!(self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience))).as_mut().poll(context));
        self.waits = None;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing of what is sent")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(attempt, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wait(attempt, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(attempt, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(attempt, context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn whoever_reads_now_and_then_gets_all_and_whoever_does_not_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Patient::new(near, PATIENCE);
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            for _ in 0..6 {
                tokio::time::sleep(PATIENCE / 4).await;
                let mut some = [0; 4];
                far.read_exact(&mut some).await.unwrap();
                all.extend(some);
            }
            (all, far)
        });
        // In total, this takes longer than the limit.
        near.write_all(b"abcdefghijklmnopqrstuvwx").await.unwrap();
        let (all, _far) = reader.await.unwrap();
        assert_eq!(all, b"abcdefghijklmnopqrstuvwx");
        let error = near.write_all(b"more than has room").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
