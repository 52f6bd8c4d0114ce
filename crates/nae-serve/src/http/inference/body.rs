//! The bytes of a request for inference: decompresses them, and divides them into the JSON and the tensors
//! after it. The JSON is parsed elsewhere.

use std::io::{BufRead, Read};

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use flate2::bufread::{GzDecoder, ZlibDecoder};

use super::super::{Problem, body, too_large};

/// The header with the length of the JSON if tensors follow it.
pub(super) const JSON_LENGTH: &str = "inference-header-content-length";

/// The JSON of a request, and the bytes after it.
pub(super) struct Parts {
    pub(super) json: Bytes,
    pub(super) binary: Bytes,
}

/// A supported content coding.
#[derive(Clone, Copy)]
pub(crate) enum Coding {
    Gzip,
    /// The zlib format, which HTTP calls `deflate`.
    Deflate,
}

/// A request as it arrived.
pub(super) struct Received {
    bytes: Bytes,
    coding: Option<Coding>,
    /// The length of its JSON.
    length: Option<usize>,
    limit: usize,
}

impl Received {
    /// Receives a request whose body has at most `limit` bytes, both compressed and decompressed.
    pub(super) async fn from(request: Request, limit: usize) -> Result<Self, Problem> {
        let coding = coding(request.headers())?;
        let length = json_length(request.headers())?;
        Ok(Self { bytes: body(request, limit).await?, coding, length, limit })
    }

    /// Decompresses and divides the body, which takes up to tenths of a second.
    pub(super) fn parts(self) -> Result<Parts, Problem> {
        Parts::read(self.bytes, self.coding, self.length, self.limit)
    }
}

impl Parts {
    /// Decompresses and divides a body.
    pub(super) fn read(
        body: Bytes,
        coding: Option<Coding>,
        length: Option<usize>,
        limit: usize,
    ) -> Result<Self, Problem> {
        let bytes = match coding {
            None => body,
            Some(coding) => unpack(&body, coding, limit)?,
        };
        Self::divide(bytes, length)
    }

    fn divide(bytes: Bytes, length: Option<usize>) -> Result<Self, Problem> {
        let length = length.unwrap_or(bytes.len());
        if length > bytes.len() {
            let reason = format!("`{JSON_LENGTH}` is {length}, but the request has {} bytes", bytes.len());
            return Err(Problem::new(StatusCode::BAD_REQUEST, reason));
        }
        Ok(Self { json: bytes.slice(..length), binary: bytes.slice(length..) })
    }
}

fn coding(headers: &HeaderMap) -> Result<Option<Coding>, Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let (first, more) = (codings.next(), codings.next().is_some());
    match first.map(|value| value.to_str().unwrap_or_default().trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "identity") if !more => Ok(None),
        Some("gzip" | "x-gzip") if !more => Ok(Some(Coding::Gzip)),
        Some("deflate") if !more => Ok(Some(Coding::Deflate)),
        _ => {
            let reason = "expected one `content-encoding`, `gzip` or `deflate`, or none";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason))
        }
    }
}

fn json_length(headers: &HeaderMap) -> Result<Option<usize>, Problem> {
    let mut lengths = headers.get_all(JSON_LENGTH).iter();
    let Some(first) = lengths.next() else { return Ok(None) };
    // Digits only: `parse` would also accept a sign.
    let digits = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse().ok()) {
        Some(length) if lengths.next().is_none() => Ok(Some(length)),
        _ => {
            let reason = format!("expected one `{JSON_LENGTH}`, the length of the JSON in bytes, found {first:?}");
            Err(Problem::new(StatusCode::BAD_REQUEST, reason))
        }
    }
}

fn unpack(packed: &[u8], coding: Coding, limit: usize) -> Result<Bytes, Problem> {
    match coding {
        Coding::Gzip => whole(GzDecoder::new(packed), GzDecoder::into_inner, limit),
        Coding::Deflate => whole(ZlibDecoder::new(packed), ZlibDecoder::into_inner, limit),
    }
}

/// The output of a decoder, if it ends within the limit and no bytes follow it.
fn whole<D: Read, R: BufRead>(mut decoder: D, rest: fn(D) -> R, limit: usize) -> Result<Bytes, Problem> {
    let wrong =
        |reason: String| Problem::new(StatusCode::BAD_REQUEST, format!("the request does not unpack: {reason}"));
    let mut bytes = Vec::new();
    // One byte more than the limit distinguishes too much from just enough.
    decoder.by_ref().take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
    if bytes.len() > limit {
        return Err(too_large(limit));
    }
    match rest(decoder).fill_buf() {
        Ok([]) => Ok(bytes.into()),
        _ => Err(wrong("bytes come after its end".into())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use axum::http::HeaderValue;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn the_length_of_the_json_is_a_number_within_the_body() {
        let length = |values: &[&'static str]| json_length(&headers(JSON_LENGTH, values));
        assert_eq!(length(&[]).unwrap(), None);
        assert_eq!(length(&["12"]).unwrap(), Some(12));
        for wrong in [&["-1"][..], &["+1"], &["1.5"], &[""], &["0x10"], &["99999999999999999999999"], &["1", "1"]] {
            assert_eq!(length(wrong).unwrap_err().0, 400, "{wrong:?}");
        }
        let bytes = Bytes::from_static(b"{}tensor");
        let parts = Parts::divide(bytes.clone(), Some(2)).unwrap();
        assert_eq!((&parts.json[..], &parts.binary[..]), (&b"{}"[..], &b"tensor"[..]));
        assert!(Parts::divide(bytes.clone(), None).unwrap().binary.is_empty());
        assert!(Parts::divide(bytes.clone(), Some(8)).unwrap().binary.is_empty());
        for wrong in [9, usize::MAX] {
            assert_eq!(Parts::divide(bytes.clone(), Some(wrong)).err().unwrap().0, 400);
        }
    }

    #[test]
    fn packed_bodies_are_unpacked_whole_and_within_the_limit() {
        let plain = vec![7; 1000];
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&plain).unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&plain).unwrap();
        for (packed, coding) in [(gzip.finish().unwrap(), Coding::Gzip), (zlib.finish().unwrap(), Coding::Deflate)] {
            assert_eq!(unpack(&packed, coding, 1000).unwrap(), plain);
            assert_eq!(unpack(&packed, coding, 999).unwrap_err().0, 413);
            assert_eq!(unpack(&[&packed[..], b"more"].concat(), coding, 1000).unwrap_err().0, 400);
            for end in 0..packed.len() {
                assert_eq!(unpack(&packed[..end], coding, 1000).unwrap_err().0, 400, "{end} bytes");
            }
        }
    }

    /// Endless data, to which a few compressed bytes can expand; counts what is read of it.
    struct Endless(usize);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += buffer.len();
            assert!(self.0 <= 1001, "{} bytes are unpacked, with a limit of 1000", self.0);
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    #[test]
    fn no_more_is_unpacked_than_the_limit() {
        assert_eq!(whole(Endless(0), |_| &b""[..], 1000).unwrap_err().0, 413);
    }

    #[test]
    fn other_codings_are_refused() {
        let of = |values: &[&'static str]| coding(&headers("content-encoding", values));
        assert!(of(&[]).unwrap().is_none() && of(&["identity"]).unwrap().is_none());
        assert!(matches!(of(&["GZIP"]), Ok(Some(Coding::Gzip))));
        assert!(matches!(of(&["deflate"]), Ok(Some(Coding::Deflate))));
        for wrong in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"]] {
            assert_eq!(of(wrong).err().unwrap().0, 415, "{wrong:?}");
        }
    }
}
