//! The application on the host: its behaviour with images, pins and faults.
#![allow(clippy::unwrap_used)]

use core::convert::Infallible;
use embedded_hal::digital::{ErrorType, OutputPin};
use embedded_hal_nb::serial::{self, ErrorKind};
use firmware_example::{Digits, EndOfImages, Fault, ImageSource, Judge, Memory, SerialImages, StoredImages, Watch};
use nae_core::drift::Drift;
use nae_core::verdict::{Score, Verdict};
use std::cell::Cell;

struct Pin<'a>(&'a Cell<Option<bool>>);

impl ErrorType for Pin<'_> {
    type Error = Infallible;
}

impl OutputPin for Pin<'_> {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.set(Some(false));
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0.set(Some(true));
        Ok(())
    }
}

/// A checkerboard, which is very different from a digit.
fn checkerboard() -> [u8; 256] {
    core::array::from_fn(|i| if (i / 16 + i).is_multiple_of(2) { 255 } else { 0 })
}

/// Four digits, of which the 1 was never trained on, five checkerboards, and four digits more. The alarm turns on with
/// the third anomaly among the last five images, which is the second checkerboard, and turns off when one is left.
#[test]
fn the_pin_follows_the_alarm_and_the_source_ends() {
    let (digits, _) = include_bytes!("../vectors/digits.u8").as_chunks::<256>();
    let [before, after] = [[0, 1, 2, 3], [0, 2, 3, 0]].map(|which| which.map(|digit: usize| digits[digit]).concat());
    let images = [before, checkerboard().repeat(5), after].concat();
    let state = Cell::new(None);
    let mut memory = Memory::new();
    let mut watch = Watch::new(StoredImages::new(&images), Pin(&state), &mut memory).unwrap();
    let threshold = Digits::MODEL.threshold().unwrap();
    let judged: [(bool, bool); 13] = core::array::from_fn(|_| {
        watch.capture().unwrap();
        let report = watch.judge().unwrap();
        assert_eq!(report.verdict, Verdict::of(report.score.energy, threshold));
        assert_eq!(state.get(), Some(report.alarm));
        (report.verdict.is_anomaly(), report.alarm)
    });
    let anomalies = [0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0].map(|anomaly| anomaly == 1);
    assert_eq!(judged.map(|(anomaly, _)| anomaly), anomalies);
    let alarms = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0].map(|alarm| alarm == 1);
    assert_eq!(judged.map(|(_, alarm)| alarm), alarms);
    assert!(matches!(watch.capture(), Err(Fault::Source(EndOfImages))));
}

/// The drift watch counts one checkerboard among many digits as an image at the threshold; it reports drift if the
/// camera shows only checkerboards.
#[test]
fn one_anomaly_is_no_drift_and_many_are() {
    let (digits, _) = include_bytes!("../vectors/digits.u8").as_chunks::<256>();
    let normal = [0, 2, 3].map(|digit: usize| digits[digit]).concat().repeat(10);
    let images = [&normal[..], &checkerboard(), &normal, &checkerboard().repeat(60)].concat();
    let state = Cell::new(None);
    let mut memory = Memory::new();
    let mut watch = Watch::new(StoredImages::new(&images), Pin(&state), &mut memory).unwrap();
    let drifts: [Drift; 121] = core::array::from_fn(|_| {
        watch.capture().unwrap();
        watch.judge().unwrap().drift
    });
    assert_eq!(drifts[..61], [Drift::Steady; 61]);
    assert_eq!(drifts[120], Drift::Rising);
}

/// Without a threshold, the sums of the energies can leave the range of floats.
#[test]
fn after_an_overflow_the_watch_on_drift_begins_anew() {
    let state = Cell::new(None);
    let mut judge = Judge::new(Pin(&state), None).unwrap();
    let mut drift = |energy| judge.observe(Score { energy, p_value: None }, None).unwrap().drift;
    let before = [0.0, f32::MAX, f32::MAX, f32::MAX].map(&mut drift);
    assert_eq!(before, [Drift::Steady, Drift::Rising, Drift::Rising, Drift::Steady]);
    assert_eq!([0.5; 20].map(&mut drift), [Drift::Steady; 20]);
    assert_eq!([5.0; 4].map(&mut drift)[3], Drift::Rising);
}

/// A model whose normal images are reconstructed exactly has the threshold 0; others have a very small or a very large one.
#[test]
fn the_application_starts_with_any_threshold() {
    let state = Cell::new(None);
    for threshold in [0.0, -0.0, -3.6e-7, -1.0, f32::MIN, 1e-45, f32::MIN_POSITIVE, 1e38, f32::MAX] {
        let judge = Judge::new(Pin(&state), Some(threshold));
        let mut judge = judge.unwrap_or_else(|error| panic!("{threshold}: {error}"));
        let report = judge.observe(Score { energy: threshold, p_value: None }, Some(Verdict::Normal)).unwrap();
        assert_eq!((report.alarm, report.drift), (false, Drift::Steady), "{threshold}");
    }
    // All energies above a threshold of 0 count as energies at it, which is no shift.
    let mut judge = Judge::new(Pin(&state), Some(0.0)).unwrap();
    let mut judged = |energy| judge.observe(Score { energy, p_value: None }, Some(Verdict::of(energy, 0.0))).unwrap();
    let reports = [0.0, 1.0, 1.0, 1.0].map(&mut judged);
    assert_eq!(reports.map(|report| report.alarm), [false, false, false, true]);
    assert!(reports.iter().all(|report| report.drift == Drift::Steady));
}

/// A serial line that gives bytes, then an overrun.
struct Line<'a>(&'a [u8]);

impl serial::ErrorType for Line<'_> {
    type Error = ErrorKind;
}

impl serial::Read for Line<'_> {
    fn read(&mut self) -> nb::Result<u8, ErrorKind> {
        let (first, rest) = self.0.split_first().ok_or(ErrorKind::Overrun)?;
        self.0 = rest;
        Ok(*first)
    }
}

/// An image on the line. The checksums are those of Python's `binascii.crc_hqx(image, 0xFFFF)`.
fn framed(image: &[u8], checksum: u16) -> Vec<u8> {
    [&[0xA5, 0x5A][..], image, &checksum.to_be_bytes()].concat()
}

#[test]
fn images_start_at_the_sync_bytes() {
    let sent = [&[0x5A, 0xA5][..], &framed(&[7, 8], 0x0590), &framed(&[9, 9], 0x36BF), &[0xA5, 0x5A, 9]].concat();
    let mut source = SerialImages::new(Line(&sent));
    let mut image = [0; 2];
    assert_eq!(source.capture(&mut image), Ok(()));
    assert_eq!(image, [7, 8]);
    assert_eq!(source.capture(&mut image), Err(ErrorKind::Overrun), "the second has another checksum");
}

/// The images of a scene that does not move, with the sync bytes at different places among the pixels: after a byte was
/// lost, the source could take these for the start of all later images.
#[test]
fn a_lost_byte_costs_one_image() {
    let images: [([u8; 6], u16); 7] = [
        ([1, 0xA5, 0x5A, 2, 3, 4], 0x24A4),
        ([0xA5, 0x5A, 1, 2, 3, 4], 0xF2A6),
        ([1, 2, 3, 4, 0xA5, 0x5A], 0x511B),
        ([0xA5, 0x5A, 0xA5, 0x5A, 0xA5, 0x5A], 0x29AD),
        ([1, 2, 3, 4, 5, 0xA5], 0x5295),
        ([0x5A, 1, 2, 0xA5, 0xA5, 0x5A], 0xF0E7),
        ([0, 0, 0, 0, 0, 0], 0x0E10),
    ];
    for (pixels, checksum) in images {
        let one = framed(&pixels, checksum);
        for lost in 0..one.len() {
            let mut sent = one.repeat(6);
            sent.remove(lost);
            let (mut source, mut image, mut taken) = (SerialImages::new(Line(&sent)), [0; 6], 0);
            while source.capture(&mut image) == Ok(()) {
                assert_eq!(image, pixels, "lost {lost} of {one:?}");
                taken += 1;
            }
            assert_eq!(taken, 5, "lost {lost} of {one:?}");
        }
    }
}
