//! The log-mel features against `librosa`'s, of which `tests/audio/make_vectors.py` wrote both samples and features, and
//! against their definition in f64.
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

/// The bands of a frame by their definition in f64, without a fast Fourier transform.
fn in_f64(samples: &[i16]) -> Vec<f64> {
    use std::f64::consts::PI;
    let len = samples.len();
    let waves: Vec<[f64; 2]> = (0..len).map(|n| 2.0 * PI * n as f64 / len as f64).map(|p| [p.cos(), p.sin()]).collect();
    let windowed: Vec<f64> =
        samples.iter().zip(&waves).map(|(s, [cos, _])| f64::from(*s) / 32768.0 * (0.5 - 0.5 * cos)).collect();
    let power = |bin: usize| {
        let part = |k: usize| -> f64 { windowed.iter().enumerate().map(|(n, x)| x * waves[n * bin % len][k]).sum() };
        part(0).powi(2) + part(1).powi(2)
    };
    let powers: Vec<f64> = (0..=len / 2).map(power).collect();
    // Slaney's scale: 200/3 Hz per mel up to 1000 Hz, then 6.4 times as high for 27 mel.
    let highest = 15.0 + 27.0 * 8f64.ln() / 6.4f64.ln();
    let hertz = |edge: usize| match edge as f64 * highest / (BANDS + 1) as f64 {
        mel if mel < 15.0 => mel * 200.0 / 3.0,
        mel => 1000.0 * 6.4f64.powf((mel - 15.0) / 27.0),
    };
    let band = |band: usize| {
        let [low, centre, high] = [hertz(band), hertz(band + 1), hertz(band + 2)];
        let weight = |bin: usize| {
            let f = bin as f64 * 16_000.0 / len as f64;
            ((f - low) / (centre - low)).min((high - f) / (high - centre)).max(0.0) * 2.0 / (high - low)
        };
        let power: f64 = powers.iter().enumerate().map(|(bin, power)| weight(bin) * power).sum();
        10.0 * (power + f64::EPSILON).log10()
    };
    (0..BANDS).map(band).collect()
}

/// A tone of this frequency and amplitude.
fn tone(hertz: f64, amplitude: f64, n: usize) -> f64 {
    amplitude * (2.0 * std::f64::consts::PI * hertz * n as f64 / 16_000.0).sin()
}

/// A click at sample `at` of a frame.
fn click(at: usize, n: usize) -> f64 {
    if n == at { 32_767.0 } else { 0.0 }
}

/// Sounds without noise leave bands almost empty, where f32 cannot tell power from rounding: see the documentation. Such
/// a band must only be as quiet as those rounding errors.
#[test]
fn errors_are_below_the_loudest_band() {
    type Sound = fn(usize) -> f64;
    let most = [0.002, 0.05];
    // The loudest part is in no band, or the window all but removes it.
    let hidden = [0.01, 0.3];
    let sounds: [(&str, [f64; 2], Sound); 14] = [
        ("constant", most, |_| 16_000.0),
        ("square wave", most, |n| if n / 32 % 2 == 0 { 16_000.0 } else { -16_000.0 }),
        ("tone of 64 periods", most, |n| tone(1000.0, 32_767.0, n)),
        ("tone of 64.37 periods", most, |n| tone(1005.78125, 32_767.0, n)),
        ("ramp", most, |n| 16.0 * n as f64),
        ("tone of 7862 Hz", most, |n| tone(7862.3, 1564.0, n)),
        ("two tones, the louder of 7862 Hz", most, |n| tone(7862.3, 3050.0, n) + tone(282.9, 8.0, n)),
        ("click in the middle", most, |n| click(500, n)),
        ("click at 1018", most, |n| click(1018, n)),
        ("click at 1022", hidden, |n| click(1022, n)),
        ("click at 1023", hidden, |n| click(1023, n)),
        ("quiet tone of 7992 Hz", hidden, |n| tone(7992.0, 25.0, n)),
        ("tone of 7990 Hz", hidden, |n| tone(7990.0, 3000.0, n)),
        ("two tones, the louder of 7988 Hz", hidden, |n| tone(7988.0, 6399.0, n) + tone(7739.8, 6.3, n)),
    ];
    for (name, bounds, sound) in sounds {
        let samples: [i16; 2 * HOP] = std::array::from_fn(|n| sound(n).round() as i16);
        let mut log_mel = LogMel::new();
        let (hops, _) = samples.as_chunks();
        assert!(log_mel.push_i16(&hops[0]).is_none());
        let found = *log_mel.push_i16(&hops[1]).unwrap();
        let expected = in_f64(&samples);
        let loudest = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // The largest error of the bands that are less than 60 dB below the loudest, then 90 dB, then of the others.
        let mut errors = [0.0f64; 3];
        for (&found, &expected) in found.iter().zip(&expected) {
            let (found, below) = (f64::from(found), loudest - expected);
            let error = &mut errors[usize::from(below >= 60.0) + usize::from(below >= 90.0)];
            *error = error.max((found - expected).abs());
            assert!(below < 90.0 || found < loudest - 89.0, "{name}: {found} dB, where {loudest} dB is loudest");
        }
        println!("{name}: {errors:.6?} dB");
        assert!(errors[0] < bounds[0] && errors[1] < bounds[1], "{name}: {errors:?}");
    }
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
