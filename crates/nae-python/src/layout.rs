//! Determines the axes of an array of images, which an array does not contain. The rule of [`axes`] is that of the
//! guide (`docs/python.md`); ambiguous arrays are an error.

use nae_core::Shape;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The meaning of the axes of an array of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axes {
    /// The number of images.
    pub(crate) count: usize,
    /// The shape of each image.
    pub(crate) shape: Shape,
    /// Whether the channels of a pixel are adjacent in memory.
    pub(crate) channels_last: bool,
}

/// The names of the layouts.
const NAMES: [&str; 6] = ["HW", "HWC", "CHW", "NHW", "NHWC", "NCHW"];

/// Determines the layout of an array of the extents `shape`, `asked` for by name or by this rule:
///
/// - two axes are one grey image;
/// - three axes are one image `[H, W, C]` if the last is 1 or 3, and otherwise grey images `[N, H, W]`;
/// - four axes are `[N, C, H, W]` if the second is 1 or 3, or `[N, H, W, C]` if the last is; if both are, the layout is
///   that of the `network`'s shape.
///
/// The network's own number of channels counts like 1 and 3. If a network takes coloured images, three axes of which
/// only the first is its number of channels are refused: `[C, H, W]` is as likely as that number of grey images.
///
/// For the `member` of a list, which is one image, three axes are `[H, W, C]` or `[C, H, W]`, whichever has a number of
/// channels.
///
/// # Errors
/// A message with what was expected and what was found, which suggests `layout=`.
pub(crate) fn axes(shape: &[usize], asked: Option<&str>, network: Option<Shape>, member: bool) -> Result<Axes, String> {
    let channels = |count: usize| count == 1 || count == 3 || network.is_some_and(|network| network.channels == count);
    let found = match asked {
        Some(name) => named(shape, name)?,
        None if member && shape.len() == 3 => one(shape, &channels, network)?,
        None => guessed(shape, &channels, network)?,
    };
    if member && asked.is_none() && found.count != 1 {
        let count = found.count;
        return Err(format!(
            "expected one image in each member of a list, found {count} in an array of shape {shape:?}; give that array itself, or \
             say its layout"
        ));
    }
    if !channels(found.shape.channels) {
        let count = found.shape.channels;
        return Err(format!("expected 1 or 3 channels, found {count} in an array of shape {shape:?}"));
    }
    let Shape { channels, height, width } = found.shape;
    if channels == 0 || height == 0 || width == 0 {
        return Err(format!("expected images of at least one pixel, found an array of shape {shape:?}"));
    }
    Ok(found)
}

/// The layout called `name`, in capitals.
///
/// # Errors
/// A message with the known names.
pub(crate) fn known(name: &str) -> Result<String, String> {
    let layout = name.to_ascii_uppercase();
    if NAMES.contains(&layout.as_str()) {
        return Ok(layout);
    }
    Err(format!("layout: expected one of {}, found {name:?}", NAMES.join(", ")))
}

fn named(shape: &[usize], name: &str) -> Result<Axes, String> {
    let layout = known(name)?;
    if layout.len() != shape.len() {
        let expected = layout.len();
        return Err(format!("layout {layout}: expected {expected} axes, found an array of shape {shape:?}"));
    }
    let extent = |axis: char| layout.chars().position(|name| name == axis).map(|at| shape[at]);
    Ok(Axes {
        count: extent('N').unwrap_or(1),
        shape: Shape::new(extent('C').unwrap_or(1), extent('H').unwrap_or(0), extent('W').unwrap_or(0)),
        channels_last: layout.ends_with('C'),
    })
}

/// The layout of an image of three axes.
fn one(shape: &[usize], channels: &dyn Fn(usize) -> bool, network: Option<Shape>) -> Result<Axes, String> {
    let (chw, hwc) = (named(shape, "CHW")?, named(shape, "HWC")?);
    let fits = |axes: Axes| network == Some(axes.shape);
    match (channels(chw.shape.channels), channels(hwc.shape.channels)) {
        (true, false) => Ok(chw),
        (false, true) => Ok(hwc),
        (true, true) if fits(chw) != fits(hwc) => Ok(if fits(chw) { chw } else { hwc }),
        (true, true) => Err(format!("an array of shape {shape:?} may be [C, H, W] or [H, W, C]: give layout=\"CHW\"")),
        (false, false) => Err(format!(
            "expected one image in each member of a list, [H, W], [H, W, C] or [C, H, W] of 1 or 3 channels, found an array of \
             shape {shape:?}"
        )),
    }
}

fn guessed(shape: &[usize], channels: &dyn Fn(usize) -> bool, network: Option<Shape>) -> Result<Axes, String> {
    let (first, last) = (shape.first().is_some_and(|&n| channels(n)), shape.last().is_some_and(|&n| channels(n)));
    let two = |a: &str, b: &str| format!("an array of shape {shape:?} may be {a} or {b}: give layout=\"{}\"", bare(a));
    match *shape {
        [_, _] => named(shape, "HW"),
        // A network for images as narrow as this.
        [_, _, w] if last && network.is_some_and(|network| network.width == w && network.channels == 1) => {
            Err(two("[N, H, W]", "[H, W, C]"))
        }
        [_, _, _] if last => named(shape, "HWC"),
        [_, _, 4] => Err(format!(
            "an array of shape {shape:?} may be one image with transparency or grey images of four pixels' width: leave the \
             transparency out (a[..., :3]), or say layout=\"NHW\""
        )),
        [c, _, _] if first && network.is_some_and(|network| network.channels == c && c > 1) => {
            Err(two("[C, H, W]", "[N, H, W]"))
        }
        [_, _, _] => named(shape, "NHW"),
        [_, c, h, w] => match (channels(c), last) {
            (true, false) => named(shape, "NCHW"),
            (false, true) => named(shape, "NHWC"),
            (true, true) => {
                let fits = |c, h, w| network == Some(Shape::new(c, h, w));
                match (fits(c, h, w), fits(w, c, h)) {
                    (true, false) => named(shape, "NCHW"),
                    (false, true) => named(shape, "NHWC"),
                    _ => Err(two("[N, C, H, W]", "[N, H, W, C]")),
                }
            }
            (false, false) => Err(format!(
                "expected 1 or 3 channels, [N, C, H, W] or [N, H, W, C], found an array of shape {shape:?}"
            )),
        },
        _ => Err(format!(
            "expected images [N, C, H, W], [N, H, W, C], [N, H, W], [H, W, C] or [H, W], found an array of shape {shape:?}"
        )),
    }
}

/// The letters of `[N, H, W]`, as written for `layout=`.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphabetic).collect()
}

/// The number of images, channels, rows and columns of an array of the extents `shape`, and whether the channels are
/// the last axis, for a network that is not known yet.
#[pyfunction]
#[pyo3(signature = (shape, layout=None, member=false))]
pub(crate) fn image_axes(
    shape: Vec<usize>,
    layout: Option<&str>,
    member: bool,
) -> PyResult<(usize, usize, usize, usize, bool)> {
    let Axes { count, shape, channels_last } = axes(&shape, layout, None, member).map_err(PyValueError::new_err)?;
    Ok((count, shape.channels, shape.height, shape.width, channels_last))
}
