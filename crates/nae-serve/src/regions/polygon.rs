//! A polygon over a picture of any size: its validity, and the pixels of a row in it. Vertices are integers in
//! millionths of the picture, so that all decisions are exact: no rounding makes two neighbours overlap or leave a gap,
//! and a polygon is unchanged after it was written and read again.

use std::ops::Range;

use serde::{Serialize, Serializer};

/// The minimum and the maximum number of vertices.
const VERTICES: (usize, usize) = (3, 64);
/// The number of units in the picture's width or height: a pixel of 4K is 260 of them.
const WHOLE: u32 = 1_000_000;
/// The smallest area, as a fraction of the picture: 20 pixels of 1920 × 1080.
const SMALLEST: f64 = 1e-5;

/// The vertices in order, the last joined to the first; edges touch each other only at common vertices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Polygon(Vec<[u32; 2]>);

impl Polygon {
    /// Makes a polygon of vertices (x, y) in fractions of the picture's width and height, from its upper left corner.
    ///
    /// # Errors
    /// A description of what is wrong with it, and how to correct it.
    pub(super) fn new(vertices: &[[f64; 2]]) -> Result<Self, String> {
        let (fewest, most) = VERTICES;
        if !(fewest..=most).contains(&vertices.len()) {
            return Err(format!("expected {fewest} to {most} vertices, found {}", vertices.len()));
        }
        let mut whole = Vec::with_capacity(vertices.len());
        for (number, vertex) in (1..).zip(vertices) {
            // The range does not contain NaN either.
            if !vertex.iter().all(|share| (0.0..=1.0).contains(share)) {
                let [x, y] = vertex;
                return Err(format!(
                    "vertex {number}: expected two numbers from 0 to 1, shares of the picture's width and height, found {x}, {y}"
                ));
            }
            whole.push(vertex.map(|share| (share * f64::from(WHOLE)).round() as u32));
        }
        let this = Self(whole);
        this.is_simple()?;
        let share = this.area();
        if share < SMALLEST {
            return Err(format!(
                "expected an area of at least {SMALLEST} of the picture, found {share:.1e}: make it larger"
            ));
        }
        Ok(this)
    }

    /// The edges, each from its vertex to the next.
    fn edges(&self) -> impl ExactSizeIterator<Item = ([u32; 2], [u32; 2])> + Clone {
        let next = |at: usize| self.0[(at + 1) % self.0.len()];
        self.0.iter().enumerate().map(move |(at, vertex)| (*vertex, next(at)))
    }

    fn is_simple(&self) -> Result<(), String> {
        let count = self.0.len();
        // Checked first, since such an edge also touches others.
        if let Some(i) = self.edges().position(|(a, b)| a == b) {
            return Err(format!("vertices {} and {} are at the same place: leave one out", i + 1, (i + 1) % count + 1));
        }
        for (i, (a, b)) in self.edges().enumerate() {
            let (first, second) = (i + 1, (i + 1) % count + 1);
            let (_, after) = self.edges().nth((i + 1) % count).unwrap_or((a, b));
            // The next edge runs back over this one.
            if turn(a, b, after) == 0 && dot(b, a, after) > 0 {
                return Err(format!("at vertex {second} it turns back on itself: move that or leave it out"));
            }
            for (j, (c, d)) in self.edges().enumerate().skip(i + 2) {
                // The last edge ends where the first begins.
                let neighbours = i == 0 && j + 1 == count;
                if !neighbours && meet(a, b, c, d) {
                    let (third, fourth) = (j + 1, (j + 1) % count + 1);
                    return Err(format!(
                        "its edges from vertex {first} to {second} and from {third} to {fourth} cross or touch: give the \
                         vertices in their order around it, or make two regions of it"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The area as a fraction of the picture.
    fn area(&self) -> f64 {
        let twice: i64 =
            self.edges().map(|(a, b)| i64::from(a[0]) * i64::from(b[1]) - i64::from(b[0]) * i64::from(a[1])).sum();
        twice.unsigned_abs() as f64 / 2.0 / f64::from(WHOLE).powi(2)
    }

    /// The pixels in a row of a picture of `width` columns and `height` rows whose centres are in the polygon. If two
    /// polygons have a common edge, a centre on that edge belongs to exactly one of them.
    pub(super) fn row(&self, row: usize, (width, height): (usize, usize)) -> impl Iterator<Item = Range<usize>> {
        let (width, height, whole) = (width as i128, height as i128, i128::from(WHOLE));
        // The vertical position of the centre in units of 1 / (2·height·whole), for comparison with the vertices.
        let centre = (2 * row as i128 + 1) * whole;
        let at = |vertex: [u32; 2]| 2 * height * i128::from(vertex[1]);
        let crossed = self.edges().filter(|(a, b)| (at(*a) <= centre) != (at(*b) <= centre));
        let mut columns: Vec<usize> = crossed
            .map(|(a, b)| {
                let (rise, run) = (at(b) - at(a), i128::from(b[0]) - i128::from(a[0]));
                // The crossing is at numerator / rise millionths; both change sign with the edge's direction.
                let numerator = i128::from(a[0]) * rise + (centre - at(a)) * run;
                let (numerator, rise) = (numerator * rise.signum(), rise.abs());
                // The first column whose centre is not left of the crossing: (2k + 1) / (2·width) ≥ crossing.
                let (over, under) = (2 * width * numerator - whole * rise, 2 * whole * rise);
                let first = over.div_euclid(under) + i128::from(over.rem_euclid(under) != 0);
                first.clamp(0, width) as usize
            })
            .collect();
        columns.sort_unstable();
        // A closed line crosses a horizontal line an even number of times.
        let ranges: Vec<_> = columns.as_chunks::<2>().0.iter().map(|[from, to]| *from..*to).collect();
        ranges.into_iter().filter(|range| !range.is_empty())
    }

    /// The minimum and maximum of x, and those of y, in millionths.
    pub(super) fn bounds(&self) -> [(u32, u32); 2] {
        [0, 1].map(|axis| {
            let along = || self.0.iter().map(|vertex| vertex[axis]);
            (along().min().unwrap_or(0), along().max().unwrap_or(0))
        })
    }
}

/// The first of `pixels` pixels whose centre is not before the given millionths.
pub(super) fn first_pixel(millionths: u32, pixels: usize) -> usize {
    let (pixels, whole) = (pixels as u64, u64::from(WHOLE));
    // (2k + 1) / (2·pixels) ≥ millionths / whole.
    (2 * pixels * u64::from(millionths)).saturating_sub(whole).div_ceil(2 * whole) as usize
}

/// Positive if the path from `a` by `b` to `c` turns to one side, negative if to the other, 0 if it is straight.
fn turn(a: [u32; 2], b: [u32; 2], c: [u32; 2]) -> i64 {
    let [u, v] = [minus(b, a), minus(c, a)];
    u[0] * v[1] - u[1] * v[0]
}

/// The scalar product of the vectors from `from` to `a` and to `b`.
fn dot(from: [u32; 2], a: [u32; 2], b: [u32; 2]) -> i64 {
    let [u, v] = [minus(a, from), minus(b, from)];
    u[0] * v[0] + u[1] * v[1]
}

fn minus(a: [u32; 2], b: [u32; 2]) -> [i64; 2] {
    [0, 1].map(|axis| i64::from(a[axis]) - i64::from(b[axis]))
}

/// Whether two edges have a common point.
fn meet(a: [u32; 2], b: [u32; 2], c: [u32; 2], d: [u32; 2]) -> bool {
    let (of_c, of_d) = (turn(a, b, c).signum(), turn(a, b, d).signum());
    let (of_a, of_b) = (turn(c, d, a).signum(), turn(c, d, b).signum());
    // A point on the line of an edge is on the edge if the edge's ends are on different sides of it.
    let on = |turned: i64, a, b, point| turned == 0 && dot(point, a, b) <= 0;
    (of_c * of_d < 0 && of_a * of_b < 0)
        || on(of_c, a, b, c)
        || on(of_d, a, b, d)
        || on(of_a, c, d, a)
        || on(of_b, c, d, b)
}

impl Serialize for Polygon {
    /// The vertices as they were given, rounded to a millionth.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|vertex| vertex.map(|share| f64::from(share) / f64::from(WHOLE))))
    }
}
