//! Tests which pixels polygons contain, what they leave of a frame, and what is stored.
//! `nae-infer/cli/tests/service/regions.rs` tests by HTTP that scoring, learning and the page follow.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use nae_infer::Shape;
use serde_json::json;

use super::list::Kind;
use super::polygon::Polygon;
use super::*;

fn regions(text: &serde_json::Value) -> Regions {
    Regions::from_json(&text.to_string()).unwrap()
}

fn rectangle([left, top, right, bottom]: [f64; 4]) -> serde_json::Value {
    json!([[left, top], [right, top], [right, bottom], [left, bottom]])
}

/// The pixels of a frame of columns × rows that are in a polygon, row by row.
fn filled(polygon: &Polygon, frame: (usize, usize)) -> Vec<bool> {
    let mut pixels = vec![false; frame.0 * frame.1];
    for row in 0..frame.1 {
        for range in polygon.row(row, frame) {
            pixels[row * frame.0..][range].iter_mut().for_each(|pixel| {
                assert!(!*pixel, "a pixel is in one range of its row");
                *pixel = true;
            });
        }
    }
    pixels
}

/// Whether a pixel's centre is in a polygon of vertices in fractions of `whole`: a ray to the right crosses an odd
/// number of edges (W. R. Franklin's PNPOLY), in integers.
fn is_inside(vertices: &[[i128; 2]], whole: i128, (width, height): (usize, usize), column: usize, row: usize) -> bool {
    let (width, height) = (width as i128, height as i128);
    // In units of 1 / (2·whole·width) and 1 / (2·whole·height).
    let (x, y) = ((2 * column as i128 + 1) * whole, (2 * row as i128 + 1) * whole);
    let place = |vertex: [i128; 2]| (2 * width * vertex[0], 2 * height * vertex[1]);
    let mut inside = false;
    for (i, vertex) in vertices.iter().enumerate() {
        let ((ax, ay), (bx, by)) = (place(*vertex), place(vertices[(i + 1) % vertices.len()]));
        if (ay > y) != (by > y) {
            let left_of_the_edge = (x - ax) * (by - ay) - (bx - ax) * (y - ay);
            inside ^= if by > ay { left_of_the_edge < 0 } else { left_of_the_edge > 0 };
        }
    }
    inside
}

fn assert_filled(vertices: &[[i128; 2]], whole: i128, frame: (usize, usize)) -> bool {
    let shares: Vec<[f64; 2]> = vertices.iter().map(|v| v.map(|part| part as f64 / whole as f64)).collect();
    // Invalid polygons are tested elsewhere.
    let Ok(polygon) = Polygon::new(&shares) else { return false };
    for (at, pixel) in filled(&polygon, frame).into_iter().enumerate() {
        let (column, row) = (at % frame.0, at / frame.0);
        let expected = is_inside(vertices, whole, frame, column, row);
        assert_eq!(pixel, expected, "({column}, {row}) of {frame:?} in {vertices:?} / {whole}");
    }
    true
}

/// All triangles on a grid; many have edges through the centres of pixels.
#[test]
fn triangles_hold_the_pixels_whose_centres_are_in_them() {
    let points: Vec<[i128; 2]> = (0..25).map(|i| [i % 5, i / 5]).collect();
    let mut tried = 0;
    for a in &points {
        for b in &points {
            for c in &points {
                for frame in [(4, 4), (5, 6), (2, 9)] {
                    tried += usize::from(assert_filled(&[*a, *b, *c], 4, frame));
                }
            }
        }
    }
    // On a grid of 5 × 5, 2,148 triples of points are not on a line, in six orders each.
    assert_eq!(tried, 3 * 6 * 2148);
}

/// Stars with vertices near and far from a centre: their edges do not cross.
#[test]
fn polygons_of_many_vertices_hold_the_pixels_whose_centres_are_in_them() {
    let mut seed = 1_u64;
    let mut drawn = |below: i128| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i128::from(seed >> 33) % below
    };
    let mut tried = 0;
    for round in 0..200 {
        let count = 3 + drawn(62) as usize;
        let vertices: Vec<[i128; 2]> = (0..count)
            .map(|i| {
                let (sin, cos) = (i as f64 / count as f64 * std::f64::consts::TAU).sin_cos();
                let radius = 50_000 + drawn(450_000);
                [cos, sin].map(|side| 500_000 + (side * radius as f64) as i128)
            })
            .collect();
        let frame = (1 + drawn(90) as usize, 1 + drawn(60) as usize);
        tried += usize::from(assert_filled(&vertices, 1_000_000, frame));
        if round % 2 == 0 {
            let back: Vec<_> = vertices.iter().rev().copied().collect();
            assert_filled(&back, 1_000_000, frame);
        }
    }
    assert!(tried > 150, "{tried}");
}

/// The halves of a square along its diagonal: of n rows, the first half has n − 1, n − 2, … pixels, and the second,
/// which includes the centres on the edge, n, n − 1, …
#[test]
fn two_halves_are_the_whole_and_nothing_twice() {
    for n in [1, 2, 7, 100] {
        let half = |corner: [f64; 2]| filled(&Polygon::new(&[[1.0, 0.0], [0.0, 1.0], corner]).unwrap(), (n, n));
        let (first, second) = (half([0.0, 0.0]), half([1.0, 1.0]));
        let count = |pixels: &[bool]| pixels.iter().filter(|pixel| **pixel).count();
        assert_eq!((count(&first), count(&second)), (n * (n - 1) / 2, n * (n + 1) / 2));
        assert!(first.iter().zip(&second).all(|(a, b)| a != b));
    }
    // A rectangle of 0.25 to 0.5 of 8 columns, and 0.5 to 1 of 4 rows.
    let pixels = filled(&Polygon::new(&[[0.25, 0.5], [0.5, 0.5], [0.5, 1.0], [0.25, 1.0]]).unwrap(), (8, 4));
    let expected: Vec<bool> = (0..32).map(|at| (2..4).contains(&(at % 8)) && at / 8 >= 2).collect();
    assert_eq!(pixels, expected);
}

#[test]
fn what_is_no_region_is_refused_with_its_number_and_what_to_do() {
    let of = |vertices: serde_json::Value| json!([{"kind": "ignore", "name": "door", "vertices": vertices}]);
    let many = |count: usize| -> serde_json::Value {
        let angle = |i: usize| i as f64 / count as f64 * std::f64::consts::TAU;
        (0..count).map(|i| json!([0.5 + 0.4 * angle(i).cos(), 0.5 + 0.4 * angle(i).sin()])).collect()
    };
    Regions::from_json(&of(many(64)).to_string()).unwrap();
    let good = json!({"kind": "include", "vertices": many(3)});
    for (text, part) in [
        (of(many(65)), "region 1 (`door`): expected 3 to 64 vertices, found 65"),
        (of(json!([[0, 0], [1, 1]])), "expected 3 to 64 vertices, found 2"),
        (json!([good, {"kind": "ignore", "vertices": []}]), "region 2: expected 3 to 64 vertices, found 0"),
        (
            of(json!([[0, 0], [1.000_001, 0], [1, 1]])),
            "vertex 2: expected two numbers from 0 to 1, shares of the picture's",
        ),
        (of(json!([[0, 0], [1, -1e300], [1, 1]])), "vertex 2: expected two numbers from 0 to 1"),
        (of(json!([[0, 0], [1, null], [1, 1]])), "expected regions such as"),
        (of(json!([[0, 0], [1, 0], [1]])), "expected regions such as"),
        (of(json!([[0, 0], [1, 0], [1, 0, 0]])), "expected regions such as"),
        (of(json!([[0, 0], [0.5, 0.5], [1, 1]])), "turns back on itself"),
        (of(json!([[0, 0], [1, 0], [1, 0], [1, 1]])), "vertices 2 and 3 are at the same place"),
        (of(json!([[0, 0], [1, 0], [1, 1], [0, 0]])), "vertices 4 and 1 are at the same place"),
        (of(json!([[0, 0], [1e-7, 0], [1, 1]])), "vertices 1 and 2 are at the same place"),
        (of(json!([[0, 0], [1, 1], [1, 0], [0, 1]])), "edges from vertex 1 to 2 and from 3 to 4 cross or touch"),
        (of(json!([[0, 0], [1, 0], [1, 1], [0.5, 0]])), "edges from vertex 1 to 2 and from 3 to 4 cross or touch"),
        (of(json!([[0, 0], [1, 0], [0.5, 0.5], [1, 1], [0, 1], [0.5, 0.5]])), "cross or touch"),
        (of(json!([[0, 0], [1, 0], [0.5, 0], [0.5, 1]])), "at vertex 2 it turns back on itself"),
        (
            of(json!([[0, 0], [0.004, 0], [0.004, 0.004]])),
            "expected an area of at least 0.00001 of the picture, found 8.0e-6",
        ),
        (json!([{"kind": "mask", "vertices": many(3)}]), "`mask`"),
        (json!([{"kind": "ignore", "vertices": many(3), "colour": 1}]), "unknown field `colour`"),
        (json!([{"kind": "ignore", "vertices": many(3), "name": ""}]), "region 1: `name`: expected 1 to 64 characters"),
        (json!([{"kind": "ignore", "vertices": many(3), "name": "a\nb"}]), "without control characters"),
        (json!([{"kind": "ignore", "vertices": many(3), "name": "x".repeat(65)}]), "expected 1 to 64 characters"),
        (json!({}), "expected regions such as"),
        (vec![good.clone(); 33].into(), "expected at most 32 regions, found 33"),
    ] {
        let error = Regions::from_json(&text.to_string()).unwrap_err();
        assert!(error.contains(part), "expected {part} in\n{error}");
    }
    Regions::from_json(&serde_json::Value::from(vec![good; 32]).to_string()).unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [
        "",
        "[{\"kind\": \"ignore\", \"vertices\": [[0, 1e999]]}]",
        "[{\"kind\": \"ignore\", \"vertices\": [[NaN]]}]",
        &deep,
    ] {
        Regions::from_json(text).unwrap_err();
    }
}

/// Only programs can give values that are not numbers, JSON cannot.
#[test]
fn no_number_that_is_none_is_a_vertex() {
    for wrong in [f64::NAN, f64::INFINITY, -f64::INFINITY, -1e-300, 1.0 + f64::EPSILON] {
        Polygon::new(&[[0.0, 0.0], [1.0, wrong], [1.0, 1.0]]).unwrap_err();
    }
}

/// A different grey for each pixel, in each channel.
fn picture(channels: usize, width: usize, height: usize) -> Pixels {
    let values = (0..channels * width * height).map(|at| (at % 251) as f32 / 255.0).collect();
    Pixels { shape: Shape::new(channels, height, width), values }
}

#[test]
fn a_frame_is_cut_to_what_is_included_and_grey_where_it_is_not_seen() {
    let wanted = regions(&json!([
        {"kind": "include", "vertices": rectangle([0.25, 0.25, 0.5, 0.75])},
        {"kind": "include", "vertices": rectangle([0.5, 0.5, 0.75, 1.0])},
        {"kind": "ignore", "vertices": rectangle([0.0, 0.5, 0.375, 0.625])},
    ]));
    for channels in [1, 3] {
        let frame = picture(channels, 8, 8);
        let seen = Applied::new(wanted.clone()).look(frame.clone()).unwrap();
        assert_eq!(seen.pixels().shape, Shape::new(channels, 6, 4));
        let view = seen.view.as_ref().unwrap();
        assert_eq!(view.place(), [0.25, 0.25, 0.5, 0.75]);
        for (at, value) in seen.pixels().values.iter().enumerate() {
            let (column, row) = (2 + at / channels % 4, 2 + at / channels / 4);
            let first = (2..4).contains(&column) && (2..6).contains(&row);
            let second = (4..6).contains(&column) && (4..8).contains(&row);
            let ignored = column < 3 && row == 4;
            let expected = if (first || second) && !ignored {
                frame.values[(row * 8 + column) * channels + at % channels]
            } else {
                128.0 / 255.0
            };
            assert_eq!(*value, expected, "({column}, {row}) of {channels} channels");
        }
    }
    let whole = Applied::new(Regions::default()).look(picture(1, 3, 2)).unwrap();
    assert!(whole.is_whole() && *whole.pixels() == picture(1, 3, 2));
    // Without an included region, the frame keeps its size.
    let ignored = regions(&json!([{"kind": "ignore", "vertices": rectangle([0.5, 0.0, 1.0, 1.0])}]));
    let seen = Applied::new(ignored).look(picture(1, 4, 2)).unwrap();
    let grey = 128.0 / 255.0;
    let frame = picture(1, 4, 2).values;
    assert_eq!(seen.pixels().values, [frame[0], frame[1], grey, grey, frame[4], frame[5], grey, grey]);
}

#[test]
fn frames_of_another_size_are_looked_at_by_the_same_shares() {
    let applied = Applied::new(regions(&json!([{"kind": "include", "vertices": rectangle([0.5, 0.0, 1.0, 0.5])}])));
    let mut views = Vec::new();
    for (width, height) in [(8, 8), (100, 40), (8, 8), (1920, 1080), (2, 2), (6, 6), (4, 4), (8, 8)] {
        let seen = applied.look(picture(1, width, height)).unwrap();
        assert_eq!(seen.pixels().shape, Shape::new(1, height / 2, width / 2));
        views.push(seen.into_view().unwrap());
    }
    assert!(Arc::ptr_eq(&views[0], &views[2]), "it is made once for a size");
    assert!(!Arc::ptr_eq(&views[0], &views[7]) && views[0] == views[7], "and not kept for ever");
    assert_eq!(applied.views.lock().unwrap().len(), SIZES);
}

#[test]
fn regions_that_leave_nothing_are_an_error_of_the_frame() {
    let tiny = rectangle([0.0, 0.0, 0.01, 0.01]);
    for text in [
        json!([{"kind": "include", "vertices": tiny}]),
        json!([{"kind": "ignore", "vertices": rectangle([0.0, 0.0, 1.0, 1.0])}]),
        json!([{"kind": "include", "vertices": tiny}, {"kind": "ignore", "vertices": rectangle([0.0, 0.0, 0.5, 0.5])}]),
    ] {
        let error = Applied::new(regions(&text)).look(picture(3, 16, 9)).err().unwrap().to_string();
        assert!(error.starts_with("the regions leave no pixel of a frame of 16×9: make"), "{error}");
    }
    let applied = Applied::new(regions(&json!([{"kind": "include", "vertices": tiny}])));
    assert_eq!(applied.look(picture(1, 100, 100)).unwrap().pixels().values, picture(1, 1, 1).values);
}

fn sight(folder: &Path) -> Sight {
    Sight::open(folder, regions(&json!([{"kind": "include", "vertices": rectangle([0.0, 0.0, 0.5, 0.5])}])))
}

#[test]
fn what_is_set_goes_over_the_settings_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = sight(folder.path());
    let of_settings = first.applied();
    assert!(first.is_current(&of_settings) && first.origin() == Origin::Settings);
    // Thirds are not finite binary fractions: reading must give the same polygon again.
    let text = json!([{"kind": "ignore", "name": "left", "vertices": [[0, 0], [1.0 / 3.0, 2.0 / 7.0], [0.1, 0.7]]}]);
    first.set(Some(regions(&text)), Some("model")).unwrap();
    assert!(!first.is_current(&of_settings) && first.origin() == Origin::Kept);
    let again = sight(folder.path());
    assert_eq!(again.applied().regions(), first.applied().regions());
    assert_eq!(again.applied().digest(), first.applied().digest());
    assert_eq!(again.applied().regions(), &regions(&serde_json::to_value(first.applied().regions()).unwrap()));
    // An empty list is also a set value.
    again.set(Some(Regions::default()), Some("model")).unwrap();
    let again = sight(folder.path());
    assert_eq!((again.origin(), again.applied().regions().len()), (Origin::Kept, 0));
    again.set(None, Some("model")).unwrap();
    let again = sight(folder.path());
    assert_eq!((again.origin(), again.applied().digest()), (Origin::Settings, of_settings.digest()));
    for damaged in ["garbage", "{}", r#"{"regions": [{"kind": "ignore", "vertices": [[0, 0]]}], "before": []}"#] {
        std::fs::write(folder.path().join("regions.json"), damaged).unwrap();
        assert_eq!(sight(folder.path()).applied().digest(), of_settings.digest(), "{damaged}");
    }
}

#[test]
fn what_cannot_be_kept_holds_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let sight = sight(folder.path());
    std::fs::create_dir(folder.path().join("regions.json")).unwrap();
    sight.set(Some(Regions::default()), Some("model")).unwrap_err();
    assert_eq!(sight.applied().regions().len(), 0);
}

#[test]
fn a_model_that_knows_frames_of_other_regions_is_told_from_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = sight(folder.path());
    let of_settings = first.applied().digest().to_owned();
    assert!(!first.is_strange_to("a", None) && !first.is_strange_to("a", Some(&of_settings)));
    assert!(first.is_strange_to("a", Some(&Regions::default().digest())));
    let lower = regions(&json!([{"kind": "ignore", "vertices": rectangle([0.0, 0.0, 1.0, 0.5])}]));
    first.set(Some(Regions::default()), Some("a")).unwrap();
    first.set(Some(lower), Some("a")).unwrap();
    // The regions were changed twice: the model was trained on those before the first change. Another model was not in
    // use then.
    let again = sight(folder.path());
    assert!(again.is_strange_to("a", None) && !again.is_strange_to("b", None));
    assert!(!again.is_strange_to("a", Some(again.applied().digest())), "what it has learned with is known");
    for _ in 0..2 * MODELS {
        again.set(Some(Regions::default()), Some("a")).unwrap();
    }
    assert!(again.is_strange_to("a", None), "however often");
    again.set(None, Some("b")).unwrap();
    assert!(!again.is_strange_to("a", None) && again.is_strange_to("b", None), "as it was");
    for number in 0..2 * MODELS {
        again.set(None, Some(number.to_string().as_str())).unwrap();
    }
    assert_eq!(again.kept().before.len(), MODELS);
    assert!(!again.kept().before.iter().any(|before| before.model == "a"));
}

#[test]
fn names_are_no_matter_of_what_is_seen() {
    let named = |name: &str, kind| {
        regions(&json!([{"kind": kind, "name": name, "vertices": rectangle([0.0, 0.0, 1.0, 0.5])}])).digest()
    };
    assert_eq!(named("a", "ignore"), named("b", "ignore"));
    assert_ne!(named("a", "ignore"), named("a", "include"));
    assert_eq!(regions(&json!([])).of(Kind::Ignore).count(), 0);
}

/// Run by `cargo test -p nae-serve --lib -- --ignored --nocapture how_long`.
#[test]
#[ignore = "prints times"]
fn how_long_it_takes() {
    let star: Vec<_> = (0..64)
        .map(|i| {
            let (sin, cos) = (f64::from(i) / 64.0 * std::f64::consts::TAU).sin_cos();
            let radius = if i % 2 == 0 { 0.45 } else { 0.2 };
            [0.5 + radius * cos, 0.5 + radius * sin]
        })
        .collect();
    let one = json!([{"kind": "include", "vertices": star}]);
    let all: serde_json::Value = (0..32).map(|_| json!({"kind": "ignore", "vertices": star})).collect();
    let frame = picture(3, 1920, 1080);
    for (name, text) in [("one star of 64 vertices", one), ("32 of them", all)] {
        let wanted = regions(&text);
        let begin = Instant::now();
        let view = View::new(&wanted, (1920, 1080)).unwrap();
        let made = begin.elapsed();
        let begin = Instant::now();
        (0..10).for_each(|_| drop(view.apply(&frame)));
        println!("{name}, 1920 × 1080: the view {made:?}, once; a frame {:?}", begin.elapsed() / 10);
    }
}
