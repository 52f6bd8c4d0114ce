//! The log-mel features against `librosa`'s: `tests/audio/make_vectors.py` wrote both samples and features.
#![cfg(feature = "audio")]
#![allow(clippy::unwrap_used)]

use nae_core::audio::{BANDS, FrameWindow, HOP, LogMel, SampleError};

/// 1.5 seconds, hop by hop.
fn samples() -> Vec<[i16; HOP]> {
    let (pairs, _) = include_bytes!("audio/samples.i16").as_chunks();
    let samples: Vec<i16> = pairs.iter().map(|pair| i16::from_le_bytes(*pair)).collect();
    samples.as_chunks().0.to_vec()
}

fn reference() -> Vec<[f32; BANDS]> {
    let (words, _) = include_bytes!("audio/log_mel.f32").as_chunks();
    let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    values.as_chunks().0.to_vec()
}

#[test]
fn frames_are_librosas() {
    let mut log_mel = LogMel::new();
    let frames: Vec<[f32; BANDS]> = samples().iter().filter_map(|hop| log_mel.push_i16(hop).copied()).collect();
    let reference = reference();
    assert_eq!(frames.len(), reference.len());
    let errors = frames.as_flattened().iter().zip(reference.as_flattened()).map(|(a, b)| (a - b).abs());
    let most = errors.fold(0.0f32, f32::max);
    println!("{} frames: {most:.1e} dB at most", frames.len());
    assert!(most < 1e-3, "{most}");
}

#[test]
fn floats_and_integers_are_the_same_stream() {
    let (mut integers, mut floats) = (LogMel::new(), LogMel::new());
    for hop in samples() {
        let expected = integers.push_i16(&hop).copied();
        assert_eq!(floats.push(&hop.map(|sample| f32::from(sample) / 32_768.0)), Ok(expected.as_ref()));
    }
}

#[test]
fn a_window_is_its_last_frames_in_order() {
    let mut window = FrameWindow::<{ 5 * BANDS }>::new();
    for frame in 0..8u8 {
        let input = window.push(&[f32::from(frame); BANDS]).copied();
        let expected = |earliest: u8| core::array::from_fn(|i| f32::from(earliest) + (i / BANDS) as f32);
        assert_eq!(input, frame.checked_sub(4).map(expected), "{frame}");
    }
}

/// Nothing of before is in what comes after a reset.
#[test]
fn after_a_reset_frames_and_inputs_are_those_of_a_new_stream() {
    let samples = samples();
    let (before, after) = samples.split_at(20);
    let inputs = |log_mel: &mut LogMel, window: &mut FrameWindow<{ 5 * BANDS }>, hops: &[[i16; HOP]]| {
        let input = |hop| log_mel.push_i16(hop).and_then(|frame| window.push(frame)).copied();
        hops.iter().map(input).collect::<Vec<_>>()
    };
    let (mut log_mel, mut window) = (LogMel::new(), FrameWindow::new());
    assert!(inputs(&mut log_mel, &mut window, before)[19].is_some());
    log_mel.reset();
    window.reset();
    let found = inputs(&mut log_mel, &mut window, after);
    assert!(found[..5].iter().all(Option::is_none) && found[5].is_some());
    assert_eq!(found, inputs(&mut LogMel::new(), &mut FrameWindow::new(), after));
}

#[test]
fn samples_that_are_no_sound_are_refused_and_the_stream_begins_anew() {
    let hop = [0.5; HOP];
    let mut log_mel = LogMel::new();
    for wrong in [f32::NAN, f32::INFINITY, -1e6] {
        let mut damaged = hop;
        damaged[100] = wrong;
        assert_eq!(log_mel.push(&hop).map(|frame| frame.is_some()), Ok(false));
        assert_eq!(log_mel.push(&damaged), Err(SampleError));
        assert_eq!(log_mel.push(&hop), Ok(None));
        assert!(log_mel.push(&[65_536.0; HOP]).unwrap().unwrap().iter().all(|band| band.is_finite()));
        log_mel = LogMel::new();
    }
}
