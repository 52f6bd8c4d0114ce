//! The flags of `nae-infer serve`: names, and what `--help` says of them. What they mean is looked at in `checking`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

/// Settings that each camera has for itself. At the top of a file with `[[camera]]` they are for those that do not.
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
    /// Settings: a TOML file with the names below, `_` for `-`; several cameras have a `[[camera]]` with a `name` there each
    #[arg(long, value_name = "FILE.toml")]
    #[serde(skip)]
    pub(super) config: Option<PathBuf>,
    /// Model: .onnx from nae-train, or .nae [default: that which was learned here, or none until one is: on the page, "Learn here"]
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<String>,
    /// Model for the night, where it is to be another; say by one of the next three when night is [default: that which was learned here,
    /// or none: then the model of the day is used]
    #[arg(long, value_name = "FILE")]
    pub(super) night_model: Option<String>,
    /// Night is in these hours, of local time, as in --alarm-hours: "22:00-06:00"
    #[arg(long, value_name = "HOURS")]
    pub(super) night_hours: Option<String>,
    /// Night is while the mean brightness of the picture is below the first of two levels of 255, day while it is above the second:
    /// "30-50"
    #[arg(long, value_name = "LOW-HIGH")]
    pub(super) night_brightness: Option<String>,
    /// The same of its mean colour, which is near 0 in infrared, and in the dark: "2-5"
    #[arg(long, value_name = "LOW-HIGH")]
    pub(super) night_colour: Option<String>,
    /// Seconds for which the picture has to be beyond such a level, so that headlights do not switch [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(super) night_hold: Option<String>,
    /// Where frames come from: rtsp://, rtsps:// or https://CAMERA/… (by ffmpeg), http://CAMERA/… (Motion JPEG),
    /// /dev/video0, a folder (folder:DIR where it is not there yet), - (JPEG frames on standard input), or none
    /// [default: none]
    #[arg(long)]
    pub(super) source: Option<String>,
    /// File with the camera's USER:PASSWORD, which others could read on a command line
    #[arg(long, value_name = "FILE")]
    pub(super) source_login_file: Option<String>,
    /// Seconds without a frame after which a camera is lost, and opened again [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(super) source_timeout: Option<String>,
    /// Frames of rtsp://, rtsps:// and https:// are made smaller to fit into this many pixels [default: 1920x1080]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub(super) source_size: Option<String>,
    /// What ffmpeg is told before the address of rtsp://, rtsps:// or https://, with spaces between: how to decode in hardware,
    /// such as `-hwaccel vaapi`
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(super) ffmpeg_arguments: Option<String>,
    /// Frames a second taken from the source, at most [default: all]
    #[arg(long, value_name = "FPS")]
    pub(super) max_fps: Option<String>,
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<String>,
    /// File with the token that clients send as `Authorization: Bearer …`, to do everything; a token is needed unless on loopback
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<String>,
    /// File with a token that scores images, and sees nothing of the cameras
    #[arg(long, value_name = "FILE")]
    pub(super) score_token_file: Option<String>,
    /// File with a token that sees cameras, pictures and alarms, and changes nothing
    #[arg(long, value_name = "FILE")]
    pub(super) look_token_file: Option<String>,
    /// Wrong tokens of an address after which none of its tokens is looked at for a time, which doubles with each further one from 1
    /// second to 5 minutes; 0 never ends guessing [default: 5]
    #[arg(long, value_name = "N")]
    pub(super) wrong_tokens: Option<String>,
    /// Changes that an address may make in a minute; 0 for no limit [default: 240; without a token 0]
    #[arg(long, value_name = "N")]
    pub(super) changes_per_minute: Option<String>,
    /// Requests to score that an address may send in a second; 0 for no limit [default: 200; without a token 0]
    #[arg(long, value_name = "N")]
    pub(super) scores_per_second: Option<String>,
    /// PEM file of the service's certificate, those between it and its authority after it: then it speaks https:// alone. A file that is
    /// replaced is taken without a restart
    #[arg(long, value_name = "FILE")]
    pub(super) tls_certificate_file: Option<String>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key_file: Option<String>,
    /// Proxies that are believed whom they ask for (X-Forwarded-For or Forwarded, X-Forwarded-Host): addresses and networks with commas
    /// between, such as 127.0.0.1,10.1.0.0/16 [default: none]
    #[arg(long, value_name = "ADDRESSES")]
    pub(super) trusted_proxies: Option<String>,
    /// Folder for alarms that wait, pictures and settings made on the page [default:
    /// $STATE_DIRECTORY, else ~/.local/state/nae-infer]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<String>,
    /// What reconstructs the images: simd, tract, ort, native, or auto for the fastest [default: for .onnx simd, or
    /// tract where simd lacks a layer; for .nae native]
    #[arg(long)]
    pub(super) backend: Option<String>,
    /// What the backend ort computes on, the first that has a layer; several with commas between
    #[arg(long, value_name = "NAMES")]
    pub(super) execution_providers: Option<String>,
    /// Threads that score [default: all]
    #[arg(long)]
    pub(super) threads: Option<String>,
    /// Share of normal images that may be called anomalies [default: the model's]
    #[arg(long, value_name = "RATE")]
    pub(super) false_positive_rate: Option<String>,
    /// Anomalies among the last frames that raise the alarm [default: 3]
    #[arg(long, value_name = "N")]
    pub(super) alarm_raise: Option<String>,
    /// Anomalies among the last frames at which it is taken back [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) alarm_clear: Option<String>,
    /// How many frames the last frames are [default: 5]
    #[arg(long, value_name = "N")]
    pub(super) alarm_window: Option<String>,
    /// Hours in which alarms are raised, of local time: "Mon-Fri 07:00-19:00, Sat 08:00-12:00", or "22:00-06:00" for every night
    /// [default: always]
    #[arg(long, value_name = "HOURS")]
    pub(super) alarm_hours: Option<String>,
    /// What of its frames the model sees, as JSON: [{"kind": "include" or "ignore", "vertices": [[0, 0], [1, 0], [1, 0.2]]}], vertices
    /// in shares of width and height; in the file [[regions]]. Regions that are set on the page go over these [default: all]
    #[arg(long, value_name = "JSON")]
    pub(super) regions: Option<String>,
    /// Frames that may wait; the oldest is dropped for a new one [default: 8]
    #[arg(long, value_name = "N")]
    pub(super) queue: Option<String>,
    /// The longest that scoring may take before its thread is given up, in seconds [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(super) score_timeout: Option<String>,
    /// The largest request taken, in MiB [default: 16]
    #[arg(long, value_name = "MIB")]
    pub(super) max_body: Option<String>,
    /// The largest image that is decoded, of a request or a camera, in millions of pixels: 36 are a frame of 8K, and take
    /// 0.6 GB of memory for each thread [default: 36]
    #[arg(long, value_name = "MILLIONS")]
    pub(super) max_megapixels: Option<String>,
    /// Send alarms to this address, as JSON by POST: http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH
    #[arg(long, value_name = "URL")]
    pub(super) webhook: Option<String>,
    /// File with the secret to sign these requests with: `whsec_` and base64 of 24 to 64 bytes; or `webhook_secret` in the
    /// settings file, or variable NAE_INFER_WEBHOOK_SECRET
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_secret_file: Option<String>,
    /// No flag, which others could read on a command line.
    #[arg(skip)]
    pub(super) webhook_secret: Option<String>,
    /// What the camera is called in addresses, figures and topics: letters, digits, `-` and `_` [default: camera]
    #[arg(long, value_name = "NAME")]
    pub(super) camera_name: Option<String>,
    /// Send alarms to this MQTT broker, and show there how the service is: [mqtt[s]://][USER:PASSWORD@]HOST[:PORT], mqtts
    /// for TLS
    #[arg(long, value_name = "ADDRESS")]
    pub(super) mqtt: Option<String>,
    /// Topic of the alarms [default: nae/alarms]
    #[arg(long, value_name = "TOPIC")]
    pub(super) mqtt_topic: Option<String>,
    /// What the topics of the retained state begin with; with several cameras, `/` and the camera's name follow [default:
    /// nae/CAMERA-NAME]
    #[arg(long, value_name = "TOPIC")]
    pub(super) mqtt_state_topic: Option<String>,
    /// Have Home Assistant find the camera, by MQTT discovery under this prefix, `homeassistant` unless it was told another;
    /// the broker then also retains a picture of the last alarm
    #[arg(long, value_name = "PREFIX")]
    pub(super) mqtt_home_assistant: Option<String>,
    /// User of the broker
    #[arg(long, value_name = "NAME")]
    pub(super) mqtt_user: Option<String>,
    /// File with the user's password; or `mqtt_password` in the settings file, or variable NAE_INFER_MQTT_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_password_file: Option<String>,
    /// No flag, which others could read on a command line.
    #[arg(skip)]
    pub(super) mqtt_password: Option<String>,
    /// PEM file of the authorities that the certificate of a mqtts:// broker has to come from [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_ca_file: Option<String>,
    /// PEM file of the service's own certificate, for a mqtts:// broker that asks for one
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_certificate_file: Option<String>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE")]
    pub(super) mqtt_key_file: Option<String>,
    /// Client id; with several cameras, `-` and the camera's name follow [default: of the camera's name and a number drawn
    /// once, kept in the folder of --state]
    #[arg(long, value_name = "ID")]
    pub(super) mqtt_client_id: Option<String>,
    /// Append alarms to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub(super) alarm_log: Option<String>,
    /// Days for which energies and alarms are kept in the history; 0 keeps none [default: 90]
    #[arg(long, value_name = "DAYS")]
    pub(super) history_days: Option<String>,
    /// Room for the history of all cameras, in MB; 0 keeps none [default: 200]
    #[arg(long, value_name = "MB")]
    pub(super) history_megabytes: Option<String>,
    /// Room for pictures of alarms, in MiB; 0 keeps none [default: 256]
    #[arg(long, value_name = "MIB")]
    pub(super) pictures: Option<String>,
    /// Room for frames that are collected to learn from, in MiB; 0 allows none [default: 1024]
    #[arg(long, value_name = "MIB")]
    pub(super) learn_room: Option<String>,
    /// The program that trains on them: a path, or a name on the PATH [default: nae-train]
    #[arg(long, value_name = "PROGRAM")]
    pub(super) nae_train: Option<String>,
}

impl fmt::Debug for Flags {
    /// Which are given, not what they say: a password may be in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = serde_json::to_value(self).unwrap_or_default();
        let names = given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        f.write_str("Flags ")?;
        f.debug_set().entries(names.map(|(name, _)| name)).finish()
    }
}
