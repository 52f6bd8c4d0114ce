//! Access control: which requests are permitted, and how often. With tokens, each request's token determines what it
//! may do. Without any, the service listens on loopback, and everyone on this machine may do everything; but a page
//! from another site, open in a browser on this machine, may not.

use std::net::IpAddr;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use super::super::Service;
use super::super::limits::{Client, Tried};
use super::super::metrics::Limit;
use super::super::proxies::TrustedProxies;
use super::super::tokens::Role;
use super::Problem;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The other end of the connection that a request came by: a client or a proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// The reason why a request is refused.
#[derive(Debug)]
pub(super) enum Refused {
    /// Its sender has no permission.
    No(Problem),
    /// It may be sent again after this time.
    Later(Duration, String),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::No(problem)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::No(problem) => problem.into_response(),
            Self::Later(wait, reason) => {
                let seconds = whole_seconds(wait);
                let problem =
                    Problem::new(StatusCode::TOO_MANY_REQUESTS, format!("{reason}; try again in {seconds} s"));
                ([(header::RETRY_AFTER, seconds.to_string())], problem).into_response()
            }
        }
    }
}

/// Rounds up, so that a client that waits for this long is not too early.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Passes on a request that the role `needed` permits, with the role of its sender, or answers with the reason for the
/// refusal.
pub(super) async fn check(
    State((service, needed)): State<(Arc<Service>, Role)>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let address = client(&service, peer, request.headers())?;
    let role = role(&service, peer, address, request.headers())?;
    if !role.may(needed) {
        let reason = match needed {
            Role::Look => "this token is not for looking at cameras",
            Role::Score => "this token is not for scoring images",
            Role::Operate => "this token is not for changes",
        };
        return Err(Problem::new(StatusCode::FORBIDDEN, reason).into());
    }
    take(&service, Client::from(address), needed, request.method())?;
    request.extensions_mut().insert(role);
    if needed != Role::Operate {
        return Ok(next.run(request).await);
    }
    // In a task of its own, which ends in the log even if the client disconnects: the change is made all the same.
    let change = async move {
        let path = request.uri().path().to_owned();
        let response = next.run(request).await;
        tracing::info!(%address, path, status = response.status().as_u16(), "a change was requested");
        response
    };
    let ended = tokio::spawn(change).await;
    ended.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into())
}

/// The client: the other end of the connection, or if that is a trusted proxy, the client that it names.
fn client(service: &Service, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, Problem> {
    static SAID: Once = Once::new();
    let proxies = &service.config.trusted_proxies;
    if proxies.are_missing_one(peer, headers) {
        SAID.call_once(|| {
            tracing::warn!(
                %peer,
                "requests come by a proxy that is not among `trusted_proxies`: whom it asks for is not believed, and all of them are \
                 one client to the limits"
            );
        });
    }
    proxies.client(peer, headers).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error))
}

/// Counts a request towards the client's limits of changes and scores. Cameras' frames are not requests, and are not
/// limited.
fn take(service: &Service, client: Client, needed: Role, method: &Method) -> Result<(), Refused> {
    if method != Method::POST {
        return Ok(());
    }
    let now = Instant::now();
    let (taken, limit, what) = match needed {
        Role::Look => return Ok(()),
        Role::Operate => (service.limits.change(client, now), Limit::Changes, "changes"),
        Role::Score => (service.limits.score(client, now), Limit::Scores, "requests to score"),
    };
    taken.map_err(|(rate, wait)| {
        service.metrics.limited(limit);
        Refused::Later(wait, format!("too many {what} from {client}: {rate} are answered"))
    })
}

fn role(service: &Service, peer: IpAddr, address: IpAddr, headers: &HeaderMap) -> Result<Role, Refused> {
    if service.config.tokens.is_empty() {
        return Ok(role_without_token(&service.config.trusted_proxies, peer, address, headers)?);
    }
    let client = Client::from(address);
    let given = text(headers, header::AUTHORIZATION).and_then(bearer);
    let needed = || Problem::new(StatusCode::UNAUTHORIZED, "send a token of the service: `Authorization: Bearer …`");
    // A request without a token is not a guess.
    let given = given.ok_or_else(needed)?;
    match service.limits.token(client, given, Instant::now(), |given| service.config.tokens.role(given)) {
        Tried::Right(role) => Ok(role),
        Tried::Wrong(lock_out) => {
            service.metrics.wrong_tokens.inc();
            if let Some(lock_out) = lock_out {
                let seconds = lock_out.as_secs();
                tracing::warn!(%client, seconds, "too many wrong tokens: tokens from there are refused for a time");
            }
            Err(needed().into())
        }
        Tried::Locked(left) => {
            service.metrics.limited(Limit::WrongTokens);
            Err(Refused::Later(
                left,
                format!("too many wrong tokens from {client}: tokens from there are refused for now"),
            ))
        }
    }
}

/// The token in a value of `Authorization`. The case of the scheme does not matter (RFC 9110, 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Grants the role of a service without tokens; `address` is the client's, on whose behalf `peer` sent the request.
fn role_without_token(
    proxies: &TrustedProxies,
    peer: IpAddr,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<Role, Problem> {
    // A proxy on this machine has this machine's address, and may send its name: all its clients would have all rights.
    if proxies.are_missing_one(peer, headers) {
        let reason = "without a token the service answers to its own machine only, and this request comes by a proxy that is not \
                      among `trusted_proxies`: give the service a `token_file`";
        return Err(Problem::new(StatusCode::FORBIDDEN, reason));
    }
    if proxies.leave_client_out(peer, headers) {
        let reason = "without a token the service answers to its own machine only, and this request comes by a proxy that does not say \
                      from where: have it send `X-Forwarded-For` or `Forwarded`, or give the service a `token_file`";
        return Err(Problem::new(StatusCode::FORBIDDEN, reason));
    }
    if !address.is_loopback() {
        let reason = "without a token the service answers to its own machine only: give it a `token_file`";
        return Err(Problem::new(StatusCode::FORBIDDEN, reason));
    }
    // A foreign name may resolve to this machine by somebody's DNS; the same applies to a host name that a proxy
    // forwards.
    let hosts = proxies.hosts(peer, headers);
    if !text(headers, header::HOST).is_none_or(is_local) || !hosts.iter().all(|host| is_local(host)) {
        let reason = "without a token the service answers to localhost and 127.0.0.1 only";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, reason));
    }
    let elsewhere = |site| !matches!(site, "same-origin" | "none");
    let foreign = text(headers, header::HeaderName::from_static("sec-fetch-site")).is_some_and(elsewhere)
        || text(headers, header::ORIGIN).is_some_and(|origin| !origin.split("://").nth(1).is_some_and(is_local));
    if foreign {
        return Err(Problem::new(StatusCode::FORBIDDEN, "requests of other sites' pages are refused"));
    }
    Ok(Role::Operate)
}

/// Whether a host, with or without a port, is a name of this machine that nobody else can use.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::{HeaderMap, HeaderName};

    use super::super::super::proxies::TrustedProxies;
    use super::super::super::tokens::Role;
    use super::{bearer, is_local, role_without_token, whole_seconds};

    #[test]
    fn a_wait_is_told_in_whole_seconds_that_are_long_enough() {
        let told = [0, 1, 999, 1000, 1001].map(|millis| whole_seconds(Duration::from_millis(millis)));
        assert_eq!(told, [0, 1, 1, 1, 2]);
    }

    /// Apache sends the name of the target to which it passes requests, and has this machine's address.
    #[test]
    fn without_a_token_a_proxy_that_is_not_trusted_brings_nobody_in() {
        let loopback = [127, 0, 0, 1].into();
        let role_told = |proxies: &str, header: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "127.0.0.1:8080".parse().unwrap());
            if !header.is_empty() {
                headers.insert(HeaderName::from_static(header), value.parse().unwrap());
            }
            let proxies = if proxies.is_empty() { TrustedProxies::default() } else { proxies.parse().unwrap() };
            role_without_token(&proxies, loopback, loopback, &headers).map_err(|problem| problem.0.as_u16())
        };
        let role = |proxies: &str, header: &'static str| role_told(proxies, header, "localhost");
        assert_eq!(role("", ""), Ok(Role::Operate));
        for header in ["x-forwarded-for", "x-forwarded-host", "x-real-ip", "via", "forwarded"] {
            assert_eq!(role("", header), Err(403), "{header}");
            assert_eq!(role("10.0.0.0/8", header), Err(403), "{header}");
            // A header of a trusted proxy only shows that it has a client.
            assert_eq!(role("127.0.0.1", header), Err(403), "{header}");
        }
        for (header, value) in [("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=127.0.0.1")] {
            assert_eq!(role_told("127.0.0.1", header, value), Ok(Role::Operate), "{header}");
        }
    }

    #[test]
    fn a_token_comes_after_its_scheme_in_any_case() {
        for value in ["Bearer open sesame", "bearer open sesame", "BEARER open sesame"] {
            assert_eq!(bearer(value), Some("open sesame"), "{value}");
        }
        for value in ["", "Bearer", "Beareropen", "Basic open", "open sesame", "xBearer open"] {
            assert_eq!(bearer(value), None, "{value}");
        }
    }

    #[test]
    fn names_of_this_machine() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:8080", "[::1]", "[::1]:8080"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com", "127.0.0.1.nip.io:8080", "10.0.0.1", "[::2]:80"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
