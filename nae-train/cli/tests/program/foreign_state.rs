//! A state to go on from that no run has written, with a checksum that is right: refused, or gone on from. Updates index by
//! what is in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use ciborium::Value;
use ciborium::value::Integer;
use nae_data::SplitShares;
use nae_data::own::Corrupt;
use nae_train::arch::{DenseOutput, LatentSpace};
use nae_train::config::{ArchitectureConfig, Config, MethodKind, RawConfig};
use nae_train::engine::Engine;
use nae_train::run::Prepared;
use nae_train::train::{Silent, Snapshot};

use crate::resume::{Break, short_runs};

/// Calls `attempt` with `value` changed in one place, for every place and every change that is tried there, and the name of
/// both. Of long lists and maps the first and the last are places; within packs of tensors, those of the names in `packs`.
fn each_change(value: &Value, place: &str, packs: &[&str], attempt: &mut dyn FnMut(&str, Value)) {
    const LONG: usize = 12;
    let within = |len: usize| (0..len).filter(move |&k| len <= LONG || k == 0 || k + 1 == len);
    match value {
        Value::Map(entries) => {
            for k in within(entries.len()) {
                let (key, entry) = &entries[k];
                let place = format!("{place}.{}", key.as_text().unwrap_or("?"));
                each_change(entry, &place, packs, &mut |change, entry| {
                    let mut changed = entries.clone();
                    changed[k].1 = entry;
                    attempt(change, Value::Map(changed));
                });
                let mut fewer = entries.clone();
                fewer.remove(k);
                attempt(&format!("{place} left out"), Value::Map(fewer));
                let mut null = entries.clone();
                null[k].1 = Value::Null;
                attempt(&format!("{place} null"), Value::Map(null));
            }
        }
        Value::Array(items) => {
            for k in within(items.len()) {
                each_change(&items[k], &format!("{place}[{k}]"), packs, &mut |change, item| {
                    let mut changed = items.clone();
                    changed[k] = item;
                    attempt(change, Value::Array(changed));
                });
            }
            attempt(&format!("{place} empty"), Value::Array(Vec::new()));
            attempt(&format!("{place} reversed"), Value::Array(items.iter().rev().cloned().collect()));
            if let Some((last, rest)) = items.split_last() {
                attempt(&format!("{place} without its last"), Value::Array(rest.to_vec()));
                attempt(&format!("{place} with its last twice"), Value::Array([items, &[last.clone()][..]].concat()));
            }
        }
        Value::Bytes(bytes) => {
            if let Some((metadata, data)) = unpacked(bytes).filter(|_| packs.iter().any(|name| place.ends_with(name))) {
                each_change(&metadata, &format!("{place}:pack"), packs, &mut |change, metadata| {
                    attempt(change, Value::Bytes(packed(&metadata, data)));
                });
            } else if let Ok(nested @ Value::Map(_)) = ciborium::from_reader::<Value, _>(bytes.as_slice()) {
                each_change(&nested, &format!("{place}:cbor"), packs, &mut |change, nested| {
                    attempt(change, Value::Bytes(written(&nested)));
                });
            }
            attempt(&format!("{place} empty"), Value::Bytes(Vec::new()));
            attempt(&format!("{place} cut"), Value::Bytes(bytes[..bytes.len() / 2].to_vec()));
        }
        Value::Integer(_) => {
            for number in [Integer::from(0), (-1).into(), i64::MAX.into(), u64::MAX.into()] {
                attempt(&format!("{place} = {number:?}"), Value::Integer(number));
            }
        }
        Value::Float(_) => {
            for number in [f64::NAN, -1.0, 1e300] {
                attempt(&format!("{place} = {number}"), Value::Float(number));
            }
        }
        _ => {
            for other in [Value::Bool(false), Value::Bool(true), Value::Integer(3.into()), Value::Text("x".into())] {
                attempt(&format!("{place} = {other:?}"), other);
            }
        }
    }
}

/// Where burn's pack of tensors has its metadata, and what their data is aligned to.
const HEADER: usize = 10;
const ALIGNMENT: usize = 256;

/// The metadata of a pack of tensors, and its data from there on; `None` of other bytes.
fn unpacked(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let header = bytes.first_chunk::<HEADER>().filter(|header| &header[..4] == b"NRUB")?;
    let length = u32::from_le_bytes(*header.last_chunk::<4>()?) as usize;
    let metadata = ciborium::from_reader(bytes.get(HEADER..HEADER + length)?).ok()?;
    Some((metadata, bytes.get((HEADER + length).next_multiple_of(ALIGNMENT)..).unwrap_or_default()))
}

fn packed(metadata: &Value, data: &[u8]) -> Vec<u8> {
    let metadata = written(metadata);
    let mut bytes = b"NRUB\x01\x00".to_vec();
    bytes.extend((metadata.len() as u32).to_le_bytes());
    bytes.extend(metadata);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes.extend(data);
    bytes
}

fn written(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

/// Goes on for one update from every change of the state that a run of `raw` has after `after` updates.
fn no_change_panics(mut raw: RawConfig, after: usize, packs: &[&str]) {
    let device = Device::flex();
    // Small, so that hundreds of updates are nothing.
    raw.architecture = ArchitectureConfig::Dense {
        image: [1, 16, 16],
        widths: vec![6],
        output: DenseOutput::default(),
        latent_dim: 3,
        latent_space: LatentSpace::Sphere,
    };
    // A look at so few, too.
    raw.data.split = SplitShares { validation: Some(0.05), calibration: 0.1, test: Some(0.7) };
    let prepared = Prepared::new(Config::new(raw).unwrap(), 0, None, Corrupt::Refuse).unwrap();
    let name = format!("{} by {}, after {after}", prepared.config.name(), prepared.config.method().name());
    let stop = AtomicBool::new(false);
    let mut broken = Break { after, stop: &stop, stored: None };
    prepared.train(Engine::Cpu, &device, &mut broken, &stop, None).unwrap();
    let state: Value = ciborium::from_reader(broken.stored.unwrap().as_slice()).unwrap();

    let go_on = |state: &Value| {
        let Ok(snapshot) = state.deserialized::<Snapshot>() else { return false };
        // It is asked to stop from the beginning, and so stops after an update.
        prepared.train(Engine::Cpu, &device, &mut Silent, &AtomicBool::new(true), Some(snapshot)).is_ok()
    };
    assert!(go_on(&state), "{name}: as it was written");
    let begun = std::time::Instant::now();
    let (mut panics, mut refused, mut gone_on) = (Vec::new(), 0, 0);
    each_change(&state, "", packs, &mut |change, state| match catch_unwind(AssertUnwindSafe(|| go_on(&state))) {
        Ok(true) => gone_on += 1,
        Ok(false) => refused += 1,
        Err(_) => panics.push(change.to_owned()),
    });
    println!("{name}: {refused} changes refused, {gone_on} gone on from, in {:?}", begun.elapsed());
    assert!(panics.is_empty(), "{name}: {panics:#?}");
    assert!(refused > 50 && gone_on > 0, "{name}: {refused} {gone_on}");
}

/// NAE training with a replay buffer, with persistent chains; what remembers something of its own in other methods.
#[test]
fn a_changed_state_never_panics() {
    // With fixed manifold, in pixels alone, with a replay buffer, persistent, and the other methods.
    let mut runs = short_runs().split_off(2);
    let mut remembering = runs.remove(0);
    remembering.sampler.reuse = Some(nae_train::sample::ReplayConfig { size: 64, ratio: 0.5 });
    no_change_panics(remembering, 7, &["weights", "moments"]);
    for raw in runs {
        match raw.method {
            MethodKind::Nae => no_change_panics(raw, 7, &[]),
            MethodKind::Dae | MethodKind::Vae | MethodKind::Vqvae | MethodKind::Igebm | MethodKind::Glow => {
                no_change_panics(raw, 3, &[]);
            }
            // Once its network learns.
            MethodKind::Mpdr => no_change_panics(raw, 5, &[]),
            _ => {}
        }
    }
}
