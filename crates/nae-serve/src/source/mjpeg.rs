//! Motion JPEG over plain HTTP, as IP cameras send it: one endless response of the type `multipart/x-mixed-replace`
//! (divided by `multipart`), each part a JPEG image. The login is sent if the camera requests it, by the scheme that it
//! requests (`authentication`). There is no TLS: `stream` takes `https://` addresses.
//!
//! It uses a socket and not an HTTP client, because a camera that hangs must be noticed: no available client has a
//! limit for a single read.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use axum::body::Bytes;

use super::address::CameraAddress;
use super::authentication::authorization;
use super::multipart::{Parts, Unauthorized, boundary, headers, invalid};
use super::{Lost, MAX_FRAME, Source, jpeg};

pub(super) struct Mjpeg<R = TcpStream> {
    parts: Parts<Until<R>>,
    /// How long the camera may send no frame.
    silence: Duration,
}

/// A connection with a deadline: a camera that sends something other than frames is never silent for a single read.
struct Until<R> {
    stream: R,
    end: Instant,
}

impl<R: Read> Read for Until<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.end {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.read(buffer)
    }
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

/// A camera's answer to a request for its stream.
enum Answer<R> {
    Frames(Mjpeg<R>),
    /// It requests authentication: the fields `WWW-Authenticate`, and the status line.
    Unauthorized(Vec<String>, String),
}

impl<R: Read + Write> Mjpeg<R> {
    /// Requests the stream, with a connection for each request. The login is sent only after the camera requests it,
    /// since without a request it would have to be sent in the clear.
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
        // HTTP/1.0, because its answers are not chunked.
        let mut request = format!("GET {} HTTP/1.0\r\nHost: {}\r\nAccept: */*\r\n", address.path, address.host_field());
        if let Some(authorization) = authorization {
            request.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes())?;
        let stream = Until { stream, end: Instant::now() + silence };
        let mut input = BufReader::with_capacity(1 << 16, stream);
        let head = headers(&mut input)?;
        Ok(match boundary(&head)? {
            Ok(boundary) => Answer::Frames(Self { parts: Parts::new(input, boundary, MAX_FRAME), silence }),
            Err(Unauthorized { asked, said }) => Answer::Unauthorized(asked, said),
        })
    }
}

impl<R: Read> Source for Mjpeg<R> {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        // Measured from now and not from the last frame: a pause of the service itself is not the camera's fault.
        self.parts.reader().end = Instant::now() + self.silence;
        match self.parts.next() {
            Ok(image) => Ok(Some((jpeg::with_tables(image).into(), None))),
            Err(error) => Err(Lost::Failed(match error.kind() {
                ErrorKind::UnexpectedEof => "the camera ended its stream".into(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    format!("the camera gave no frame for {:?}", self.silence)
                }
                _ => format!("the camera's stream: {error}"),
            })),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use super::super::multipart::MAX_HEADERS;
    use super::*;

    /// A camera's answer, and the request that it received.
    struct Camera {
        answer: Cursor<Vec<u8>>,
        asked: Vec<u8>,
    }

    impl Read for Camera {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // A few bytes at a time, so that every boundary is divided somewhere.
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

    /// Starts with one answer for each connection.
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
            String::from_utf8(camera.parts.into_inner().stream.asked).unwrap()
        };
        // Nothing is sent that was not requested.
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
        assert_eq!(camera.parts.next().unwrap(), b"one\r\n1");
        assert_eq!(camera.parts.next().unwrap(), b"two\r\n-\n2");
        assert_eq!(camera.parts.next().unwrap(), b"33");
        assert_eq!(camera.next(), Err(Lost::Failed("the camera ended its stream".into())));
        let asked = String::from_utf8(camera.parts.into_inner().stream.asked).unwrap();
        assert!(asked.starts_with("GET /video?x=1 HTTP/1.0\r\nHost: camera:81\r\n"), "{asked}");
    }

    /// Sends the given head, and then lines that are not frames, for a time.
    struct Chatty {
        head: Cursor<&'static [u8]>,
        lines: usize,
    }

    impl Read for Chatty {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.head.read(buffer)? {
                0 => {}
                read => return Ok(read),
            }
            self.lines = self.lines.checked_sub(1).ok_or(ErrorKind::UnexpectedEof)?;
            std::thread::sleep(Duration::from_millis(100));
            (&b"x\r\n"[..]).read(buffer)
        }
    }

    impl Write for Chatty {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_camera_that_sends_something_but_no_frame_is_lost() {
        const STREAM: &str = "HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=f\r\n\r\n\
                              --f\r\nContent-Length: 2\r\n\r\n11";
        let silence = Duration::from_secs(1);
        let address = "http://camera/".parse().unwrap();
        let start = |head: &'static str| {
            let head = Cursor::new(head.as_bytes());
            Mjpeg::start(|| Ok(Chatty { head: head.clone(), lines: 40 }), &address, silence)
        };
        let mut camera = start(STREAM).unwrap();
        assert!(camera.next().is_ok_and(|frame| frame.is_some()));
        let begin = Instant::now();
        assert_eq!(camera.next(), Err(Lost::Failed("the camera gave no frame for 1s".into())));
        assert!(begin.elapsed() >= silence);
        // The limit also holds for the request of the stream.
        let error = start("HTTP/1.0 200 OK\r\n").map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
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
}
