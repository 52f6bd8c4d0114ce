//! The page, its style and scripts: all in the binary, so that nothing is asked of anyone else.

use axum::response::Response;

use super::typed;

pub(super) async fn html() -> Response {
    typed("text/html; charset=utf-8", include_str!("../page/index.html"))
}

pub(super) async fn css() -> Response {
    typed("text/css; charset=utf-8", include_str!("../page/page.css"))
}

pub(super) async fn js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/page.js"))
}

pub(super) async fn learn_js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/learn.js"))
}

pub(super) async fn quiet_js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/quiet.js"))
}

pub(super) async fn regions_js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/regions.js"))
}

pub(super) async fn history_js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/history.js"))
}

pub(super) async fn icon() -> Response {
    typed("image/svg+xml", include_str!("../page/icon.svg"))
}
