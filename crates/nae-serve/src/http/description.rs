//! `/openapi.json`: the description of the interface. The file describes the addresses of a single camera; those with a
//! camera's name are derived from them here.

use std::sync::LazyLock;

use axum::response::Response;
use serde_json::{Value, json};

use super::typed;

/// The prefix of a single camera's addresses, that of addresses with a camera's name, and the one address for all
/// cameras.
const ONLY: &str = "/api";
const BY_NAME: &str = "/api/cameras/{camera}";
const OF_ALL: &str = "/api/cameras";

pub(super) async fn openapi() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| complete(include_str!("openapi.json")));
    typed("application/json", TEXT.as_str())
}

fn complete(written: &str) -> String {
    let Ok(mut description) = serde_json::from_str::<Value>(written) else { return written.to_owned() };
    if let Some(paths) = description["paths"].as_object_mut() {
        let of_only: Vec<(String, Value)> = paths
            .iter()
            .filter(|(path, _)| path.starts_with(ONLY) && *path != OF_ALL)
            .map(|(path, operations)| (path.clone(), operations.clone()))
            .collect();
        for (path, mut operations) in of_only {
            operations["parameters"] =
                json!([{ "name": "camera", "in": "path", "required": true, "schema": { "type": "string" } }]);
            paths.insert(path.replacen(ONLY, BY_NAME, 1), operations);
        }
        let operations = paths.values_mut().filter_map(Value::as_object_mut).flat_map(|of_path| of_path.values_mut());
        for operation in operations {
            // Requests that anybody may send are not limited.
            if operation.get("security").is_none()
                && let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut)
            {
                responses.insert(String::from("429"), too_often());
            }
        }
    }
    description.to_string()
}

/// The answer to an address that sends too many wrong tokens, changes or scoring requests.
fn too_often() -> Value {
    json!({
        "description": "Too many wrong tokens, changes or requests to score from this address: when to come again",
        "headers": { "Retry-After": { "description": "Seconds", "schema": { "type": "integer", "minimum": 1 } } },
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_only_camera_has_each_of_several_has_too() {
        let description: Value = serde_json::from_str(&complete(include_str!("openapi.json"))).unwrap_or_default();
        let paths = description["paths"].as_object().map(|paths| paths.keys().cloned().collect::<Vec<_>>());
        let paths = paths.unwrap_or_default();
        for path in
            ["/api/cameras", "/api/state", "/api/cameras/{camera}/state", "/api/cameras/{camera}/alarms/{number}/image"]
        {
            assert!(paths.iter().any(|found| found == path), "no {path} in {paths:?}");
        }
        assert!(!paths.iter().any(|path| path.contains("cameras/{camera}/cameras")), "{paths:?}");
        assert_eq!(description["paths"]["/api/cameras/{camera}/history"]["parameters"][0]["name"], "camera");
        assert_eq!(description["paths"]["/api/cameras/{camera}/history"]["get"]["parameters"][0]["name"], "seconds");
        let limited = |path: &str, method: &str| {
            description["paths"][path][method]["responses"]["429"]["headers"]["Retry-After"].is_object()
        };
        assert!(
            limited("/score", "post") && limited("/api/cameras/{camera}/undo", "post") && !limited("/metrics", "get")
        );
    }
}
