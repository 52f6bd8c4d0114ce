//! Streams of network cameras, `rtsp://`, `rtsps://` and `https://`: a child process `ffmpeg` receives and decodes
//! them, and writes JPEG images to its standard output, at most of the set size. Its standard error is the reason when
//! the stream is lost.
//!
//! The address is passed to the child on its standard input, as a list of one entry for the demuxer `concat`, since
//! other users can read command lines. The child ends with the service: it is killed when the source is dropped; if the
//! service is killed, Linux kills the child, and on other systems it ends at its next write to the closed pipe.

use std::io::{self, BufReader, Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use super::super::child::{self, LastLines};
use super::address::{CameraAddress, Scheme};
use super::{Lost, MAX_FRAME, Source, SourceSettings, jpeg};

/// The maximum wait for a frame, after which the thread checks whether the service is stopping.
const LOOK: Duration = Duration::from_millis(200);
/// How long a child may take to end after its output has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The number of lines of the child that are kept.
const LINES: usize = 3;

/// The rate of a stream is not needed. To measure it, the child would hold back the first twenty frames, or five
/// seconds of them, and then send them all at once: the first frames would be late, and some would be dropped.
const NO_RATE_PROBE: &str = "fpsprobesize 0";
/// With several threads, decoder and encoder each delay one frame per thread: for a camera with one frame per second,
/// an alarm would be seconds late.
const ONE_THREAD: [&str; 2] = ["-threads", "1"];

/// An open stream.
pub(super) struct Stream {
    address: CameraAddress,
    silence: Duration,
    child: Child,
    frames: Receiver<io::Result<Vec<u8>>>,
    last: Instant,
    said: LastLines,
}

impl Stream {
    pub(super) fn open(address: &CameraAddress, settings: &SourceSettings) -> Result<Self, Lost> {
        let failed = |error: &dyn std::fmt::Display| Lost::Failed(format!("{address}: {error}"));
        let mut child = command(address, settings).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failed(
                &"this source needs the program ffmpeg, 5.1 or later, which was not found on the PATH; on Debian and Ubuntu: \
                  apt-get install ffmpeg",
            ),
            _ => failed(&format!("cannot start ffmpeg: {error}")),
        })?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, frames) = sync_channel(1);
        // From here on, dropping it kills the child.
        let stream = Self {
            address: address.clone(),
            silence: longest_silence(settings),
            child,
            frames,
            last: Instant::now(),
            said: LastLines::new(LINES),
        };
        // All three are pipes, as set in the command.
        if let (Some(mut input), Some(output), Some(errors)) = (input, output, errors) {
            // Shorter than a pipe's buffer. If the child has ended already, it reports the reason itself.
            let _ = input.write_all(playlist(address, settings.silence).as_bytes());
            drop(input);
            let name = |name: &str| thread::Builder::new().name(name.into());
            name("ffmpeg frames").spawn(move || cut(output, &sender)).map_err(|e| failed(&e))?;
            stream.said.listen(errors).map_err(|e| failed(&e))?;
        }
        Ok(stream)
    }

    /// The exit status of the child, if it ends soon.
    fn status(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + LAST_WORDS;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }
}

impl Source for Stream {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        let reason = match self.frames.recv_timeout(LOOK.min(self.silence)) {
            Ok(Ok(frame)) => {
                self.last = Instant::now();
                return Ok(Some((frame.into(), None)));
            }
            Err(RecvTimeoutError::Timeout) if self.last.elapsed() < self.silence => return Ok(None),
            Err(RecvTimeoutError::Timeout) => format!("no frame for {:?}", self.silence),
            Ok(Err(error)) => format!("what ffmpeg sends: {error}"),
            Err(RecvTimeoutError::Disconnected) => match self.status() {
                Some(status) if status.success() => "the camera ended its stream".to_owned(),
                Some(status) => format!("ffmpeg ended, {status}"),
                None => "ffmpeg ended its output".to_owned(),
            },
        };
        // Its last lines may still be arriving.
        let _ = self.child.kill();
        self.said.wait(LAST_WORDS);
        let said: Vec<String> = self.said.lines().iter().map(|line| self.address.hide_in(line)).collect();
        let colon = if said.is_empty() { "" } else { ": " };
        Err(Lost::Failed(format!("{}: {reason}{colon}{}", self.address, said.join("; "))))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Divides the child's output into images, until it ends or the receiver is dropped.
fn cut(output: impl Read, frames: &SyncSender<io::Result<Vec<u8>>>) {
    let mut output = BufReader::with_capacity(1 << 16, output);
    while let Some(frame) = jpeg::read(&mut output, MAX_FRAME).transpose() {
        let failed = frame.is_err();
        if frames.send(frame).is_err() || failed {
            return;
        }
    }
}

/// How long the child may send no frame. It drops unwanted frames, during which the camera is not silent. The demuxer
/// also checks the camera's own silence.
fn longest_silence(settings: &SourceSettings) -> Duration {
    settings.silence + settings.interval
}

/// The list that the child reads from its standard input.
fn playlist(address: &CameraAddress, silence: Duration) -> String {
    // Addresses contain no control characters; within quotes, only quotes are special.
    let quoted = address.secret().replace('\'', r"'\''");
    let timeout = silence.as_micros();
    let options = match address.scheme {
        // Lost packets would appear as grey smears, which are anomalies.
        Scheme::Rtsp | Scheme::Rtsps => "option rtsp_transport tcp\n",
        // Motion JPEG has no timestamps.
        Scheme::Http | Scheme::Https => "option use_wallclock_as_timestamps 1\n",
    };
    format!("ffconcat version 1.0\nfile '{quoted}'\noption timeout {timeout}\noption {NO_RATE_PROBE}\n{options}")
}

/// The protocols that a camera may make the child open: not files, and no unencrypted ones if the camera uses TLS.
const fn protocols(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Rtsp => "pipe,tcp,udp,rtp,srtp",
        Scheme::Rtsps => "pipe,tcp,tls,udp,rtp,srtp",
        Scheme::Http => "pipe,tcp,http",
        Scheme::Https => "pipe,tcp,tls,https",
    }
}

/// The filters for decoded frames.
fn filters(settings: &SourceSettings) -> String {
    let (width, height) = settings.largest;
    let interval = settings.interval.as_secs_f64();
    let select = match settings.interval.is_zero() {
        true => String::new(),
        // Unwanted frames are neither scaled nor encoded. The half millisecond allows for clocks with milliseconds; the
        // absolute value allows for a camera whose clock jumps back.
        false => format!("select='isnan(prev_selected_t)+isnan(t)+gte(abs(t-prev_selected_t)+0.0005,{interval})',"),
    };
    format!(
        // The encoder needs increasing times, which not every camera sends.
        "{select}settb=1/1000,setpts=N,\
         scale=w='min({width},iw)':h='min({height},ih)':force_original_aspect_ratio=decrease:out_range=full,format=yuvj420p"
    )
}

fn command(address: &CameraAddress, settings: &SourceSettings) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-nostats", "-loglevel", "error"]);
    // If an option is repeated, the last one counts: users can set more threads, or a longer probe.
    command.args(ONE_THREAD).args(format!("-{NO_RATE_PROBE}").split(' '));
    command.args(&settings.ffmpeg_arguments);
    // If a camera changes its resolution, the filters stay, and with them the count of frames.
    command.args(["-reinit_filter", "0", "-protocol_whitelist", protocols(address.scheme)]);
    command.args(["-f", "concat", "-safe", "0", "-i", "pipe:0", "-map", "0:v:0", "-vf", &filters(settings)]);
    command.args(["-fps_mode", "passthrough", "-enc_time_base", "1:1000", "-c:v", "mjpeg", "-q:v", "2"]);
    command.args(ONE_THREAD);
    command.args(["-f", "mjpeg", "pipe:1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child::of_service(&mut command);
    command
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_the_list_and_not_among_the_arguments() {
        let address: CameraAddress = "rtsp://me:it's@cam/live".parse().unwrap();
        let settings =
            SourceSettings { ffmpeg_arguments: vec!["-hwaccel".into(), "vaapi".into()], ..Default::default() };
        let command = command(&address, &settings);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_str().unwrap()).collect();
        assert!(!arguments.join(" ").contains("cam"), "{arguments:?}");
        let at = |name: &str| arguments.iter().position(|argument| *argument == name).unwrap();
        assert!(at("vaapi") == at("-hwaccel") + 1 && at("vaapi") < at("-i"), "{arguments:?}");
        let list = playlist(&address, Duration::from_secs(10));
        assert!(list.contains("\nfile 'rtsp://me:it'\\''s@cam:554/live'\noption timeout 10000000\n"), "{list}");
    }

    /// At one frame per minute, the child was killed every ten seconds.
    #[test]
    fn the_child_may_be_silent_between_the_frames_that_are_wanted() {
        let (interval, silence) = (Duration::from_secs(60), Duration::from_secs(10));
        let settings = SourceSettings { interval, silence, ..Default::default() };
        assert!(longest_silence(&settings) == interval + silence);
        assert_eq!(longest_silence(&SourceSettings { interval: Duration::ZERO, ..settings }), silence);
    }

    #[test]
    fn the_rate_is_limited_before_anything_is_encoded() {
        let settings = |interval| SourceSettings { interval, largest: (640, 480), ..Default::default() };
        assert!(!filters(&settings(Duration::ZERO)).contains("select"));
        let limited = filters(&settings(Duration::from_millis(250)));
        assert!(limited.starts_with("select=") && limited.contains(",0.25)'"), "{limited}");
        assert!(limited.contains("min(640,iw)") && limited.contains("min(480,ih)"), "{limited}");
    }
}
