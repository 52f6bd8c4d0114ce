//! Reads a response of type `multipart/x-mixed-replace` (RFC 2046, section 5.1), as cameras send it: its head, and the
//! parts of the stream, each with a maximum size.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// The maximum size of the headers of a response or a part, in bytes.
pub(super) const MAX_HEADERS: usize = 16 << 10;

/// The parts of a stream.
pub(super) struct Parts<R> {
    input: BufReader<R>,
    /// `--` and the boundary.
    boundary: Vec<u8>,
    /// Whether the boundary before the next part has been read already.
    at_part: bool,
    /// The maximum size of a part, in bytes.
    limit: usize,
}

impl<R: Read> Parts<R> {
    /// The parts of at most `limit` bytes in `input`, separated by lines that begin with `boundary`.
    pub(super) fn new(input: BufReader<R>, boundary: Vec<u8>, limit: usize) -> Self {
        Self { input, boundary, at_part: false, limit }
    }

    /// The underlying reader.
    pub(super) fn reader(&mut self) -> &mut R {
        self.input.get_mut()
    }

    /// The next part.
    ///
    /// # Errors
    /// Those of reading; [`ErrorKind::UnexpectedEof`] if the stream ends, [`ErrorKind::InvalidData`] if it is not a
    /// stream of parts, or a part is too large.
    pub(super) fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while !std::mem::take(&mut self.at_part) {
            read_line(&mut self.input, &mut line, self.limit)?;
            self.at_part = line.starts_with(&self.boundary);
        }
        let head = headers(&mut self.input)?;
        let mut image = Vec::new();
        match content_length(&head)? {
            Some(length) if length > self.limit => Err(invalid(&format!("a frame of {length} bytes"))),
            Some(length) => match (&mut self.input).take(length as u64).read_to_end(&mut image)? {
                read if read < length => Err(ErrorKind::UnexpectedEof.into()),
                _ => Ok(image),
            },
            // Some cameras give no length: the image ends with the line before the next boundary.
            None => {
                while !self.at_part {
                    read_line(&mut self.input, &mut line, self.limit - image.len())?;
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

#[cfg(test)]
impl<R> Parts<R> {
    pub(super) fn into_inner(self) -> R {
        self.input.into_inner()
    }
}

pub(super) fn invalid(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// Replaces `line` with the next line and its end, of at most `limit` bytes.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, limit: usize) -> io::Result<()> {
    line.clear();
    input.take(limit as u64 + 1).read_until(b'\n', line)?;
    match line.last() {
        _ if line.len() > limit => Err(invalid(&format!("a line of more than {limit} bytes"))),
        Some(b'\n') => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads lines up to and including the empty one.
pub(super) fn headers(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let (mut head, mut line) = (Vec::new(), Vec::new());
    while !matches!(line.as_slice(), b"\r\n" | b"\n") {
        read_line(input, &mut line, MAX_HEADERS - head.len())?;
        head.extend(&line);
    }
    Ok(head)
}

/// The camera answered 401 (RFC 9110, 15.5.2).
pub(super) struct Unauthorized {
    pub(super) asked: Vec<String>,
    pub(super) said: String,
}

/// `--` and the boundary in the head of a response.
pub(super) fn boundary(head: &[u8]) -> io::Result<Result<Vec<u8>, Unauthorized>> {
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
    // The case of types and of names of parameters does not matter (RFC 9110, 8.3.1).
    let is_multipart = kind.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
    let mut parameters = kind.split(';').filter_map(|part| part.trim().split_once('='));
    match parameters.find(|(key, _)| key.eq_ignore_ascii_case("boundary")) {
        Some((_, name)) if is_multipart => {
            // Many cameras include the dashes in the name.
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
    use super::*;

    fn next(stream: &str) -> io::Result<Vec<u8>> {
        Parts::new(BufReader::with_capacity(5, stream.as_bytes()), b"--frame".to_vec(), 60).next()
    }

    #[test]
    fn the_boundary_is_found_whatever_the_case() {
        let boundary = |kind: &str| {
            let head = format!("HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\n\r\n");
            super::boundary(head.as_bytes()).ok()?.ok()
        };
        for kind in [
            "multipart/x-mixed-replace; boundary=Frame",
            "Multipart/X-Mixed-Replace;Boundary=--Frame",
            "MULTIPART/MIXED; charset=x; BOUNDARY=\"Frame\"",
        ] {
            assert_eq!(boundary(kind).as_deref(), Some(b"--Frame".as_slice()), "{kind}");
        }
        for kind in ["image/jpeg; boundary=x", "multipart/mixed", "multipart/mixed; bound=x", "", "multipart\u{fc}/"] {
            assert_eq!(boundary(kind), None, "{kind}");
        }
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
            assert!(next(part).is_err(), "{part}");
        }
        let error = next("--frame\r\nno colon\r\n\r\n").unwrap_err().to_string();
        assert_eq!(error, "the headers of a frame cannot be read: invalid header name");
    }
}
