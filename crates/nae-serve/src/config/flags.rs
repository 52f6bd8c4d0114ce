//! The flags of `nae-infer serve`: their names and their `--help`. `checking` parses their values.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

/// The settings that each camera may have. At the top of a file with `[[camera]]`, they apply to cameras without their
/// own.
pub(super) const OF_A_CAMERA: [&str; 24] = [
    "model",
    "night_model",
    "night_hours",
    "night_brightness",
    "night_colour",
    "night_hold",
    "backend",
    "execution_providers",
    "score_timeout",
    "false_positive_rate",
    "source",
    "source_login_file",
    "source_timeout",
    "source_size",
    "ffmpeg_arguments",
    "max_fps",
    "queue",
    "alarm_raise",
    "alarm_clear",
    "alarm_window",
    "alarm_hours",
    "regions",
    "pictures",
    "learn_room",
];

/// Flags of `nae-infer serve`. Every one but `--config` is a key of the file and a variable too.
#[derive(Args, Serialize, Default)]
pub struct Flags {
    /// Settings file: TOML with the names below, `_` for `-`; a `[[camera]]` table with a `name` for each of several cameras
    #[arg(long, value_name = "FILE.toml")]
    #[serde(skip)]
    pub(super) config: Option<PathBuf>,
    /// Model: .onnx from nae-train, or .nae [default: the model learned on the page under "Learn here", or none until then]
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<String>,
    /// Another model for the night; one of the next three options says when it is night [default: the model learned here for the
    /// night, or else the model of the day]
    #[arg(long, value_name = "FILE")]
    pub(super) night_model: Option<String>,
    /// Hours of the night, in local time, written as for --alarm-hours: "22:00-06:00"
    #[arg(long, value_name = "HOURS")]
    pub(super) night_hours: Option<String>,
    /// Night begins when the mean brightness of the picture, 0 to 255, falls below the first level, and ends when it rises above
    /// the second: "30-50"
    #[arg(long, value_name = "LOW-HIGH")]
    pub(super) night_brightness: Option<String>,
    /// The same for its mean colourfulness, which is near 0 by infrared light and in the dark: "2-5"
    #[arg(long, value_name = "LOW-HIGH")]
    pub(super) night_colour: Option<String>,
    /// Seconds for which the picture has to be beyond a level before the model changes, so that headlights have no effect
    /// [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(super) night_hold: Option<String>,
    /// Source of frames: rtsp://, rtsps:// or https://CAMERA/… (by ffmpeg), http://CAMERA/… (Motion JPEG), /dev/video0, a
    /// folder (folder:DIR if it does not exist yet), - (JPEG frames on standard input), or none [default: none]
    #[arg(long)]
    pub(super) source: Option<String>,
    /// File with the camera's USER:PASSWORD, which other users could read on a command line
    #[arg(long, value_name = "FILE")]
    pub(super) source_login_file: Option<String>,
    /// Seconds without a frame after which a camera or standard input counts as lost; a camera is reconnected [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(super) source_timeout: Option<String>,
    /// Largest size of frames of rtsp://, rtsps:// and https://; larger ones are scaled down [default: 1920x1080]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub(super) source_size: Option<String>,
    /// Arguments of ffmpeg before the address of rtsp://, rtsps:// or https://, separated by spaces; for decoding in hardware,
    /// such as `-hwaccel vaapi`
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(super) ffmpeg_arguments: Option<String>,
    /// Largest number of frames per second taken from the source [default: all]
    #[arg(long, value_name = "FPS")]
    pub(super) max_fps: Option<String>,
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<String>,
    /// File with the token for everything, sent as `Authorization: Bearer …`; a token is required unless the service listens on
    /// loopback
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<String>,
    /// File with a token for scoring images only, without access to the cameras
    #[arg(long, value_name = "FILE")]
    pub(super) score_token_file: Option<String>,
    /// File with a token for reading cameras, pictures and alarms only
    #[arg(long, value_name = "FILE")]
    pub(super) look_token_file: Option<String>,
    /// Wrong tokens from one address before its tokens are ignored for a time, which doubles with each further one from 1 second
    /// to 5 minutes; 0 for no limit [default: 5]
    #[arg(long, value_name = "N")]
    pub(super) wrong_tokens: Option<String>,
    /// Changes per minute allowed to one address; 0 for no limit [default: 240; without a token 0]
    #[arg(long, value_name = "N")]
    pub(super) changes_per_minute: Option<String>,
    /// Scoring requests per second allowed to one address; 0 for no limit [default: 200; without a token 0]
    #[arg(long, value_name = "N")]
    pub(super) scores_per_second: Option<String>,
    /// PEM file of the service's certificate, followed by intermediate certificates; the service then speaks https:// only. A
    /// replaced file is read without a restart
    #[arg(long, value_name = "FILE")]
    pub(super) tls_certificate_file: Option<String>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key_file: Option<String>,
    /// Proxies whose X-Forwarded-For or Forwarded and X-Forwarded-Host are trusted: addresses and networks separated by commas,
    /// such as 127.0.0.1,10.1.0.0/16 [default: none]
    #[arg(long, value_name = "ADDRESSES")]
    pub(super) trusted_proxies: Option<String>,
    /// Folder for undelivered alarms, pictures and settings made on the page [default: $STATE_DIRECTORY, else
    /// $XDG_STATE_HOME/nae-infer, else ~/.local/state/nae-infer; without a home, nae-infer-state in the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<String>,
    /// The engine that runs the network: simd, tract, ort, native, or auto for the fastest [default: for .onnx simd, or tract if
    /// simd lacks a layer; for .nae native]
    #[arg(long)]
    pub(super) backend: Option<String>,
    /// Execution providers of the backend ort in the order of preference, separated by commas
    #[arg(long, value_name = "NAMES")]
    pub(super) execution_providers: Option<String>,
    /// Number of scoring threads [default: the number of processors]
    #[arg(long)]
    pub(super) threads: Option<String>,
    /// Share of normal images that may be called anomalies [default: the model's]
    #[arg(long, value_name = "RATE")]
    pub(super) false_positive_rate: Option<String>,
    /// Anomalies among the last frames (--alarm-window) that raise the alarm [default: 3]
    #[arg(long, value_name = "N")]
    pub(super) alarm_raise: Option<String>,
    /// Anomalies among the last frames, or fewer, that clear the alarm [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) alarm_clear: Option<String>,
    /// Number of last frames that the alarm looks at [default: 5]
    #[arg(long, value_name = "N")]
    pub(super) alarm_window: Option<String>,
    /// Hours in which alarms are raised, in local time: "Mon-Fri 07:00-19:00, Sat 08:00-12:00", or "22:00-06:00" for every night
    /// [default: always]
    #[arg(long, value_name = "HOURS")]
    pub(super) alarm_hours: Option<String>,
    /// The parts of frames that the model sees, as JSON: [{"kind": "include" or "ignore", "vertices": [[0, 0], [1, 0], [1, 0.2]]}],
    /// vertices in fractions of width and height; in the file [[regions]]. Regions set on the page take precedence [default: all]
    #[arg(long, value_name = "JSON")]
    pub(super) regions: Option<String>,
    /// Largest number of waiting frames; a new frame replaces the oldest [default: 8]
    #[arg(long, value_name = "N")]
    pub(super) queue: Option<String>,
    /// Seconds for scoring an image, after which a scoring thread that does not return is replaced [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(super) score_timeout: Option<String>,
    /// Largest request, in MiB [default: 16]
    #[arg(long, value_name = "MIB")]
    pub(super) max_body: Option<String>,
    /// Largest image of a request or a camera, in millions of pixels; 36 are a frame of 8K, and take 0.6 GB of memory for each
    /// thread [default: 36]
    #[arg(long, value_name = "MILLIONS")]
    pub(super) max_megapixels: Option<String>,
    /// Send alarms to this address, as JSON by POST: http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH
    #[arg(long, value_name = "URL")]
    pub(super) webhook: Option<String>,
    /// File with the secret to sign these requests with: `whsec_` and base64 of 24 to 64 bytes; or `webhook_secret` in the
    /// settings file, or variable NAE_INFER_WEBHOOK_SECRET
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_secret_file: Option<String>,
    /// Not a flag, since other users could read it on a command line.
    #[arg(skip)]
    pub(super) webhook_secret: Option<String>,
    /// The camera's name in addresses, metrics and topics: letters, digits, `-` and `_` [default: camera]
    #[arg(long, value_name = "NAME")]
    pub(super) camera_name: Option<String>,
    /// Publish alarms and the state of the service at this MQTT broker: [USER:PASSWORD@]HOST:PORT or mqtt[s]://[USER:PASSWORD@]HOST[:PORT],
    /// mqtts for TLS
    #[arg(long, value_name = "ADDRESS")]
    pub(super) mqtt: Option<String>,
    /// Topic of the alarms [default: nae/alarms]
    #[arg(long, value_name = "TOPIC")]
    pub(super) mqtt_topic: Option<String>,
    /// Prefix of the topics of the retained state; with several cameras, `/` and the camera's name follow [default:
    /// nae/CAMERA-NAME]
    #[arg(long, value_name = "TOPIC")]
    pub(super) mqtt_state_topic: Option<String>,
    /// Announce the cameras to Home Assistant, by MQTT discovery under this prefix, `homeassistant` by its default; the broker
    /// then also retains a picture of the last alarm
    #[arg(long, value_name = "PREFIX")]
    pub(super) mqtt_home_assistant: Option<String>,
    /// User of the broker
    #[arg(long, value_name = "NAME")]
    pub(super) mqtt_user: Option<String>,
    /// File with the user's password; or `mqtt_password` in the settings file, or variable NAE_INFER_MQTT_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_password_file: Option<String>,
    /// Not a flag, since other users could read it on a command line.
    #[arg(skip)]
    pub(super) mqtt_password: Option<String>,
    /// PEM file of the authorities to trust for a mqtts:// broker [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_ca_file: Option<String>,
    /// PEM file of the client certificate, for a mqtts:// broker that asks for one
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_certificate_file: Option<String>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_key_file: Option<String>,
    /// Client id; with several cameras, `-` and the camera's name follow [default: the camera's name and a random number that is
    /// kept in the folder of --state]
    #[arg(long, value_name = "ID")]
    pub(super) mqtt_client_id: Option<String>,
    /// Append alarms to this file, one line of JSON each
    #[arg(long, value_name = "FILE")]
    pub(super) alarm_log: Option<String>,
    /// Days for which the history keeps energies and alarms; 0 for no history [default: 90]
    #[arg(long, value_name = "DAYS")]
    pub(super) history_days: Option<String>,
    /// Disk space for the history of all cameras, in MB; 0 for no history [default: 200]
    #[arg(long, value_name = "MB")]
    pub(super) history_megabytes: Option<String>,
    /// Disk space for pictures of alarms, in MiB; 0 for no pictures [default: 256]
    #[arg(long, value_name = "MIB")]
    pub(super) pictures: Option<String>,
    /// Disk space for frames collected for training, in MiB; 0 for no training [default: 1024]
    #[arg(long, value_name = "MIB")]
    pub(super) learn_room: Option<String>,
    /// The program that trains: a path, or a name on the PATH [default: nae-train]
    #[arg(long, value_name = "PROGRAM")]
    pub(super) nae_train: Option<String>,
}

impl fmt::Debug for Flags {
    /// Shows which flags are given, but not their values, since these may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = serde_json::to_value(self).unwrap_or_default();
        let names = given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        f.write_str("Flags ")?;
        f.debug_set().entries(names.map(|(name, _)| name)).finish()
    }
}
