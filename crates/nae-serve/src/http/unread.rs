//! What a client sends of a request that is answered before it is read: without a token, to an address that is not there, to a
//! camera that is not. A connection that is closed with bytes unread is reset, and a client that still sends gets a broken
//! connection in place of the answer (RFC 9112, 9.6). So they are read and thrown away first, as far as they are few.

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

/// The most bytes that are read of a request for nothing.
const MOST: u64 = 1 << 20;
/// The longest that an answer waits for them.
const TIME: Duration = Duration::from_secs(2);

/// Has a request answered, then reads what the answer left of its body.
pub(super) async fn read_unread(request: Request, next: Next) -> Response {
    // Who expects to be told whether to send the body does not send one that is refused.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = Shared(Arc::new(Mutex::new(body)));
    let response = next.run(Request::from_parts(parts, Body::new(body.clone()))).await;
    // A client that is slower is answered all the same, and may see a broken connection.
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

/// A body of which two may read, one after the other.
#[derive(Clone)]
struct Shared(Arc<Mutex<Body>>);

impl Shared {
    fn with<T>(&self, read: impl FnOnce(Pin<&mut Body>) -> T) -> T {
        // Nothing panics while it is held that would leave the body in pieces.
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
