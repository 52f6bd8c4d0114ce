//! Who may do what. With tokens, whoever sends one, what it is for. Without any the service listens on loopback, where
//! everyone on this machine may do everything; but a page from elsewhere, open in a browser on this machine, may not.

use std::sync::Arc;

use super::super::Service;
use super::super::tokens::{Role, Tokens};
use super::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// Lets a request for what `needed` is for through, with the role that it has, or says why not.
pub(super) async fn check(
    State((service, needed)): State<(Arc<Service>, Role)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let role = role(&service.config.tokens, request.headers())?;
    if !role.may(needed) {
        let reason = match needed {
            Role::Look => "this token is not for looking at cameras",
            Role::Score => "this token is not for scoring images",
            Role::Operate => "this token is not for changes",
        };
        return Err(Problem::new(StatusCode::FORBIDDEN, reason));
    }
    request.extensions_mut().insert(role);
    Ok(next.run(request).await)
}

fn role(tokens: &Tokens, headers: &HeaderMap) -> Result<Role, Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if !tokens.is_empty() {
        let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let reason = "send a token of the service: `Authorization: Bearer …`";
        return given
            .and_then(|given| tokens.role(given))
            .ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, reason));
    }
    // A name that leads here by somebody's DNS is not ours.
    if !text(header::HOST).is_none_or(is_local) {
        let reason = "without a token the service answers to localhost and 127.0.0.1 only";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, reason));
    }
    let elsewhere = |site| !matches!(site, "same-origin" | "none");
    let foreign = text(header::HeaderName::from_static("sec-fetch-site")).is_some_and(elsewhere)
        || text(header::ORIGIN).is_some_and(|origin| !origin.split("://").nth(1).is_some_and(is_local));
    if foreign {
        return Err(Problem::new(StatusCode::FORBIDDEN, "requests of other sites' pages are refused"));
    }
    Ok(Role::Operate)
}

/// Whether a host, with or without a port, is this machine by a name nobody else can give.
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
    use super::is_local;

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
