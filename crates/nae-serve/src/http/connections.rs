//! Connections of clients, encrypted or not, and the limits of how long a client may take to send a request and to
//! receive the answer.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rumqttc::tokio_rustls::TlsAcceptor;
use rumqttc::tokio_rustls::server::TlsStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::super::Service;
use super::super::limits::Client;
use super::super::metrics::Limit;
use super::access::Peer;
use super::patience::Patient;
use super::places::Places;
use super::{Problem, router};

/// How long a client may take to send the head of a request, and before that for the TLS handshake.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a client may accept no byte of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How long requests that have begun may take when the service stops.
const DRAIN: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: a handshake record (RFC 8446, 5.1). No HTTP request begins with it.
const HANDSHAKE: u8 = 22;

/// Serves until `stop` completes, then waits for requests that have begun.
pub(crate) async fn serve(
    mut listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: Arc<Service>,
    stop: impl Future<Output = ()>,
) {
    let answers = TowerToHyperService::new(router(Arc::clone(&service)));
    let places = Places::new();
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = async {
            loop {
                let (stream, peer) = Listener::accept(&mut listener).await;
                let is_proxy = service.config.trusted_proxies.trust(peer.ip());
                match places.take((!is_proxy).then(|| Client::from(peer.ip()))).await {
                    Some(place) => return (stream, peer, place),
                    // The connection is closed without an answer, which would need a place.
                    None => service.metrics.limited(Limit::Connections),
                }
            }
        };
        let (stream, peer, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        // Small answers should not be delayed.
        let _ = stream.set_nodelay(true);
        let client = Connection { peer: peer.ip(), answers: answers.clone(), watcher: graceful.watcher() };
        let (tls, service) = (tls.clone(), Arc::clone(&service));
        tokio::spawn(async move {
            match tls {
                None => client.answer(stream).await,
                Some(tls) => client.answer_encrypted(stream, &tls, &service).await,
            }
            drop(place);
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(DRAIN) => tracing::warn!("some connections did not end and are cut"),
    }
}

/// A connected client.
struct Connection {
    peer: IpAddr,
    answers: TowerToHyperService<Router>,
    /// Notified when the service stops.
    watcher: Watcher,
}

/// The result of a handshake.
enum Begun {
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The client uses HTTP without TLS.
    Plain(TcpStream),
}

impl Connection {
    /// Answers requests until the client closes the connection.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { peer, answers, watcher } = self;
        let answers = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            answers.call(request)
        });
        let connection = http().serve_connection(TokioIo::new(Patient::new(stream, ANSWER_TIME)), answers);
        // A client that disconnected is not an error of the service.
        let _ = watcher.watch(connection).await;
    }

    async fn answer_encrypted(self, stream: TcpStream, tls: &TlsAcceptor, service: &Service) {
        let mut stopping = service.stopping.subscribe();
        let begun = tokio::select! {
            begun = tokio::time::timeout(HEAD_TIME, begin(stream, tls)) => begun,
            // No request has been sent yet.
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match begun {
            Ok(Ok(Begun::Encrypted(stream))) => self.answer(*stream).await,
            Ok(Ok(Begun::Plain(stream))) => self.refuse(stream, service).await,
            // Port scanners, clients that disconnected, and clients that do not trust the certificate's authority.
            Ok(Err(error)) => {
                service.metrics.handshakes_failed.inc();
                tracing::debug!(peer = %self.peer, %error, "no encrypted connection");
            }
            Err(_) => {
                service.metrics.handshakes_failed.inc();
            }
        }
    }

    /// Tells a client that does not use TLS to do so. It is not redirected: others could have read what it sent, even a
    /// token, and with a redirection it would continue to send that.
    async fn refuse(self, stream: TcpStream, service: &Service) {
        let answers = service_fn(|_: hyper::Request<Incoming>| {
            let reason = "this service speaks TLS: ask https:// in place of http://";
            let response: Response = Problem::new(StatusCode::BAD_REQUEST, reason).into_response();
            service.metrics.answered(response.status().as_u16());
            async move { Ok::<_, io::Error>(response) }
        });
        let mut http = http();
        let connection = http.keep_alive(false).serve_connection(TokioIo::new(stream), answers);
        let _ = self.watcher.watch(connection).await;
    }
}

async fn begin(stream: TcpStream, tls: &TlsAcceptor) -> io::Result<Begun> {
    let mut first = [0];
    // For an empty connection, TLS has a better error.
    if stream.peek(&mut first).await? > 0 && first[0] != HANDSHAKE {
        return Ok(Begun::Plain(stream));
    }
    Ok(Begun::Encrypted(Box::new(tls.accept(stream).await?)))
}

fn http() -> hyper::server::conn::http1::Builder {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    builder
}
