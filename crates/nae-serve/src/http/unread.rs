//! Reads the rest of a request that is answered before it is read: without a token, to an unknown address, to an
//! unknown camera. A connection that is closed with unread bytes is reset, and a client that is still sending gets a
//! connection error in place of the answer (RFC 9112, 9.6). Therefore, the bytes are read and discarded first, up to a
//! limit.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};

/// The maximum number of bytes of a request that are discarded.
const MOST: u64 = 1 << 20;
/// The maximum time for which an answer waits for them.
const TIME: Duration = Duration::from_secs(2);

/// Answers a request, then reads the unread rest of its body.
pub(super) async fn read_unread(request: Request, next: Next) -> Response {
    // A client that sends `Expect` does not send a body that is refused.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = Shared(Arc::new(Mutex::new(body)));
    let response = next.run(Request::from_parts(parts, Body::new(body.clone()))).await;
    // A slower client is also answered, but may see a connection error.
    let _ = tokio::time::timeout(TIME, discard(body)).await;
    response
}

async fn discard(mut body: Shared) {
    let mut left = MOST;
    while body.size_hint().lower() <= left {
        let Some(Ok(frame)) = body.frame().await else { return };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

/// A body that two readers share, one after the other.
#[derive(Clone)]
struct Shared(Arc<Mutex<Body>>);

impl Shared {
    fn with<T>(&self, read: impl FnOnce(Pin<&mut Body>) -> T) -> T {
        // No code that holds the lock panics and leaves the body inconsistent.
        read(Pin::new(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.with(|body| body.poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}
