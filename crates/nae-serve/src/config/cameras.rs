//! Checks the settings of cameras. Each of several cameras has the settings in its `[[camera]]`; the rest come from
//! those that the file gives for all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nae_core::verdict::AlarmSettings;
use nae_infer::LONGEST_WINDOW;
use nae_infer::{BackendChoice, ExecutionProvider};

use super::super::broker::{Broker, BrokerSettings};
use super::super::camera_name::CameraName;
use super::super::day_night::{HOLD, HOLDS, Levels, Measure, Rule};
use super::super::regions::Regions;
use super::super::source::{SourceAddress, SourceSettings};
use super::CameraConfig;
use super::flags::OF_A_CAMERA;
use super::reading::{ByName, Found, FoundCamera, FoundCameras, FoundSettings};

/// The settings that define the night; a camera may have one of them.
const NIGHTS: [&str; 3] = ["night_hours", "night_brightness", "night_colour"];

/// The folder in the folder `state` that has a folder for each of several cameras.
pub(crate) fn cameras_in(state: &Path) -> PathBuf {
    state.join("cameras")
}

impl FoundSettings {
    /// The single camera, or the cameras of the file; those with problems may be missing.
    pub(super) fn cameras(&mut self, state: &Path, broker: Option<&BrokerSettings>) -> Vec<CameraConfig> {
        let Some(FoundCameras { file, cameras }) = self.cameras.take() else { return self.only_camera(state, broker) };
        if let Some(Found { text, origin }) = self.found.get("camera_name") {
            self.problems.push(format!(
                "{origin}: `camera_name` is the name of an only camera, and {file} has [[camera]]: give each its `name`; \
                 found `{text}`"
            ));
        }
        let mut checked = Vec::new();
        let mut names: BTreeMap<String, CameraName> = BTreeMap::new();
        for camera in cameras {
            let name = self.name(&file, &camera, &mut names);
            let mut settings = self.of_camera(format!("{file}: {}: ", camera.called), camera.found);
            let folder = cameras_in(state).join(name.as_str());
            let (address, id_prefix) = (format!("/api/cameras/{name}"), format!("{name}-"));
            let mqtt = broker.map(|broker| broker.of(name.clone(), true));
            checked.extend(settings.camera(CameraPlace { name, state: folder, address, id_prefix }, mqtt));
            // A wrong setting for all cameras is reported only once.
            settings.problems.retain(|problem| !self.problems.contains(problem));
            self.problems.append(&mut settings.problems);
        }
        let of_input = checked.iter().filter(|camera| camera.source.address == SourceAddress::Stdin);
        let of_input: Vec<&str> = of_input.map(|camera| camera.name.as_str()).collect();
        if of_input.len() > 1 {
            self.problems.push(format!(
                "{file}: `source`: standard input has the frames of one camera, and {} are to take it; give the others another",
                of_input.join(", ")
            ));
        }
        checked
    }

    fn only_camera(&mut self, state: &Path, broker: Option<&BrokerSettings>) -> Vec<CameraConfig> {
        let name: CameraName = self.parse("camera_name", str::parse).unwrap_or_default();
        let mqtt = broker.map(|broker| broker.of(name.clone(), false));
        let place = CameraPlace { name, state: state.to_owned(), address: "/api".to_owned(), id_prefix: String::new() };
        self.camera(place, mqtt).into_iter().collect()
    }

    /// The name of a `[[camera]]`; if it is invalid, the default name, so that the other settings are checked, too.
    fn name(&mut self, file: &str, camera: &FoundCamera, names: &mut BTreeMap<String, CameraName>) -> CameraName {
        let Some(found) = &camera.name else {
            self.problems
                .push(format!("{file}: {} has no `name`: give it one, such as `name = \"gate\"`", camera.called));
            return CameraName::default();
        };
        let name: CameraName = match found.text.parse() {
            Ok(name) => name,
            Err(expected) => {
                self.problems.push(format!("{}: `name`: expected {expected}, found `{}`", found.origin, found.text));
                return CameraName::default();
            }
        };
        // Some file systems do not distinguish case in folder names.
        if let Some(other) = names.insert(name.as_str().to_ascii_lowercase(), name.clone()) {
            let problem = if other == name {
                format!("{file}: two [[camera]] have the name `{name}`: give each another")
            } else {
                format!("{file}: the names `{other}` and `{name}` differ by case only: give each another")
            };
            self.problems.push(problem);
        }
        name
    }

    /// The settings of one of several cameras: its own, and for the rest those for all.
    fn of_camera(&self, of: String, own: ByName) -> Self {
        let mut found: ByName = self
            .found
            .iter()
            .filter(|(name, _)| OF_A_CAMERA.contains(&name.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let has_login_file = own.contains_key("source_login_file");
        // A camera's own definition of the night replaces that for all.
        if NIGHTS.iter().any(|name| own.contains_key(*name)) {
            NIGHTS.iter().for_each(|name| drop(found.remove(*name)));
        }
        found.extend(own);
        // A login for all cameras applies only to addresses that can take one.
        let address = found.get("source").and_then(|source| source.text.parse::<SourceAddress>().ok());
        let takes_login = address.is_some_and(|address| address.camera().is_some_and(|camera| !camera.has_login()));
        if !has_login_file && !takes_login {
            found.remove("source_login_file");
        }
        Self { of, found, cameras: None, problems: Vec::new() }
    }

    /// Adds a problem with settings that were found in more than one place, or not at all.
    fn wrong(&mut self, problem: &str) {
        self.problems.push(format!("{}{problem}", self.of));
    }

    /// `None` if a problem was added.
    fn camera(&mut self, place: CameraPlace, mqtt: Option<Broker>) -> Option<CameraConfig> {
        let model = self.path("model");
        let (night_model, night) = (self.path("night_model"), self.night());
        if night_model.is_some() && night.is_none() && !NIGHTS.iter().any(|name| self.found.contains_key(*name)) {
            let [hours, brightness, colour] = NIGHTS;
            self.wrong(&format!(
                "`night_model`: when is night? Say so by `{hours}` such as \"22:00-06:00\", or by `{brightness}` or `{colour}`"
            ));
        }
        let CameraPlace { name, state, address, id_prefix } = place;
        let alarm = self.alarm();
        let source = self.source();
        let backend = self.parse("backend", |text| {
            let expected = || format!("one of {}", BackendChoice::NAMES.join(", "));
            BackendChoice::from_name(text).ok_or_else(expected)
        });
        let execution_providers = self.parse("execution_providers", providers).unwrap_or_default();
        let false_positive_rate = self.parse("false_positive_rate", |text| match text.parse() {
            Ok(rate) if rate > 0.0 && rate < 1.0 => Ok(rate),
            _ => Err("a number above 0 and below 1".into()),
        });
        let alarm_hours = self.parse("alarm_hours", str::parse);
        let regions = self.regions();
        let queue = self.number("queue", 1, 10_000).unwrap_or(8);
        let score_timeout = self.seconds("score_timeout", 10.0);
        let picture_bytes = self.number("pictures", 0, 1 << 30).unwrap_or(256_u64) << 20;
        let learn_bytes = self.number("learn_room", 0, 1 << 30).unwrap_or(1024_u64) << 20;
        Some(CameraConfig {
            name,
            state,
            address,
            id_prefix,
            model,
            night_model,
            night,
            backend: backend.unwrap_or_default(),
            execution_providers,
            score_timeout,
            source,
            false_positive_rate,
            alarm: alarm?,
            alarm_hours,
            regions,
            queue,
            picture_bytes,
            learn_bytes,
            mqtt,
        })
    }

    /// Problems do not quote the text, since it is long and they name the region.
    fn regions(&mut self) -> Regions {
        let Some(Found { text, origin }) = self.found.get("regions") else { return Regions::default() };
        Regions::from_json(text).unwrap_or_else(|problem| {
            let problem = format!("{origin}: `regions`: {problem}");
            self.problems.push(problem);
            Regions::default()
        })
    }

    /// The rule that distinguishes day from night.
    fn night(&mut self) -> Option<Rule> {
        let given: Vec<&str> = NIGHTS.into_iter().filter(|name| self.found.contains_key(*name)).collect();
        if given.len() > 1 {
            self.wrong(&format!("`{}`: one of them says when night is; leave the others out", given.join("`, `")));
        }
        let hold = self.number("night_hold", HOLDS.0, HOLDS.1).map_or(HOLD, Duration::from_secs_f64);
        let [hours, brightness, colour] = NIGHTS;
        let night = self.parse(hours, |text| Ok(Rule::Schedule { night: text.parse()?, text: text.to_owned() }));
        let mut levels = |name, measure| self.parse(name, |text| Ok(Rule::Light(measure, Levels::parse(text, hold)?)));
        let light = [levels(brightness, Measure::Brightness), levels(colour, Measure::Colour)];
        night.into_iter().chain(light.into_iter().flatten()).next()
    }

    fn source(&mut self) -> SourceSettings {
        let mut address = self.parse("source", str::parse).unwrap_or(SourceAddress::None);
        let in_address = address.camera().is_some_and(|camera| camera.has_login());
        if in_address && self.found.get("source").is_some_and(|found| found.origin.starts_with("flag")) {
            tracing::warn!(
                "other users can read the camera's password on this command line: give it by --source-login-file"
            );
        }
        if let Some(login) = self.secret("source_login_file") {
            let login = login.expose();
            let known = address.clone().with_login(login.to_owned()).filter(|_| login.contains(':') && !in_address);
            match known {
                Some(known) => address = known,
                None if !login.contains(':') => {
                    self.wrong("`source_login_file`: expected USER:PASSWORD in it, found no colon");
                }
                None if in_address => {
                    self.wrong("`source_login_file`: user and password are in the `source`, too");
                }
                None => self.wrong(&format!("`source_login_file`: a source `{address}` takes no password")),
            }
        }
        let default = SourceSettings::default();
        SourceSettings {
            address,
            interval: self
                .number("max_fps", 0.001, 10_000.0)
                .map_or(default.interval, |fps: f64| Duration::from_secs_f64(1.0 / fps)),
            silence: self.seconds("source_timeout", default.silence.as_secs_f64()),
            largest: self.parse("source_size", size).unwrap_or(default.largest),
            ffmpeg_arguments: self
                .parse("ffmpeg_arguments", |text| Ok(text.split_whitespace().map(str::to_owned).collect()))
                .unwrap_or(default.ffmpeg_arguments),
        }
    }

    fn alarm(&mut self) -> Option<AlarmSettings> {
        let window = self.number("alarm_window", 1, LONGEST_WINDOW).unwrap_or(5);
        let raise = self.number("alarm_raise", 1, LONGEST_WINDOW).unwrap_or(3);
        let clear = self.number("alarm_clear", 0, LONGEST_WINDOW).unwrap_or(1);
        let settings = AlarmSettings::new(raise, clear, window);
        settings
            .inspect_err(|error| {
                self.wrong(&format!("`alarm_raise` {raise}, `alarm_clear` {clear}, `alarm_window` {window}: {error}"));
            })
            .ok()
    }
}

/// A camera's name, folder and address.
struct CameraPlace {
    name: CameraName,
    state: PathBuf,
    address: String,
    id_prefix: String,
}

/// Parses a width and a height separated by `x`.
fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| text.parse().ok().filter(|side| (16..=16_384).contains(side));
    text.split_once('x')
        .and_then(|(width, height)| Some((side(width)?, side(height)?)))
        .ok_or_else(|| "WIDTHxHEIGHT, each from 16 to 16384, such as 1280x720".into())
}

/// Parses names of execution providers separated by commas.
fn providers(text: &str) -> Result<Vec<ExecutionProvider>, String> {
    let names = text.split(',').map(|name| ExecutionProvider::from_name(name.trim()));
    let expected = || format!("some of {}", ExecutionProvider::ALL.map(ExecutionProvider::name).join(", "));
    names.collect::<Option<_>>().ok_or_else(expected)
}
