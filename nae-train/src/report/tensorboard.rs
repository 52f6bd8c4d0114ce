//! The measurements of a run for TensorBoard: an event file of scalars, which `tensorboard --logdir runs` finds.
//!
//! The format is TensorFlow's: records of a length, its checksum, an `Event` message and its checksum
//! (`tensorflow/core/lib/io/record_writer.h`, `tensorflow/core/util/event.proto`). Only the parts for scalars are
//! implemented.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

/// The file name; TensorBoard recognizes event files by its first part.
pub(crate) const EVENTS: &str = "events.out.tfevents.nae";

#[derive(Clone, PartialEq, Message)]
struct Event {
    /// The time in seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// Writes an event file.
pub(crate) struct Events {
    file: BufWriter<File>,
}

impl Events {
    /// Starts the event file `file`, which must be empty.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn begin(file: File) -> io::Result<Self> {
        let mut events = Self::append(file);
        events.write(Event { file_version: Some("brain.Event:2".to_owned()), ..event(0) })?;
        Ok(events)
    }

    /// Continues the event file `file`, which must be open for appending.
    pub(crate) fn append(file: File) -> Self {
        Self { file: BufWriter::new(file) }
    }

    /// Writes values by name at `step`; slashes separate the parts of a name.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn scalars(&mut self, step: usize, values: impl IntoIterator<Item = (String, f64)>) -> io::Result<()> {
        let scalar = |(tag, value)| Scalar { tag, simple_value: Some(value as f32) };
        let summary = Summary { value: values.into_iter().map(scalar).collect() };
        self.write(Event { summary: Some(summary), ..event(step) })
    }

    /// Passes all data to the operating system and returns the length of the file, in bytes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<u64> {
        self.file.flush()?;
        Ok(self.file.get_ref().metadata()?.len())
    }

    /// Writes all data to the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_data()
    }

    fn write(&mut self, event: Event) -> io::Result<()> {
        self.file.write_all(&record(&event.encode_to_vec()))
    }
}

fn event(step: usize) -> Event {
    let wall_time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    Event { wall_time, step: step as i64, ..Event::default() }
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()].concat()
}

/// CRC-32C, rotated and offset, since a plain CRC is a bad checksum of data that contain checksums.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// The first record of an event file, as TensorFlow writes it.
    #[test]
    fn the_first_record_is_tensorflows() {
        let event = Event { file_version: Some("brain.Event:2".to_owned()), ..Event::default() };
        let mut expected = vec![15, 0, 0, 0, 0, 0, 0, 0];
        let length = masked(&expected);
        expected.extend(length.to_le_bytes());
        expected.extend(b"\x1a\x0dbrain.Event:2");
        assert_eq!(record(&event.encode_to_vec())[..27], expected);
        // From RFC 3720, appendix B.4: 32 bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(EVENTS);
        let mut events = Events::begin(File::create(&path).expect("makes")).expect("writes");
        let begun = events.flush().expect("writes");
        let append = OpenOptions::new().append(true).open(&path).expect("opens");
        let mut events = Events::append(append);
        let values = [("look/auroc".to_owned(), 0.5), ("look/energy".to_owned(), 2.0)];
        events.scalars(7, values).expect("writes");
        assert!(events.flush().expect("writes") > begun);

        let bytes = std::fs::read(&path).expect("reads");
        let mut rest = bytes.as_slice();
        let mut read = Vec::new();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().expect("eight")) as usize;
            assert_eq!(rest[8..12], masked(&rest[..8]).to_le_bytes());
            let data = &rest[12..12 + length];
            assert_eq!(rest[12 + length..16 + length], masked(data).to_le_bytes());
            read.push(Event::decode(data).expect("an event"));
            rest = &rest[16 + length..];
        }
        assert_eq!(read.len(), 2);
        let summary = read[1].summary.clone().expect("scalars");
        assert_eq!((read[1].step, summary.value.len(), summary.value[1].simple_value), (7, 2, Some(2.0)));
    }
}
