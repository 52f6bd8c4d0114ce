//! Where settings are found: a TOML file, then the environment, then the flags, each over the one before, all by the same
//! names. In a file with `[[camera]]` each camera has some of its own, which the environment and the flags do not say. Here
//! settings are texts; what they have to be is in `checking`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use toml::{Table, Value};

use super::super::child::VARIABLES;
use super::super::source::{address_without_login, without_login};
use super::flags::{Flags, OF_A_CAMERA};

/// The largest settings file or secret read.
const MAX_FILE: u64 = 1 << 20;
/// The key of the file under which cameras are, and that of a camera's name.
const CAMERAS: &str = "camera";
const NAME: &str = "name";
/// The one that is written as tables.
const REGIONS: &str = "regions";
/// Those that are addresses, in which a password may be.
const ADDRESSES: [&str; 3] = ["source", "webhook", "mqtt"];

/// A setting as text, and where it was found.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) origin: String,
}

/// Settings by name.
pub(super) type ByName = BTreeMap<String, Found>;

/// The settings found, by name, and what is wrong so far.
#[derive(Default)]
pub(super) struct FoundSettings {
    /// The service's, and those of the only camera or for all cameras.
    pub(super) found: ByName,
    /// Of each `[[camera]]`, if there are any.
    pub(super) cameras: Option<FoundCameras>,
    /// What problems begin with where no one place is to blame.
    pub(super) of: String,
    pub(super) problems: Vec<String>,
}

/// What a file says of cameras.
pub(super) struct FoundCameras {
    pub(super) file: String,
    pub(super) cameras: Vec<FoundCamera>,
}

/// One `[[camera]]`.
pub(super) struct FoundCamera {
    /// What errors call it.
    pub(super) called: String,
    pub(super) name: Option<Found>,
    /// Settings of its own.
    pub(super) found: ByName,
}

impl FoundSettings {
    /// Reads file, environment and flags, in this order.
    pub(super) fn read(flags: &Flags, environment: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut settings = Self::default();
        let given = serde_json::to_value(flags).unwrap_or_default();
        let names: Vec<String> = given.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
        if let Some(path) = &flags.config {
            settings.take_file(path, &names);
        }
        settings.take_environment(environment, &names);
        for name in &names {
            if let Some(text) = given[name.as_str()].as_str() {
                settings.put_over_file(name, text.to_owned(), format!("flag --{}", name.replace('_', "-")));
            }
        }
        settings
    }

    /// A variable or flag goes over what the file says, but does not say which camera it means where there are some.
    fn put_over_file(&mut self, name: &str, text: String, origin: String) {
        match &self.cameras {
            Some(FoundCameras { file, cameras }) if OF_A_CAMERA.contains(&name) => {
                let names: Vec<&str> = cameras.iter().map(|camera| camera.called.as_str()).collect();
                let (names, text) = (names.join(", "), shown(name, &text));
                self.problems.push(format!(
                    "{origin}: `{name}` is a camera's own, and {file} has [[camera]] ({names}): write it there, in one of \
                     them, or before the first for all; found `{text}`"
                ));
            }
            _ => drop(self.found.insert(name.to_owned(), Found { text, origin })),
        }
    }

    fn take_file(&mut self, path: &Path, names: &[String]) {
        let mut table = match read_text(path).and_then(|text| parsed(&text)) {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("{}: {}", path.display(), error.trim())),
        };
        let file = path.display().to_string();
        let cameras = table.remove(CAMERAS);
        self.found = self.take_table(table, &file, |name| {
            let known = || format!("there is no setting `{name}`; the settings are {}, {CAMERAS}", names.join(", "));
            if names.iter().any(|known| known == name) { Ok(()) } else { Err(known()) }
        });
        if let Some(cameras) = cameras {
            self.take_cameras(cameras, file, names);
        }
    }

    fn take_cameras(&mut self, value: Value, file: String, names: &[String]) {
        let tables: Option<Vec<Table>> = match value {
            Value::Array(values) if !values.is_empty() => {
                values.into_iter().map(|value| value.try_into().ok()).collect()
            }
            _ => None,
        };
        let Some(tables) = tables else {
            self.problems
                .push(format!("{file}: `{CAMERAS}`: expected [[{CAMERAS}]] and below it the settings of a camera"));
            return;
        };
        let mut cameras = Vec::new();
        for (index, mut table) in tables.into_iter().enumerate() {
            let name = table.remove(NAME);
            let called = match &name {
                Some(Value::String(name)) => format!("camera `{name}`"),
                _ => format!("[[{CAMERAS}]] number {}", index + 1),
            };
            let origin = format!("{file}: {called}");
            let name = name.and_then(|name| self.text(NAME, name, &origin));
            let found = self.take_table(table, &origin, |name| {
                if OF_A_CAMERA.contains(&name) {
                    return Ok(());
                }
                let settings = OF_A_CAMERA.join(", ");
                let of_service = names.iter().any(|known| known == name);
                Err(if of_service {
                    format!("`{name}` is no setting of a camera: write it before the first [[{CAMERAS}]]; a camera's are {NAME}, {settings}")
                } else {
                    format!("there is no setting `{name}` of a camera; they are {NAME}, {settings}")
                })
            });
            cameras.push(FoundCamera { called, name, found });
        }
        self.cameras = Some(FoundCameras { file, cameras });
    }

    /// The settings of a table; what `known` refuses, and what is no text, is wrong.
    fn take_table(&mut self, table: Table, origin: &str, known: impl Fn(&str) -> Result<(), String>) -> ByName {
        let mut found = ByName::new();
        for (name, value) in table {
            if let Err(problem) = known(&name) {
                self.problems.push(format!("{origin}: {problem}"));
            } else if let Some(setting) = self.text(&name, value, origin) {
                found.insert(name, setting);
            }
        }
        found
    }

    fn text(&mut self, name: &str, value: Value, origin: &str) -> Option<Found> {
        let text = match value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) => value.to_string(),
            // Tables; what is in them is looked at when it is checked.
            Value::Array(_) if name == REGIONS => serde_json::to_string(&value).unwrap_or_default(),
            _ => {
                let value = shown(name, &value.to_string());
                self.problems.push(format!("{origin}: `{name}`: expected a text or a number, found {value}"));
                return None;
            }
        };
        Some(Found { text, origin: origin.to_owned() })
    }

    fn take_environment(&mut self, environment: impl Iterator<Item = (OsString, OsString)>, names: &[String]) {
        for (variable, text) in environment {
            let variable = variable.to_string_lossy();
            let Some(name) = variable.strip_prefix(VARIABLES).map(str::to_lowercase) else { continue };
            match text.into_string() {
                Ok(text) if names.contains(&name) => self.put_over_file(&name, text, format!("variable {variable}")),
                Ok(text) if is_of_kubernetes(&name, &text) => {}
                Ok(_) => self.problems.push(format!("variable {variable}: there is no setting `{name}`")),
                Err(_) => self.problems.push(format!("variable {variable}: expected UTF-8")),
            }
        }
    }
}

/// The settings of a file. An error names the place and does not show the line, in which a password may be.
fn parsed(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("line {line}, column {column}: {}", error.message())
        }
        None => error.message().to_owned(),
    })
}

/// What is shown of a setting that is wrong.
pub(super) fn shown(name: &str, text: &str) -> String {
    if ADDRESSES.contains(&name) { address_without_login(text) } else { without_login(text) }
}

/// Whether a variable, by its name without [`VARIABLES`], is one of those by which Kubernetes tells containers of a Service that is named
/// `nae-infer` or `nae-infer-…`. A port that is no address is somebody's mistake.
fn is_of_kubernetes(name: &str, text: &str) -> bool {
    let of_port = || {
        let (_, protocol) = name.split_once("port_")?;
        Some(["_tcp", "_udp", "_sctp"].iter().any(|known| protocol.contains(known)))
    };
    ["service_host", "service_port"].iter().any(|part| name.contains(part))
        || of_port().unwrap_or(name.ends_with("port") && text.contains("://"))
}

/// The text of a settings file, or of one that holds a secret.
///
/// # Errors
/// It cannot be read, or is no text.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let bytes = nae_onnx::file::read(path, MAX_FILE).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is not text: {}", error.utf8_error()))
}
