//! Announces a camera to Home Assistant, so that it appears there as a device without configuration: a retained message
//! for each entity, by MQTT discovery (<https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery>). There is one
//! message per entity and not one for the device, which versions before 2024.11 do not support.

use serde_json::{Value, json};

use super::super::broker::Broker;
use super::status::{OFFLINE, ONLINE, Topics};

/// The messages, each a topic and JSON; empty if the settings do not request them. They depend only on the settings, so
/// that the entities are the same after every start.
pub(super) fn messages(broker: &Broker, topics: &Topics) -> Vec<(String, String)> {
    let Some(prefix) = &broker.home_assistant else { return Vec::new() };
    let entity = |component: &str, name: &str, shown: &str, own: Value| {
        let mut message = json!({
            "name": shown,
            "unique_id": format!("nae_{}_{name}", broker.camera),
            "availability": [{ "topic": topics.availability, "payload_available": ONLINE, "payload_not_available": OFFLINE }],
            "availability_mode": "all",
            "device": {
                "identifiers": [format!("nae_{}", broker.camera)],
                "name": broker.camera.as_str(),
                "manufacturer": "nae-infer",
                "model": "Camera with a normalized autoencoder",
                "sw_version": env!("CARGO_PKG_VERSION"),
            },
            "origin": { "name": "nae-infer", "sw_version": env!("CARGO_PKG_VERSION") },
        });
        for (key, value) in own.as_object().into_iter().flatten() {
            message[key] = value.clone();
        }
        (format!("{prefix}/{component}/nae_{}/{name}/config", broker.camera), message.to_string())
    };
    let energies_come = json!([
        { "topic": topics.availability, "payload_available": ONLINE, "payload_not_available": OFFLINE },
        // While a camera is lost or its frames cannot be scored, its last energy is outdated.
        {
            "topic": topics.state,
            "value_template": format!(
                "{{{{ '{ONLINE}' if value_json.source == 'connected' and not value_json.failure else '{OFFLINE}' }}}}"
            ),
            "payload_available": ONLINE,
            "payload_not_available": OFFLINE,
        },
    ]);
    vec![
        entity(
            "binary_sensor",
            "anomaly",
            "Anomaly",
            json!({
                "device_class": "problem",
                "state_topic": topics.state,
                "value_template": "{{ 'ON' if value_json.alarm else 'OFF' }}",
                "json_attributes_topic": topics.state,
            }),
        ),
        entity(
            "binary_sensor",
            "camera",
            "Camera",
            json!({
                "device_class": "connectivity",
                "entity_category": "diagnostic",
                "state_topic": topics.state,
                "value_template": "{{ 'ON' if value_json.source == 'connected' else 'OFF' }}",
            }),
        ),
        entity(
            "sensor",
            "energy",
            "Energy",
            json!({ "state_class": "measurement", "state_topic": topics.energy, "availability": energies_come }),
        ),
        entity(
            "image",
            "last_alarm",
            "Last alarm",
            json!({ "image_topic": topics.image, "content_type": "image/jpeg" }),
        ),
    ]
}
