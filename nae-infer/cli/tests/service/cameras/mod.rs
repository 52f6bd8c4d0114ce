//! Several cameras in one process: each has its own model, alarms and state, and one that fails is nothing to the others. What all
//! of it needs is here.

mod alarms;
mod apart;
mod settings;

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use self::apart::slow_model;
use crate::harness::{Place, Service, model};

/// The beginning of a file of settings: the digits model for all.
pub(crate) fn for_all(more: &str) -> String {
    format!("model = \"{}\"\n{more}\n", model().display())
}

pub(crate) fn camera(name: &str, settings: &str) -> String {
    format!("[[camera]]\nname = \"{name}\"\n{settings}\n")
}

/// Cameras with a folder of frames each.
fn with_folders(place: &Place, names: &[&str]) -> String {
    let folder = |name: &&str| {
        std::fs::create_dir_all(place.path(name)).unwrap();
        camera(name, &format!("source = \"folder:{}\"", place.path(name).display()))
    };
    names.iter().map(folder).collect()
}

/// A frame comes to a camera with a folder, whole at once.
pub(crate) fn frame(place: &Place, camera: &str, name: &str, bytes: &[u8]) {
    place.frame_in(camera, name, bytes);
}

pub(crate) fn scored(service: &Service, camera: &str) -> f64 {
    service.metric(&format!("nae_frames_total{{camera=\"{camera}\",origin=\"Source\"}}"))
}

pub(crate) fn dropped(service: &Service, camera: &str) -> f64 {
    service.metric(&format!("nae_frames_dropped_total{{camera=\"{camera}\"}}"))
}

/// What `/api/cameras` says of each.
fn listed(service: &Service) -> BTreeMap<String, Value> {
    let all = service.get("/api/cameras").json();
    let named = |camera: &Value| (camera["name"].as_str().unwrap().to_owned(), camera.clone());
    all.as_array().unwrap().iter().map(named).collect()
}
