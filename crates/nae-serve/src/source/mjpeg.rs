//! Motion JPEG over plain HTTP, as IP cameras send it: one response without end, of type
//! `multipart/x-mixed-replace`, each part a JPEG image. User and password are sent where the camera asks for them, as it
//! asks (`authentication`). No TLS: what is at `https://` is taken by `stream`.
//!
//! Written on a socket and not on an HTTP client, because a camera that hangs must be noticed: no client
//! at hand has a limit for a single read.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use axum::body::Bytes;

use super::address::CameraAddress;
use super::authentication::authorization;
use super::{Lost, MAX_FRAME, Source, jpeg};

/// The most that the headers of a response or a part take, in bytes.
const MAX_HEADERS: usize = 16 << 10;

pub(super) struct Mjpeg<R = TcpStream> {
    input: BufReader<R>,
    /// `--` and the boundary.
    boundary: Vec<u8>,
    /// The boundary before the next part has been read already.
    at_part: bool,
    /// How long the camera may be silent.
    silence: Duration,
}

impl Mjpeg {
    pub(super) fn open(address: &CameraAddress, silence: Duration) -> Result<Self, Lost> {
        let failed = |error: io::Error| Lost::Failed(format!("{address}: {error}"));
        Self::start(|| connect(address, silence), address, silence).map_err(failed)
    }
}

fn connect(address: &CameraAddress, silence: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for place in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, silence) {
            Ok(socket) => {
                socket.set_read_timeout(Some(silence))?;
                socket.set_write_timeout(Some(silence))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What a camera answers to a request for its stream.
enum Answer<R> {
    Frames(Mjpeg<R>),
    /// It wants to know who asks: its fields `WWW-Authenticate`, and what it said.
    Unauthorized(Vec<String>, String),
}

impl<R: Read + Write> Mjpeg<R> {
    /// Asks for the stream, with a connection for each request: with user and password where the camera asks who that is, and not
    /// before, since they would be sent as they are then.
    fn start(
        mut connect: impl FnMut() -> io::Result<R>,
        address: &CameraAddress,
        silence: Duration,
    ) -> io::Result<Self> {
        let (asked, said) = match Self::ask(connect()?, address, None, silence)? {
            Answer::Frames(this) => return Ok(this),
            Answer::Unauthorized(asked, said) => (asked, said),
        };
        let login = address.login().ok_or_else(|| invalid(&format!("{said}: give it user and password")))?;
        let known =
            authorization(&asked, &login, &address.path).map_err(|error| invalid(&format!("{said}: {error}")))?;
        match Self::ask(connect()?, address, Some(&known), silence)? {
            Answer::Frames(this) => Ok(this),
            Answer::Unauthorized(_, said) => Err(invalid(&format!("{said}: user or password are wrong"))),
        }
    }

    fn ask(
        mut stream: R,
        address: &CameraAddress,
        authorization: Option<&str>,
        silence: Duration,
    ) -> io::Result<Answer<R>> {
        // HTTP/1.0, because its answers come without chunks.
        let mut request = format!("GET {} HTTP/1.0\r\nHost: {}\r\nAccept: */*\r\n", address.path, address.host);
        if let Some(authorization) = authorization {
            request.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes())?;
        let mut input = BufReader::with_capacity(1 << 16, stream);
        let head = headers(&mut input)?;
        Ok(match boundary(&head)? {
            Ok(boundary) => Answer::Frames(Self { input, boundary, at_part: false, silence }),
            Err(Unauthorized { asked, said }) => Answer::Unauthorized(asked, said),
        })
    }
}

impl<R: Read> Mjpeg<R> {
    /// The next part.
    fn part(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while !std::mem::take(&mut self.at_part) {
            read_line(&mut self.input, &mut line, MAX_FRAME)?;
            self.at_part = line.starts_with(&self.boundary);
        }
        let head = headers(&mut self.input)?;
        let mut image = Vec::new();
        match content_length(&head)? {
            Some(length) if length > MAX_FRAME => Err(invalid(&format!("a frame of {length} bytes"))),
            Some(length) => match (&mut self.input).take(length as u64).read_to_end(&mut image)? {
                read if read < length => Err(ErrorKind::UnexpectedEof.into()),
                _ => Ok(image),
            },
            // Some cameras do not say: the image ends with the line before the next boundary.
            None => {
                while !self.at_part {
                    read_line(&mut self.input, &mut line, MAX_FRAME - image.len())?;
                    self.at_part = line.starts_with(&self.boundary);
                    if !self.at_part {
                        image.extend(&line);
                    }
                }
                image.truncate(image.strip_suffix(b"\r\n").map_or(image.len(), <[u8]>::len));
                Ok(image)
            }
        }
    }
}

impl<R: Read> Source for Mjpeg<R> {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        match self.part() {
            Ok(image) => Ok(Some((jpeg::with_tables(image).into(), None))),
            Err(error) => Err(Lost::Failed(match error.kind() {
                ErrorKind::UnexpectedEof => "the camera ended its stream".into(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("the camera was silent for {:?}", self.silence),
                _ => format!("the camera's stream: {error}"),
            })),
        }
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// A line with its end, of at most `limit` bytes, in place of what is in `line`.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, limit: usize) -> io::Result<()> {
    line.clear();
    input.take(limit as u64 + 1).read_until(b'\n', line)?;
    match line.last() {
        _ if line.len() > limit => Err(invalid(&format!("a line of more than {limit} bytes"))),
        Some(b'\n') => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Lines up to the empty one, which is included.
fn headers(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let (mut head, mut line) = (Vec::new(), Vec::new());
    while !matches!(line.as_slice(), b"\r\n" | b"\n") {
        read_line(input, &mut line, MAX_HEADERS - head.len())?;
        head.extend(&line);
    }
    Ok(head)
}

/// The camera answered 401 (RFC 9110, 15.5.2).
struct Unauthorized {
    asked: Vec<String>,
    said: String,
}

/// `--` and the boundary that the head of a response names.
fn boundary(head: &[u8]) -> io::Result<Result<Vec<u8>, Unauthorized>> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(head).map_err(|e| invalid(&format!("its answer is not HTTP: {e}")))?;
    let code = response.code.unwrap_or_default();
    let said = || format!("it answered {code} {}", response.reason.unwrap_or_default());
    if code == 401 {
        let asked = response.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("www-authenticate"));
        let asked = asked.map(|h| String::from_utf8_lossy(h.value).into_owned()).collect();
        return Ok(Err(Unauthorized { asked, said: said() }));
    }
    if code != 200 {
        return Err(invalid(&said()));
    }
    let kind = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-type"));
    let kind = kind.and_then(|h| std::str::from_utf8(h.value).ok()).unwrap_or("nothing");
    let named = kind.split(';').filter_map(|part| part.trim().split_once('=')).find(|(key, _)| *key == "boundary");
    match named {
        Some((_, name)) if kind.starts_with("multipart/") => {
            // Many cameras count the dashes as part of the name.
            let name = name.trim_matches('"').trim_start_matches("--");
            Ok(Ok(format!("--{name}").into_bytes()))
        }
        _ => Err(invalid(&format!("expected multipart/x-mixed-replace with a boundary, found {kind}"))),
    }
}

fn content_length(head: &[u8]) -> io::Result<Option<usize>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let fields = match httparse::parse_headers(head, &mut fields) {
        Ok(httparse::Status::Complete((_, fields))) => fields,
        Ok(httparse::Status::Partial) => return Err(invalid("the headers of a frame have no end")),
        Err(error) => return Err(invalid(&format!("the headers of a frame cannot be read: {error}"))),
    };
    let length = fields.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
    let parse = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse().ok();
    length.map(|h| parse(h.value).ok_or_else(|| invalid("the length of a frame is not a number"))).transpose()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// What a camera answers, and what it was asked.
    struct Camera {
        answer: Cursor<Vec<u8>>,
        asked: Vec<u8>,
    }

    impl Read for Camera {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // A few bytes at a time, so that every boundary is cut somewhere.
            let some = buffer.len().min(5);
            self.answer.read(&mut buffer[..some])
        }
    }

    impl Write for Camera {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked.extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn start(answer: &str) -> io::Result<Mjpeg<Camera>> {
        start_with("http://me:pass@camera:81/video?x=1", &[answer])
    }

    /// With an answer for each connection.
    fn start_with(address: &str, answers: &[&str]) -> io::Result<Mjpeg<Camera>> {
        let mut answers = answers.iter();
        let connect = || {
            let answer = Cursor::new(answers.next().expect("no more connections").as_bytes().to_vec());
            Ok(Camera { answer, asked: Vec::new() })
        };
        Mjpeg::start(connect, &address.parse().unwrap(), Duration::from_secs(5))
    }

    #[test]
    fn who_asks_is_told_as_the_camera_wants_to_know_it() {
        let refusal = |field: &str| format!("HTTP/1.1 401 Unauthorized\r\n{field}\r\n\r\n");
        let asked = |answers: &[&str]| {
            let camera = start_with("http://me:secret@camera/video?x=1", answers).unwrap();
            String::from_utf8(camera.input.into_inner().asked).unwrap()
        };
        // Nothing is told that is not asked for.
        assert!(!asked(&[HEAD]).contains("Authorization"));
        let basic = asked(&[&refusal("WWW-Authenticate: Basic realm=\"camera\""), HEAD]);
        assert!(basic.contains("\r\nAuthorization: Basic bWU6c2VjcmV0\r\n"), "{basic}");
        let digest = "WWW-Authenticate: Basic realm=\"x\"\r\nwww-authenticate: Digest realm=\"c\", nonce=\"n\"";
        let digest = asked(&[&refusal(digest), HEAD]);
        assert!(
            digest.contains("\r\nAuthorization: Digest username=\"me\", ") && !digest.contains("Basic"),
            "{digest}"
        );
        assert!(digest.contains("uri=\"/video?x=1\""), "{digest}");

        let refused = refusal("WWW-Authenticate: Digest realm=\"c\", nonce=\"n\"");
        let error = |address: &str, answers: &[&str]| start_with(address, answers).map(drop).unwrap_err().to_string();
        let said = error("http://me:secret@camera/", &[&refused, &refused]);
        assert_eq!(said, "it answered 401 Unauthorized: user or password are wrong");
        assert_eq!(error("http://camera/", &[&refused]), "it answered 401 Unauthorized: give it user and password");
        let said = error("http://me:secret@camera/", &[&refusal("WWW-Authenticate: Negotiate")]);
        assert!(said.contains("401 Unauthorized: expected basic or digest") && !said.contains("secret"), "{said}");
    }

    const HEAD: &str = "HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=--frame\r\n\r\n";

    #[test]
    fn frames_come_with_and_without_their_length() {
        let answer = format!(
            "{HEAD}--frame\r\nContent-Type: image/jpeg\r\nContent-Length: 6\r\n\r\none\r\n1\r\n\
             --frame\r\nContent-Type: image/jpeg\r\n\r\ntwo\r\n-\n2\r\n--frame\r\ncontent-length: 2\r\n\r\n33\r\n--frame--\r\n"
        );
        let mut camera = start(&answer).unwrap();
        assert_eq!(camera.part().unwrap(), b"one\r\n1");
        assert_eq!(camera.part().unwrap(), b"two\r\n-\n2");
        assert_eq!(camera.part().unwrap(), b"33");
        assert_eq!(camera.next(), Err(Lost::Failed("the camera ended its stream".into())));
        let asked = String::from_utf8(camera.input.into_inner().asked).unwrap();
        assert!(asked.starts_with("GET /video?x=1 HTTP/1.0\r\nHost: camera\r\n"), "{asked}");
    }

    #[test]
    fn what_is_not_a_stream_is_refused_with_the_reason() {
        for (answer, reason) in [
            ("HTTP/1.0 403 Forbidden\r\n\r\n", "it answered 403 Forbidden"),
            ("HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n\r\n", "found image/jpeg"),
            ("HTTP/1.1 200 OK\r\n\r\n", "found nothing"),
            ("RTSP/1.0 200 OK\r\n\r\n", "not HTTP"),
            ("HTTP/1.1 200", "end of file"),
        ] {
            let error = start(answer).map(drop).unwrap_err().to_string();
            assert!(error.contains(reason), "{answer}: {error}");
        }
        assert!(start(&format!("HTTP/1.0 200 OK\r\nX: {}", "y".repeat(MAX_HEADERS))).is_err());
    }

    #[test]
    fn frames_that_lie_about_themselves_are_errors() {
        for part in [
            "--frame\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "--frame\r\nContent-Length: 99999999\r\n\r\n",
            "--frame\r\nContent-Length: 50\r\n\r\nshort",
            "--frame\r\nno colon\r\n\r\n",
            "--frame\r\n\r\nno end",
            "",
        ] {
            assert!(start(&format!("{HEAD}{part}")).unwrap().part().is_err(), "{part}");
        }
        let error = start(&format!("{HEAD}--frame\r\nno colon\r\n\r\n")).unwrap().part().unwrap_err().to_string();
        assert_eq!(error, "the headers of a frame cannot be read: invalid header name");
    }
}
