//! A camera of the network, made up: RTSP (RFC 2326) with H.264 or H.265 in RTP between the requests, and Motion JPEG over
//! HTTP, both in the clear or over TLS, with basic or digest authentication where it is asked for. What it sends was encoded by
//! `ffmpeg`. It can be told to fall silent, to send garbage and to go away, as cameras do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Between two pictures, where nothing else is asked for.
const PERIOD: Duration = Duration::from_millis(40);
/// How long one that is slow thinks about an answer, and about a piece of a picture.
const SLOW_ANSWER: Duration = Duration::from_millis(800);
const SLOW_PIECE: Duration = Duration::from_millis(10);

/// What a camera does from now on, with connections that are there and with those that come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Manner {
    Plays,
    /// As one does that is at the end of a bad line: late, and in small pieces.
    Slow,
    /// Takes connections and says nothing; one that plays stops.
    Silent,
    /// Answers, and sends, what makes no sense.
    Garbage,
    /// Its connections end, and nobody listens any more.
    Gone,
}

/// What a camera sends.
#[derive(Clone)]
pub(crate) enum Pictures {
    /// Each a picture's units (network abstraction layer), again from the first after the last.
    Video {
        codec: &'static str,
        pictures: Vec<Vec<Vec<u8>>>,
    },
    Jpeg(Vec<u8>),
}

/// How each picture of a video begins: with an access unit delimiter.
fn is_delimiter(codec: &str, unit: &[u8]) -> bool {
    match codec {
        "H264" => unit[0] & 0x1F == 9,
        _ => (unit[0] >> 1) & 0x3F == 35,
    }
}

impl Pictures {
    /// A second of `image` as a video of `codec`, H264 or H265, a square of `size` pixels.
    pub(crate) fn video(codec: &'static str, image: &Path, size: u32) -> Self {
        let image = image.to_str().unwrap();
        Self::encoded(codec, &["-loop", "1", "-framerate", "25", "-i", image], 25, size)
    }

    /// These images, PGM, as a video of `codec`, one after the other.
    pub(crate) fn images(codec: &'static str, images: &[Vec<u8>], size: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (number, image) in images.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{number}.pgm")), image).unwrap();
        }
        let pattern = folder.path().join("%d.pgm");
        let input = ["-f", "image2", "-framerate", "25", "-i", pattern.to_str().unwrap()];
        Self::encoded(codec, &input, images.len(), size)
    }

    /// So many pictures of an input of `ffmpeg`.
    fn encoded(codec: &'static str, input: &[&str], count: usize, size: u32) -> Self {
        let (encoder, parameters, format) = match codec {
            "H264" => ("libx264", "-x264-params", "h264"),
            _ => ("libx265", "-x265-params", "hevc"),
        };
        let output = Command::new("ffmpeg")
            .args(["-nostdin", "-loglevel", "error"])
            .args(input)
            .args(["-frames:v", &count.to_string(), "-pix_fmt", "yuv420p", "-crf", "10", "-bf", "0", "-g", "5"])
            .args(["-vf", &format!("scale={size}:{size}:flags=neighbor")])
            .args(["-c:v", encoder, parameters, "aud=1:repeat-headers=1:log-level=none", "-f", format, "-"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut pictures: Vec<Vec<Vec<u8>>> = Vec::new();
        for unit in units(&output.stdout) {
            if is_delimiter(codec, unit) {
                pictures.push(Vec::new());
            }
            pictures.last_mut().unwrap().push(unit.to_vec());
        }
        assert_eq!(pictures.len(), count);
        Self::Video { codec, pictures }
    }

    /// Pictures of a video.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Video { pictures, .. } => pictures.len(),
            Self::Jpeg(_) => unreachable!("videos only"),
        }
    }

    /// These, then those of the other video.
    pub(crate) fn then(self, other: Self) -> Self {
        match (self, other) {
            (Self::Video { codec, pictures }, Self::Video { pictures: more, .. }) => {
                Self::Video { codec, pictures: [pictures, more].concat() }
            }
            _ => unreachable!("videos only"),
        }
    }
}

/// The units of a byte stream (ITU H.264, annex B): what lies between 00 00 01.
fn units(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> = (0..stream.len()).filter(|&at| stream[at..].starts_with(&[0, 0, 1])).collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    let unit = |(start, end): (&usize, usize)| {
        let mut unit = &stream[start + 3..end];
        while let [rest @ .., 0] = unit {
            unit = rest;
        }
        unit
    };
    starts.iter().zip(ends).map(unit).collect()
}

/// Who may see them.
#[derive(Clone)]
pub(crate) enum Login {
    /// Whoever sends `Authorization: Basic …` with these letters (RFC 7617).
    Basic(&'static str),
    /// Whoever shows that he knows it (RFC 2617): user and password.
    Digest(&'static str, &'static str),
}

impl Login {
    /// What the answer to others asks for.
    fn challenge(&self) -> &'static str {
        match self {
            Self::Basic(_) => "WWW-Authenticate: Basic realm=\"camera\"\r\n",
            Self::Digest(..) => "WWW-Authenticate: Digest realm=\"camera\", nonce=\"once\"\r\n",
        }
    }

    fn allows(&self, method: &str, authorization: &str) -> bool {
        match self {
            Self::Basic(letters) => authorization.strip_prefix("Basic ") == Some(letters),
            Self::Digest(user, password) => {
                let field = |name: &str| {
                    let (_, rest) = authorization.split_once(&format!("{name}=\""))?;
                    Some(rest.split_once('"')?.0.to_owned())
                };
                let uri = field("uri").unwrap_or_default();
                let who = md5(&format!("{user}:camera:{password}"));
                let what = md5(&format!("{method}:{uri}"));
                authorization.starts_with("Digest ") && field("response") == Some(md5(&format!("{who}:once:{what}")))
            }
        }
    }
}

/// By `openssl`, which is needed for certificates anyway.
fn md5(text: &str) -> String {
    let mut process = Command::new("openssl")
        .args(["dgst", "-md5", "-r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

pub(crate) struct Camera {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

struct Shared {
    pictures: Pictures,
    /// Between two pictures of a video.
    period: Duration,
    login: Option<Login>,
    tls: Option<Arc<ServerConfig>>,
    manner: Mutex<Manner>,
    /// Which pictures of a video are played, again and again.
    part: Mutex<Range<usize>>,
    /// Connections so far.
    connections: AtomicUsize,
    /// Pictures sent so far.
    sent: AtomicUsize,
}

impl Camera {
    /// On a port of the system's choice.
    pub(crate) fn start(pictures: Pictures) -> Self {
        Self::every(PERIOD, pictures)
    }

    /// One that sends a picture of a video whenever this time has passed.
    pub(crate) fn every(period: Duration, pictures: Pictures) -> Self {
        Self::build("127.0.0.1:0".parse().unwrap(), pictures, period, None, None)
    }

    /// One that plays for some only.
    pub(crate) fn with_login(pictures: Pictures, login: Login) -> Self {
        Self::build("127.0.0.1:0".parse().unwrap(), pictures, PERIOD, Some(login), None)
    }

    /// One that speaks TLS, with a certificate that it made itself; files go into `folder`.
    pub(crate) fn with_tls(pictures: Pictures, folder: &Path) -> Self {
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=camera", "-out"])
            .arg(&certificate)
            .arg("-keyout")
            .arg(&key)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let certificate = CertificateDer::from_pem_file(certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        Self::build("127.0.0.1:0".parse().unwrap(), pictures, PERIOD, None, Some(Arc::new(config)))
    }

    /// The same camera, after it went away.
    pub(crate) fn again(&self) -> Self {
        let shared = &self.shared;
        let (pictures, login, tls) = (shared.pictures.clone(), shared.login.clone(), shared.tls.clone());
        Self::build(self.address, pictures, shared.period, login, tls)
    }

    fn build(
        address: SocketAddr,
        pictures: Pictures,
        period: Duration,
        login: Option<Login>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            pictures,
            period,
            login,
            tls,
            manner: Mutex::new(Manner::Plays),
            part: Mutex::new(0..usize::MAX),
            connections: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
        });
        let own = Arc::clone(&shared);
        let listening = Some(thread::spawn(move || own.listen(&listener)));
        Self { address, shared, listening }
    }

    /// Host and port.
    pub(crate) fn place(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self) -> usize {
        self.shared.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn be(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// Plays these pictures of its video from now on, from the first of them.
    pub(crate) fn play(&self, part: Range<usize>) {
        *self.shared.part.lock().unwrap() = part;
    }

    /// Its connections end, and nobody listens any more.
    pub(crate) fn go_away(&mut self) {
        self.be(Manner::Gone);
        if let Some(listening) = self.listening.take() {
            // It waits for a connection.
            let _ = TcpStream::connect(self.address);
            listening.join().unwrap();
        }
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.go_away();
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Shared {
    fn manner(&self) -> Manner {
        *self.manner.lock().unwrap()
    }

    fn listen(self: Arc<Self>, listener: &TcpListener) {
        for socket in listener.incoming() {
            if self.manner() == Manner::Gone {
                return;
            }
            self.connections.fetch_add(1, Ordering::Relaxed);
            let (shared, socket) = (Arc::clone(&self), socket.unwrap());
            thread::spawn(move || {
                let tls = shared.tls.clone().map(|tls| ServerConnection::new(tls).unwrap());
                let stream: Box<dyn Stream> = match tls {
                    Some(tls) => Box::new(StreamOwned::new(tls, socket)),
                    None => Box::new(socket),
                };
                // A client that goes away ends it.
                let _ = shared.serve(&mut BufReader::new(stream));
            });
        }
    }

    /// Waits while nothing is to be said; an error where the connection should end.
    fn wait(&self) -> std::io::Result<()> {
        loop {
            match self.manner() {
                Manner::Silent => thread::sleep(PERIOD),
                Manner::Gone => return Err(std::io::ErrorKind::ConnectionAborted.into()),
                Manner::Plays | Manner::Slow | Manner::Garbage => return Ok(()),
            }
        }
    }

    fn serve(&self, stream: &mut BufReader<Box<dyn Stream>>) -> std::io::Result<()> {
        loop {
            let (mut request, mut line) = (Vec::new(), String::new());
            while stream.read_line(&mut line)? > 2 {
                request.push(std::mem::take(&mut line).trim_end().to_owned());
            }
            let Some(first) = request.first() else { return Ok(()) };
            self.wait()?;
            if self.manner() == Manner::Slow {
                thread::sleep(SLOW_ANSWER);
            }
            if self.manner() == Manner::Garbage {
                return stream.get_mut().write_all(&[b"\xFF\0nothing that \r\n".as_slice(); 40].concat());
            }
            let field = |name: &str| {
                let fields = request.iter().filter_map(|line| line.split_once(": "));
                fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            };
            let (method, url) = first.split_once(' ').unwrap();
            let url = url.split(' ').next().unwrap();
            let protocol = if method == "GET" { "HTTP/1.1" } else { "RTSP/1.0" };
            let mut answer = |status: &str, more: &str, body: &str| {
                let number = field("CSeq").map(|number| format!("CSeq: {number}\r\n")).unwrap_or_default();
                let length =
                    if method == "GET" { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
                let text = format!("{protocol} {status}\r\n{number}{more}{length}\r\n{body}");
                stream.get_mut().write_all(text.as_bytes())
            };
            let given = field("Authorization").unwrap_or_default();
            match &self.login {
                Some(login) if method != "OPTIONS" && !login.allows(method, given) => {
                    answer("401 Unauthorized", login.challenge(), "")?;
                    continue;
                }
                _ => {}
            }
            match (method, &self.pictures) {
                ("OPTIONS", _) => answer("200 OK", "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n", "")?,
                ("DESCRIBE", Pictures::Video { codec, .. }) => {
                    let body = format!(
                        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
                         m=video 0 RTP/AVP 96\r\na=rtpmap:96 {codec}/90000\r\na=control:track\r\n"
                    );
                    answer("200 OK", &format!("Content-Type: application/sdp\r\nContent-Base: {url}/\r\n"), &body)?;
                }
                ("SETUP", _) if field("Transport").is_some_and(|wish| wish.contains("TCP")) => {
                    answer("200 OK", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n", "")?;
                }
                ("SETUP", _) => answer("461 Unsupported Transport", "", "")?,
                ("PLAY", Pictures::Video { pictures, .. }) => {
                    answer("200 OK", "Session: 1\r\nRange: npt=0.000-\r\n", "")?;
                    return self.play(stream.get_mut(), pictures);
                }
                ("TEARDOWN", _) => return answer("200 OK", "", ""),
                ("GET", Pictures::Jpeg(image)) => {
                    answer("200 OK", "Content-Type: multipart/x-mixed-replace;boundary=cut\r\n", "")?;
                    return self.send_parts(stream.get_mut(), image);
                }
                _ => answer("405 Method Not Allowed", "", "")?,
            }
        }
    }

    /// RTP (RFC 3550), a packet a unit (RFC 6184, 5.6; RFC 7798, 4.4.1), between the requests (RFC 2326, 10.12).
    fn play(&self, stream: &mut impl Write, pictures: &[Vec<Vec<u8>>]) -> std::io::Result<()> {
        let (mut sequence, mut next) = (0_u16, 0);
        let ticks = (90_000.0 * self.period.as_secs_f64()).round() as u32;
        let mut due = Instant::now();
        for number in 0_usize.. {
            self.wait()?;
            let part = self.part.lock().unwrap().clone();
            if !part.contains(&next) || next == pictures.len() {
                next = part.start;
            }
            let picture = &pictures[next];
            next += 1;
            for (at, unit) in picture.iter().enumerate() {
                let last = if at + 1 == picture.len() { 0x80 } else { 0 };
                let mut packet = vec![0x80, last | 96];
                packet.extend(sequence.to_be_bytes());
                packet.extend((ticks * number as u32).to_be_bytes());
                packet.extend([0, 0, 0, 7]);
                match self.manner() {
                    Manner::Garbage => packet.extend((0..200).map(|n| (n * 37 + number) as u8)),
                    _ => packet.extend(unit),
                }
                sequence = sequence.wrapping_add(1);
                let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
                let packet = [[b'$', 0, length[0], length[1]].as_slice(), &packet].concat();
                let is_slow = self.manner() == Manner::Slow;
                for piece in packet.chunks(if is_slow { 40 } else { packet.len() }) {
                    thread::sleep(if is_slow { SLOW_PIECE } else { Duration::ZERO });
                    stream.write_all(piece)?;
                }
            }
            self.sent.fetch_add(1, Ordering::Relaxed);
            // By the clock, but what was missed while it was silent is not made up for.
            due = (due + self.period).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    fn send_parts(&self, stream: &mut impl Write, image: &[u8]) -> std::io::Result<()> {
        loop {
            self.wait()?;
            let head = format!("--cut\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n", image.len());
            stream.write_all(&[head.as_bytes(), image, b"\r\n"].concat())?;
            self.sent.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PERIOD);
        }
    }
}
