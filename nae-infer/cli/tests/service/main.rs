//! The service as a process: what it answers, and what it survives.
#![allow(clippy::unwrap_used, missing_docs)]
#![cfg(feature = "serve")]

mod alarms;
mod broker;
mod browser;
mod camera;
mod cameras;
mod changes;
mod clients;
mod day_night;
mod figures;
mod harness;
mod history;
mod inference;
mod learn;
mod limits;
mod mosquitto;
mod no_model;
mod packaging;
mod page;
mod pauses;
mod pictures;
mod process;
mod proxies;
mod regions;
mod stream_camera;
mod streams;
mod tls;
mod walk;
