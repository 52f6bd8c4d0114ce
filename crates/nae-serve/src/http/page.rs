//! The page, its style and scripts: all are in the binary, so that nothing is loaded from elsewhere.

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

pub(super) async fn day_night_js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/day-night.js"))
}

pub(super) async fn history_js() -> Response {
    typed("text/javascript; charset=utf-8", include_str!("../page/history.js"))
}

pub(super) async fn icon() -> Response {
    typed("image/svg+xml", include_str!("../page/icon.svg"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    /// In the browser, the scripts are one program: if two define the same name, the second fails, and the page shows
    /// nothing.
    #[test]
    fn no_two_scripts_give_the_same_name() {
        let mut given: BTreeMap<&str, &str> = BTreeMap::new();
        for (script, text) in [
            ("learn.js", include_str!("../page/learn.js")),
            ("quiet.js", include_str!("../page/quiet.js")),
            ("regions.js", include_str!("../page/regions.js")),
            ("day-night.js", include_str!("../page/day-night.js")),
            ("history.js", include_str!("../page/history.js")),
            ("page.js", include_str!("../page/page.js")),
        ] {
            let declared = ["const ", "let ", "function ", "async function "];
            for line in text.lines() {
                let rest = declared.iter().find_map(|word| line.strip_prefix(word));
                let name = rest.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
                if let Some(name) = name {
                    assert_eq!(given.insert(name, script), None, "`{name}` is of {script}, too");
                }
            }
        }
        assert!(given.len() > 50, "{given:?}");
    }
}
