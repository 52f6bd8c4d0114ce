//! Tests of batches, of turns, and of models that fail or hang.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};

use nae_core::calibration::Calibration;
use nae_core::contract::Contract;
use nae_infer::backend::{Backend, BackendError, Reconstructions};
use nae_infer::card::ScoringSettings;
use nae_infer::{BackendKind, Detector, Shape};
use nae_onnx::metadata::Tiles;

use super::super::day_night::Condition;
use super::super::regions::Regions;
use super::waiting::WAITING_BYTES;
use super::*;

/// Reconstructs zeros; hangs on an image that begins with 2, fails on 3, takes some time on 4, 5 or 7, and on 6 waits
/// for the gate.
#[derive(Default)]
struct Moody {
    hanging: Arc<AtomicUsize>,
    gate: Arc<Mutex<()>>,
}

impl Backend for Moody {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        for image in batch.chunks(4) {
            match image[0] {
                2.0 => {
                    self.hanging.fetch_add(1, Ordering::Relaxed);
                    loop {
                        thread::park();
                    }
                }
                3.0 => return Err(BackendError::Run { backend: self.kind(), reason: "moody".into() }),
                4.0 => thread::sleep(Duration::from_millis(1)),
                5.0 => thread::sleep(3 * LONG),
                7.0 => thread::sleep(Duration::from_millis(50)),
                6.0 => drop(self.gate.lock().unwrap()),
                _ => {}
            }
        }
        Ok(Reconstructions { images: vec![0.0; batch.len()], ..Reconstructions::default() })
    }
}

fn moody() -> Arc<Current> {
    current(Moody::default(), None)
}

fn current(backend: Moody, tiles: Option<Tiles>) -> Arc<Current> {
    let calibration = Calibration::from_energies(&mut [0.5; 99]).unwrap();
    let contract = Contract::new(Shape::new(1, 2, 2)).with_calibration(calibration, 0.01).unwrap();
    let mut settings = ScoringSettings::new(contract);
    settings.tiles = tiles;
    let detector = Detector::with_backend(settings, Arc::new(backend));
    let model =
        Model { detector, card: Vec::new(), digest: String::new(), condition: Condition::Day, bytes: Arc::default() };
    Arc::new(Current::from_pointee(model))
}

/// Starts lanes with this model and this time limit.
fn start(lanes: usize, threads: usize, timeout: Duration) -> (Scorer, Vec<Lane>) {
    start_with(&moody(), lanes, threads, timeout)
}

fn start_with(model: &Arc<Current>, lanes: usize, threads: usize, timeout: Duration) -> (Scorer, Vec<Lane>) {
    let lane = |_| LaneSettings { camera: CameraName::default(), model: Arc::clone(model), timeout };
    Scorer::start((0..lanes).map(lane).collect(), threads).unwrap()
}

fn submit(lane: &Lane, first: f32) -> Receiver<Result<f32, Failure>> {
    let (sender, receiver) = channel();
    lane.submit(Input::Prepared(vec![first, 0.0, 0.0, 0.0]), move |answer| {
        let _ = sender.send(answer.map(|a| a.scored.energy));
    });
    receiver
}

/// Submits the image of a request.
fn request(lane: &Lane, client: &Arc<()>, first: f32) -> Receiver<Result<f32, Failure>> {
    let (sender, receiver) = channel();
    lane.request(Input::Prepared(vec![first, 0.0, 0.0, 0.0]), Arc::downgrade(client), move |answer| {
        let _ = sender.send(answer.map(|a| a.scored.energy));
    });
    receiver
}

/// Much longer than any operation here takes that does not hang.
const LATER: Duration = Duration::from_secs(20);

#[test]
fn one_bad_image_does_not_spoil_a_batch() {
    let gate = Arc::new(Mutex::new(()));
    let model = current(Moody { gate: Arc::clone(&gate), ..Moody::default() }, None);
    let (_scorer, lanes) = start_with(&model, 1, 1, Duration::from_secs(60));
    let closed = gate.lock().unwrap();
    let client = Arc::new(());
    drop(submit(&lanes[0], 6.0));
    // The time that the second image takes decides that all others are one batch.
    let answers: Vec<_> = [0.0, 1.0, 3.0, 0.5, f32::NAN, 0.0].map(|v| request(&lanes[0], &client, v)).into();
    drop(closed);
    let answers = &answers[1..];
    let answers: Vec<_> = answers.iter().map(|a| a.recv().unwrap()).collect();
    assert_eq!((&answers[0], &answers[2], &answers[4]), (&Ok(0.25), &Ok(0.0625), &Ok(0.0)));
    assert!(matches!(answers[1], Err(Failure::Score(ScoreError::Backend(_)))));
    assert!(matches!(answers[3], Err(Failure::Score(ScoreError::Energy(_)))));
    assert!([1, 3].iter().all(|&at| answers[at].as_ref().unwrap_err().is_of_model()));
}

/// A camera that gives a picture that is too small does not cause a rollback of a model that was just exchanged.
#[test]
fn a_picture_smaller_than_a_tile_is_no_failure_of_the_model() {
    let model = current(Moody::default(), Some(Tiles { stride: 1, top_k: 1 }));
    let (_scorer, lanes) = start_with(&model, 1, 1, Duration::from_secs(60));
    let (sender, receiver) = channel();
    let image = Input::Image(b"P5 1 3 255\n\xFF\0\0".as_slice().into(), None);
    lanes[0].submit(image, move |answer| sender.send(answer.map(|a| a.scored)).unwrap());
    let failure = receiver.recv().unwrap().unwrap_err();
    assert!(matches!(failure, Failure::Prepare(_)) && !failure.is_of_model(), "{failure}");
    assert!(!Failure::from(ScoreError::NoTile).is_of_model(), "nor is one of which the regions leave no tile");
}

#[test]
fn an_image_is_cut_into_the_models_tiles() {
    let model = current(Moody::default(), Some(Tiles { stride: 1, top_k: 1 }));
    let (_scorer, lanes) = start_with(&model, 1, 1, Duration::from_secs(60));
    let (sender, receiver) = channel();
    // One white pixel in a corner of nine: in a tile that contains it, a quarter of the pixels is wrong.
    let image = b"P5 3 3 255\n\xFF\0\0\0\0\0\0\0\0".as_slice();
    lanes[0].submit(Input::Image(image.into(), None), move |answer| sender.send(answer.map(|a| a.scored)).unwrap());
    let scored = receiver.recv().unwrap().unwrap();
    assert_eq!((scored.energy, scored.error_map_shape), (0.25, Shape::new(1, 3, 3)));
}

/// Tests an image in tiles, and a whole image, of which regions leave a part.
#[test]
fn what_regions_hide_has_no_part_in_the_score() {
    let right = r#"[{"kind": "ignore", "vertices": [[0.5, 0], [1, 0], [1, 1], [0.5, 1]]}]"#;
    let regions = Applied::new(Regions::from_json(right).unwrap());
    let image = |left: u8, right: u8| -> axum::body::Bytes {
        let row = [left, left, right, right];
        [b"P5 4 2 255\n".as_slice(), &row, &row].concat().into()
    };
    let score = |tiles: Option<Tiles>, image| {
        let (_scorer, lanes) = start_with(&current(Moody::default(), tiles), 1, 1, Duration::from_secs(60));
        let (sender, receiver) = channel();
        lanes[0].submit(Input::Image(image, Some(Arc::clone(&regions))), move |answer| {
            sender.send(answer.map(|a| (a.scored, a.view.is_some()))).unwrap();
        });
        receiver.recv().unwrap().unwrap()
    };
    let tiles = Some(Tiles { stride: 2, top_k: 1 });
    // The fill alone has a quarter of the energy of white. No tile has it, since the one on the right is not scored.
    let (scored, is_part) = score(tiles, image(0, 255));
    assert_eq!((scored.energy, is_part), (0.0, true));
    assert_eq!(scored.error_map, [0.0; 8]);
    let energy = score(tiles, image(51, 255)).0.energy;
    assert_eq!(energy.to_bits(), score(tiles, image(51, 0)).0.energy.to_bits());
    assert!((energy - 0.04).abs() < 1e-6, "{energy}");
    let whole = [image(51, 255), image(51, 0), image(51, 130)].map(|image| score(None, image).0.energy.to_bits());
    assert!(whole.iter().all(|energy| *energy == whole[0]) && f32::from_bits(whole[0]) > 0.04, "{whole:?}");
}

#[test]
fn a_backend_that_hangs_loses_its_thread_and_no_more() {
    let (scorer, lanes) = start(1, 1, Duration::from_millis(200));
    let hung = submit(&lanes[0], 2.0);
    let after = submit(&lanes[0], 1.0);
    // Either it was in the same batch and is lost with it, or the next thread answers it.
    let _ = after.recv_timeout(LATER);
    let later = submit(&lanes[0], 1.0);
    assert_eq!(later.recv_timeout(LATER), Ok(Ok(0.25)));
    assert_eq!((lanes[0].stuck(), scorer.is_working()), (1, true));
    assert_eq!(hung.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout), "it still hangs");
}

#[test]
fn what_hangs_again_and_again_is_not_served_for_ever() {
    let (scorer, lanes) = start(1, 1, Duration::from_millis(100));
    let mut hung = Vec::new();
    while scorer.is_working() {
        hung.push(submit(&lanes[0], 2.0));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lanes[0].stuck(), STUCK_FOR_EACH + 1);
    assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Err(Failure::GivenUp)));
}

/// A client with images that take long to decode could have the model of a camera without frames given up.
#[test]
fn the_preparation_of_requests_says_nothing_of_the_model() {
    let timeout = Duration::from_secs(60);
    let (scorer, lanes) = start(1, 1, timeout);
    let overdue = |step: Step| {
        for _ in 0..3 * STUCK_FOR_EACH {
            let since = Instant::now().checked_sub(timeout).unwrap();
            let mut state = scorer.shared.lock();
            state.places[0].task = Some(Task { lane: 0, since, step: Step { since, ..step } });
            state.lanes[0].busy += 1;
            drop(state);
            Shared::look(&scorer.shared);
        }
    };
    overdue(Step::preparation(true));
    assert_eq!((lanes[0].stuck(), lanes[0].is_working()), (3 * STUCK_FOR_EACH, true));
    assert_eq!(scorer.shared.lock().still_decoding(0), 3 * STUCK_FOR_EACH);
    overdue(Step::preparation(false));
    assert!(!lanes[0].is_working());
    lanes[0].reopen();
    overdue(Step::network(1));
    assert!(!lanes[0].is_working());
}

/// Otherwise each slow image of a client would take another thread and the memory of its pixels.
#[test]
fn no_image_of_a_request_is_begun_while_lost_threads_still_decode_as_many() {
    let (scorer, lanes) = start(1, 2, LATER);
    let client = Arc::new(());
    let answer = || request(&lanes[0], &client, 1.0).recv_timeout(LATER);
    for (decoding, expected) in [(1, Ok(0.25)), (2, Err(Failure::Busy)), (0, Ok(0.25))] {
        scorer.shared.lock().decoding = (0..decoding).map(|thread| (1000 + thread, 0)).collect();
        assert_eq!(answer(), Ok(expected));
        assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Ok(0.25)));
    }
}

/// As with a model that hangs now and then over a year.
#[test]
fn what_hangs_once_in_a_while_is_served_for_ever() {
    let (scorer, lanes) = start(1, 1, Duration::from_millis(100));
    for hung in 1..=2 * STUCK_FOR_EACH + 1 {
        drop(submit(&lanes[0], 2.0));
        let end = Instant::now() + LATER;
        while lanes[0].stuck() < hung {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Ok(0.25)), "after {hung}");
        // The answer is sent before the batch ends.
        while scorer.shared.lock().lanes[0].stuck_of_model > 0 {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// An image that no model can score does not count for this one.
#[test]
fn what_is_refused_between_hangs_does_not_count() {
    let (scorer, lanes) = start(1, 1, Duration::from_millis(100));
    let end = Instant::now() + LATER;
    while scorer.is_working() {
        assert!(Instant::now() < end);
        drop((submit(&lanes[0], 2.0), submit(&lanes[0], f32::NAN)));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lanes[0].stuck(), STUCK_FOR_EACH + 1);
}

/// Twenty images of 50 ms in one call, with a limit of 400 ms for one.
#[test]
fn each_image_of_a_batch_has_the_time_of_one() {
    for lanes in [1, 2] {
        let gate = Arc::new(Mutex::new(()));
        let model = current(Moody { gate: Arc::clone(&gate), ..Moody::default() }, None);
        let (_scorer, lanes) = start_with(&model, lanes, 1, Duration::from_millis(400));
        let closed = gate.lock().unwrap();
        let client = Arc::new(());
        drop(submit(&lanes[0], 6.0));
        // The second is scored at once, so that the others are one batch.
        let first = request(&lanes[0], &client, 1.0);
        let slow: Vec<_> = (0..20).map(|_| request(&lanes[0], &client, 7.0)).collect();
        drop(closed);
        assert_eq!(first.recv_timeout(LATER), Ok(Ok(0.25)));
        assert!(slow.iter().all(|answer| answer.recv_timeout(LATER) == Ok(Ok(12.25))));
        assert_eq!(lanes[0].stuck(), 0);
    }
}

#[test]
fn what_waits_is_done_before_the_end() {
    let (scorer, lanes) = start(2, 2, Duration::from_secs(60));
    let answers: Vec<_> = (0..100).map(|i| submit(&lanes[i % 2], 1.0)).collect();
    scorer.stop();
    assert!(answers.iter().all(|a| a.recv().unwrap() == Ok(0.25)));
    assert_eq!(submit(&lanes[0], 1.0).recv().unwrap(), Err(Failure::Stopping));
}

/// Also if a job waits for a batch of its own lane while other threads have nothing to start.
#[test]
fn what_waits_in_one_of_several_lanes_is_done_before_the_end() {
    let (scorer, lanes) = start(2, 2, Duration::from_secs(60));
    let answers: Vec<_> = (0..10 * BATCH).map(|_| submit(&lanes[0], 4.0)).collect();
    scorer.stop();
    assert!(answers.iter().all(|a| a.recv_timeout(LATER) == Ok(Ok(4.0))));
    // Every thread ends.
    let end = Instant::now() + LATER;
    while scorer.shared.lock().places.iter().any(|place| place.thread.is_some()) {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Each has its own backend, as with two files.
#[test]
fn each_lane_is_scored_by_its_own_model() {
    struct Grey(f32);
    impl Backend for Grey {
        fn kind(&self) -> BackendKind {
            BackendKind::Native
        }
        fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
            Ok(Reconstructions { images: vec![self.0; batch.len()], ..Reconstructions::default() })
        }
    }
    let lane = |grey| {
        let settings = ScoringSettings::new(Contract::new(Shape::new(1, 2, 2)));
        let detector = Detector::with_backend(settings, Arc::new(Grey(grey)));
        let model = Model {
            detector,
            card: Vec::new(),
            digest: grey.to_string(),
            condition: Condition::Day,
            bytes: Arc::default(),
        };
        let model = Arc::new(Current::from_pointee(model));
        LaneSettings { camera: CameraName::default(), model, timeout: Duration::from_secs(60) }
    };
    let (_scorer, lanes) = Scorer::start([0.0, 0.5, 1.0].map(lane).into(), 2).unwrap();
    let answers: Vec<_> = (0..300).map(|i| submit(&lanes[i % 3], 1.0)).collect();
    for (i, answer) in answers.iter().enumerate() {
        // Three pixels are 0, one is 1.
        assert_eq!(answer.recv_timeout(LATER), Ok(Ok([0.25, 0.25, 0.75][i % 3])), "{i}");
    }
}

/// Many images of one camera precede the only one of another, which is still scored within two batches.
#[test]
fn lanes_take_turns() {
    let gate = Arc::new(Mutex::new(()));
    let model = current(Moody { gate: Arc::clone(&gate), ..Moody::default() }, None);
    let (_scorer, lanes) = start_with(&model, 2, 1, Duration::from_secs(60));
    let (sender, scored) = channel();
    let submit = |lane: usize, first: f32| {
        let sender = sender.clone();
        lanes[lane].submit(Input::Prepared(vec![first, 0.0, 0.0, 0.0]), move |answer| {
            sender.send((lane, answer.map(|a| a.scored.energy))).unwrap();
        });
    };
    // All jobs wait before the first is done.
    let closed = gate.lock().unwrap();
    submit(0, 6.0);
    (1..20 * BATCH).for_each(|_| submit(0, 1.0));
    submit(1, 1.0);
    drop(closed);
    let answers: Vec<_> = (0..20 * BATCH + 1).map(|_| scored.recv_timeout(LATER).unwrap()).collect();
    assert_eq!(answers[0], (0, Ok(9.0)));
    assert!(answers[1..].iter().all(|(_, answer)| *answer == Ok(0.25)));
    let before = answers.iter().position(|(lane, _)| *lane == 1).unwrap();
    assert!(before <= 2 * BATCH, "{before} of the other lane were before it");
}

/// A client with scoring requests delays the camera by at most the current batch; and a request whose client has
/// disconnected is not scored.
#[test]
fn frames_go_before_requests_and_requests_only_where_they_are_waited_for() {
    let gate = Arc::new(Mutex::new(()));
    let model = current(Moody { gate: Arc::clone(&gate), ..Moody::default() }, None);
    let (_scorer, lanes) = start_with(&model, 1, 1, Duration::from_secs(60));
    let lane = &lanes[0];
    let (sender, scored) = channel();
    let request = |client: &Arc<()>, number: usize| {
        let sender = sender.clone();
        lane.request(Input::Prepared(vec![1.0; 4]), Arc::downgrade(client), move |_| sender.send(number).unwrap());
    };
    let (stays, goes) = (Arc::new(()), Arc::new(()));
    let closed = gate.lock().unwrap();
    drop(submit(lane, 6.0));
    while lane.waiting() > 0 {
        thread::yield_now();
    }
    for number in 0..2 * BATCH {
        request(if number % 2 == 0 { &stays } else { &goes }, number);
    }
    let sender = sender.clone();
    lane.submit(Input::Prepared(vec![1.0; 4]), move |_| sender.send(usize::MAX).unwrap());
    drop(goes);
    drop(closed);
    let order: Vec<usize> = (0..=BATCH).map(|_| scored.recv_timeout(LATER).unwrap()).collect();
    assert_eq!(order[0], usize::MAX);
    assert!(order[1..].iter().copied().eq((0..2 * BATCH).step_by(2)), "{order:?}");
    // The last job counts as waiting until its closure has returned, after the receipt of its number.
    let deadline = Instant::now() + LATER;
    while lane.waiting() > 0 && Instant::now() < deadline {
        thread::yield_now();
    }
    assert_eq!((lane.waiting(), scored.try_recv()), (0, Err(TryRecvError::Empty)));
}

/// Twenty images of 50 ms wait when the frame comes. With a limit for each image alone, they took a second together.
#[test]
fn a_frame_goes_before_the_next_of_many_slow_images() {
    let (_scorer, lanes) = start(1, 1, LATER);
    let client = Arc::new(());
    let slow: Vec<_> = (0..20).map(|_| request(&lanes[0], &client, 7.0)).collect();
    assert_eq!(slow[0].recv_timeout(LATER), Ok(Ok(12.25)));
    assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Ok(0.25)));
    let before = slow[1..].iter().filter(|answer| answer.try_recv().is_ok()).count();
    assert!(before < 10, "{before} images were scored before the frame");
    assert!(slow[19].recv_timeout(LATER).is_ok());
}

/// The first image is scored for 1.5 seconds.
#[test]
fn an_image_whose_client_goes_while_others_are_scored_is_not_scored() {
    let (_scorer, lanes) = start(1, 1, LATER);
    let (stays, goes) = (Arc::new(()), Arc::new(()));
    let first = request(&lanes[0], &stays, 5.0);
    let gone: Vec<_> = (0..10).map(|_| request(&lanes[0], &goes, 1.0)).collect();
    let last = request(&lanes[0], &stays, 1.0);
    thread::sleep(Duration::from_millis(100));
    drop(goes);
    assert_eq!((first.recv_timeout(LATER), last.recv_timeout(LATER)), (Ok(Ok(6.25)), Ok(Ok(0.25))));
    assert!(gone.iter().all(|answer| answer.recv_timeout(LATER) == Err(RecvTimeoutError::Disconnected)));
}

/// Its scoring says nothing of the model, and would be too late.
#[test]
fn a_frame_that_was_withdrawn_before_its_turn_is_not_scored() {
    let gate = Arc::new(Mutex::new(()));
    let model = current(Moody { gate: Arc::clone(&gate), ..Moody::default() }, None);
    let (_scorer, lanes) = start_with(&model, 1, 1, LATER);
    let closed = gate.lock().unwrap();
    drop(submit(&lanes[0], 6.0));
    while lanes[0].waiting() > 0 {
        thread::yield_now();
    }
    let (sender, answer) = channel();
    let turn = lanes[0].submit(Input::Prepared(vec![1.0; 4]), move |_| sender.send(()).unwrap());
    assert_eq!(turn.wait(&answer, Duration::from_millis(10)), Err(NoAnswer::NotBegun));
    drop(closed);
    assert_eq!(answer.recv_timeout(LATER), Err(RecvTimeoutError::Disconnected));
    assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Ok(0.25)));
}

/// A lane accepts a limited number of bytes of requests, or one larger request.
#[test]
fn requests_that_wait_are_bounded_by_their_bytes() {
    let gate = Arc::new(Mutex::new(()));
    let model = current(Moody { gate: Arc::clone(&gate), ..Moody::default() }, None);
    let (_scorer, lanes) = start_with(&model, 1, 1, Duration::from_secs(60));
    let hold = || {
        let closed = gate.lock().unwrap();
        drop(submit(&lanes[0], 6.0));
        while lanes[0].waiting() > 0 {
            thread::yield_now();
        }
        closed
    };
    let closed = hold();
    let client = Arc::new(());
    let request = |bytes: usize| {
        let (sender, receiver) = channel();
        let image = Bytes::from(vec![0; bytes]);
        lanes[0].request(Input::Image(image, None), Arc::downgrade(&client), move |answer| {
            sender.send(answer.err()).unwrap();
        });
        receiver
    };
    let large = request(WAITING_BYTES + 1);
    assert_eq!(request(1).recv_timeout(LATER), Ok(Some(Failure::Busy)));
    drop(closed);
    assert!(matches!(large.recv_timeout(LATER), Ok(Some(Failure::Decode(_)))));
    // There is room again, for more than one.
    let closed = hold();
    let small = [request(1), request(1)];
    drop(closed);
    for one in small {
        assert!(matches!(one.recv_timeout(LATER), Ok(Some(Failure::Decode(_)))));
    }
}

/// With one thread per lane and with one for all, and with two of three lanes hanging at once.
#[test]
fn a_lane_that_hangs_does_not_stop_the_others() {
    for (threads, hanging) in [(1, 1), (2, 1), (2, 2), (4, 2)] {
        let hung_calls = Arc::new(AtomicUsize::new(0));
        let model = current(Moody { hanging: Arc::clone(&hung_calls), ..Moody::default() }, None);
        // None of the threads is given up in this time.
        let (_scorer, lanes) = start_with(&model, 3, threads, Duration::from_secs(600));
        let mut hung = Vec::new();
        for _ in 0..3 {
            for lane in &lanes[..hanging] {
                hung.extend((0..BATCH).map(|_| submit(lane, 2.0)));
            }
            for lane in &lanes[hanging..] {
                assert_eq!(submit(lane, 1.0).recv_timeout(LATER), Ok(Ok(0.25)), "{threads} threads, {hanging} hang");
            }
        }
        // A lane uses at most one thread less than there are, and no further batch is started while one takes long.
        thread::sleep(4 * LONG);
        let most = hanging * (threads - 1).max(1);
        let calls = hung_calls.load(Ordering::Relaxed);
        assert!((hanging..=most).contains(&calls), "{threads} threads, {hanging} hang: {calls} calls");
        assert!(lanes[..hanging].iter().all(|lane| lane.waiting() > 0));
    }
}

#[test]
fn a_batch_that_takes_long_is_answered_and_its_lane_goes_on() {
    let (_scorer, lanes) = start(2, 1, Duration::from_secs(600));
    let long = submit(&lanes[0], 5.0);
    thread::sleep(Duration::from_millis(20));
    let next = submit(&lanes[0], 1.0);
    assert_eq!(submit(&lanes[1], 1.0).recv_timeout(LATER), Ok(Ok(0.25)));
    assert_eq!(long.try_recv(), Err(TryRecvError::Empty), "the other lane did not wait for it");
    assert_eq!(long.recv_timeout(LATER), Ok(Ok(6.25)));
    assert_eq!(next.recv_timeout(LATER), Ok(Ok(0.25)));
    assert_eq!(lanes[0].stuck(), 0);
}

#[test]
fn a_lane_that_is_given_up_is_no_other_lanes_end_and_another_model_is_tried() {
    let (scorer, lanes) = start(2, 2, Duration::from_millis(100));
    let mut hung = Vec::new();
    while lanes[0].is_working() {
        hung.push(submit(&lanes[0], 2.0));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Err(Failure::GivenUp)));
    assert_eq!((submit(&lanes[1], 1.0).recv_timeout(LATER), scorer.is_working()), (Ok(Ok(0.25)), true));
    assert_eq!((lanes[0].stuck(), lanes[1].stuck()), (2 * STUCK_FOR_EACH + 1, 0));
    lanes[0].reopen();
    assert_eq!(submit(&lanes[0], 1.0).recv_timeout(LATER), Ok(Ok(0.25)));
}
