//! Operators that change shapes: resizing, reshaping, reductions, concatenation.

use super::super::attributes::Attributes;
use super::super::graph::{Dim, Operator, ResizeKind, ValueId};
use super::super::{CheckError, shape};
use super::integers::BATCH;
use super::{Interpreter, Meaning, maps_shape, product};
use crate::excerpt::excerpt;

/// The maximum number of values that are concatenated.
const MAX_PARTS: usize = 64;

impl<'c> Interpreter<'c, '_> {
    pub(super) fn resize(&self) -> Result<Meaning, CheckError> {
        self.at_most(4)?;
        let a = self.attributes(&[
            "mode",
            "coordinate_transformation_mode",
            "nearest_mode",
            "cubic_coeff_a",
            "exclude_outside",
            "extrapolation_value",
            "antialias",
            "keep_aspect_ratio_policy",
            "axes",
        ])?;
        a.only("exclude_outside", 0)?;
        a.only("antialias", 0)?;
        if a.has("axes") || a.string("keep_aspect_ratio_policy", "stretch")? != "stretch" {
            return Err(self.wrong("attributes", "no axes, no keep_aspect_ratio_policy", "one of them"));
        }
        a.float("extrapolation_value", 0.0)?;
        a.float("cubic_coeff_a", -0.75)?;
        let x = self.data(0, "input")?;
        let [c, h, w] = self.maps(x)?;
        let size = self.resize_size([c, h, w])?;
        let multiple = size[0].is_multiple_of(h) && size[1].is_multiple_of(w);
        let is_ratio = self.scale_is_ratio([h, w], size)?;
        let transformation = a.string("coordinate_transformation_mode", "half_pixel")?;
        let kind = match (a.string("mode", "nearest")?, transformation) {
            // ONNX aligns the last pixel with the size times its scale less one, runtimes with the last pixel.
            ("linear", "align_corners") if !is_ratio => {
                let scales: Vec<_> = self.floats(2, "scales")?.unwrap_or_default().iter().skip(2).collect();
                let expected = "with align_corners, whole numbers of rows and columns";
                return Err(self.wrong("scales", expected, format!("{scales:?} of {h}×{w}")));
            }
            ("linear", "align_corners") => ResizeKind::LinearAlignCorners,
            ("linear", "half_pixel" | "pytorch_half_pixel") | ("nearest", "asymmetric") if !is_ratio => {
                ResizeKind::Fractional
            }
            ("linear", "half_pixel") => ResizeKind::LinearHalfPixel,
            // They differ if the result is one pixel high or wide.
            ("linear", "pytorch_half_pixel") if size[0] > 1 && size[1] > 1 => ResizeKind::LinearHalfPixel,
            ("nearest", "asymmetric") if a.string("nearest_mode", "round_prefer_floor")? == "floor" => {
                ResizeKind::Nearest
            }
            // For enlargement by an integer, pixel areas and floor(i·in/out) are the same.
            ("nearest", "half_pixel" | "pytorch_half_pixel")
                if multiple && a.string("nearest_mode", "round_prefer_floor")?.starts_with("round_prefer") =>
            {
                if is_ratio {
                    ResizeKind::Nearest
                } else {
                    ResizeKind::Fractional
                }
            }
            (mode, _) => {
                let found =
                    format!("{}, {}, {}×{} of {h}×{w}", excerpt(mode), excerpt(transformation), size[0], size[1]);
                let expected = "linear with align_corners or half_pixel, nearest with asymmetric and floor, or \
                                nearest by a whole number";
                return Err(self.wrong("mode", expected, found));
            }
        };
        let operations = product(&[c, size[0], size[1], 4]);
        let shape = maps_shape(c, size[0], size[1]);
        Ok(Meaning::Node { operator: Operator::Resize(kind), inputs: vec![x], shape, operations })
    }

    /// Whether the positions computed from `scales` equal those from the sizes, which is the case if a size times its
    /// scale is an integer; always true with `sizes`.
    fn scale_is_ratio(&self, from: [usize; 2], to: [usize; 2]) -> Result<bool, CheckError> {
        let Some(&[_, _, down, across]) = self.floats(2, "scales")? else { return Ok(true) };
        // A ratio rounded to 32 bits moves no position by more than a ten-thousandth of a pixel.
        let is_ratio =
            |from: usize, scale: f32, to: usize| (f64::from(scale) * from as f64 - to as f64).abs() <= 1e-6 * to as f64;
        Ok(is_ratio(from[0], down, to[0]) && is_ratio(from[1], across, to[1]))
    }

    /// The height and width from the inputs `scales` or `sizes`; `roi` has no effect in the supported modes.
    pub(super) fn resize_size(&self, [c, h, w]: [usize; 3]) -> Result<[usize; 2], CheckError> {
        let scales = self.floats(2, "scales")?.filter(|s| !s.is_empty());
        let sizes = self.integers(3, "sizes")?.filter(|s| !s.is_empty());
        if self.optional(1).is_some() {
            self.floats(1, "roi")?;
        }
        match (scales, sizes) {
            (Some(&[n, channels, sh, sw]), None) => {
                let side = |size: usize, scale: f32| {
                    let product = (size as f32 * scale).floor();
                    (product >= 1.0 && product <= self.checker.limits.elements as f32).then_some(product as usize)
                };
                match (side(h, sh), side(w, sw)) {
                    (Some(oh), Some(ow)) if n == 1.0 && channels == 1.0 => Ok([oh, ow]),
                    _ => Err(self.wrong(
                        "scales",
                        "1, 1, and two that leave a bounded size",
                        format!("{:?}", [n, channels, sh, sw]),
                    )),
                }
            }
            (None, Some(&[n, channels, oh, ow])) => {
                let batch = n == BATCH || self.checker.fixed_batch.is_some_and(|b| n == b as i64);
                let side = |size: i64| usize::try_from(size).ok().filter(|&s| s > 0);
                match (side(oh), side(ow)) {
                    (Some(oh), Some(ow)) if batch && channels == c as i64 => Ok([oh, ow]),
                    _ => Err(self.wrong(
                        "sizes",
                        format!("the batch, {c}, and two sizes"),
                        format!("{:?}", [n, channels, oh, ow]),
                    )),
                }
            }
            _ => Err(self.wrong("scales and sizes", "four of either", "another number, or both")),
        }
    }

    pub(super) fn reshaped(&self, x: ValueId, shape: Vec<Dim>) -> Meaning {
        Meaning::Node { operator: Operator::Reshape, inputs: vec![x], shape, operations: 0 }
    }

    pub(super) fn flatten(&self) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let a = self.attributes(&["axis"])?;
        let x = self.data(0, "input")?;
        let shape = self.shape(x);
        let axis = a.int("axis", 1)?;
        if shape.first() != Some(&Dim::Batch) || shape::axis(axis, shape.len()) != Some(1) {
            return Err(self.wrong("axis", "1, after the batch", format!("{axis} on {}", self.show(x))));
        }
        let features = usize::try_from(shape::elements(shape)).unwrap_or(usize::MAX);
        Ok(self.reshaped(x, vec![Dim::Batch, Dim::Fixed(features)]))
    }

    pub(super) fn reshape(&self) -> Result<Meaning, CheckError> {
        self.at_most(2)?;
        let zero_is_zero = self.attributes(&["allowzero"])?.flag("allowzero", false)?;
        let x = self.data(0, "input")?;
        let target = self.integers(1, "shape")?.ok_or_else(|| self.wrong("shape", "an input", "none"))?;
        if zero_is_zero && target.contains(&0) {
            return Err(self.wrong("shape", "no extent of 0", "one"));
        }
        let shape = (target.len() <= 8)
            .then(|| shape::reshape(self.shape(x), target, self.checker.fixed_batch))
            .flatten()
            .ok_or_else(|| {
                let shown: Vec<_> = target.iter().take(8).map(ToString::to_string).collect();
                let expected = format!("the elements of {}, the batch in front", self.show(x));
                self.wrong("shape", expected, format!("[{}]", shown.join(", ")))
            })?;
        Ok(self.reshaped(x, shape))
    }

    /// The axes: an attribute before operator set `since`, an input from then on.
    pub(super) fn axes(&self, a: &Attributes<'c>, since: i64, rank: usize) -> Result<Option<Vec<usize>>, CheckError> {
        let list = if self.checker.opset >= since { self.integers(1, "axes")? } else { a.ints("axes")? };
        let Some(list) = list else { return Ok(None) };
        let mut axes = Vec::new();
        for &axis in list {
            match shape::axis(axis, rank) {
                Some(axis) if !axes.contains(&axis) => axes.push(axis),
                _ => return Err(self.wrong("axes", format!("each once, within {rank} axes"), axis.to_string())),
            }
        }
        axes.sort_unstable();
        Ok(Some(axes))
    }

    pub(super) fn axes_attribute(&self, since: i64, others: &[&'static str]) -> Result<Attributes<'c>, CheckError> {
        if self.checker.opset >= since {
            self.at_most(2)?;
            self.attributes(others)
        } else {
            self.at_most(1)?;
            self.attributes(&[others, &["axes"]].concat())
        }
    }

    pub(super) fn squeeze(&self, insert: bool) -> Result<Meaning, CheckError> {
        let a = self.axes_attribute(13, &[])?;
        let x = self.data(0, "input")?;
        let old = self.shape(x);
        let count = if self.checker.opset >= 13 { self.integers(1, "axes")? } else { a.ints("axes")? };
        let rank = if insert { old.len() + count.map_or(0, <[i64]>::len).min(8) } else { old.len() };
        let axes = self.axes(&a, 13, rank)?.ok_or_else(|| self.wrong("axes", "given", "none"))?;
        if axes.contains(&0) || old.first() != Some(&Dim::Batch) {
            return Err(self.wrong("axes", "none before the batch", "0"));
        }
        let mut shape = Vec::new();
        if insert {
            let mut rest = old.iter();
            for axis in 0..rank {
                shape.push(if axes.contains(&axis) { Dim::Fixed(1) } else { *rest.next().unwrap_or(&Dim::Fixed(1)) });
            }
        } else {
            for (axis, &dim) in old.iter().enumerate() {
                match (axes.contains(&axis), dim) {
                    (false, dim) => shape.push(dim),
                    (true, Dim::Fixed(1)) => {}
                    (true, _) => return Err(self.wrong("axes", "of extent 1", format!("{axis} of {}", self.show(x)))),
                }
            }
        }
        Ok(self.reshaped(x, shape))
    }

    pub(super) fn reduce(&self, make: fn(Vec<usize>, bool) -> Operator, since: i64) -> Result<Meaning, CheckError> {
        let others: &[&str] =
            if self.checker.opset >= since { &["keepdims", "noop_with_empty_axes"] } else { &["keepdims"] };
        let a = self.axes_attribute(since, others)?;
        a.only("noop_with_empty_axes", 0)?;
        let keepdims = a.flag("keepdims", true)?;
        let x = self.data(0, "input")?;
        let old = self.shape(x);
        let axes = self.axes(&a, since, old.len())?.unwrap_or_default();
        if axes.is_empty() || axes.contains(&0) || old.first() != Some(&Dim::Batch) {
            let found = if axes.is_empty() { "all of them".into() } else { format!("{axes:?}") };
            return Err(self.wrong("axes", "some, the batch not among them", found));
        }
        let shape = old
            .iter()
            .enumerate()
            .filter_map(|(i, &d)| match (axes.contains(&i), keepdims) {
                (false, _) => Some(d),
                (true, true) => Some(Dim::Fixed(1)),
                (true, false) => None,
            })
            .collect();
        let operations = shape::elements(old);
        Ok(Meaning::Node { operator: make(axes, keepdims), inputs: vec![x], shape, operations })
    }

    pub(super) fn top_k(&self) -> Result<Meaning, CheckError> {
        self.at_most(2)?;
        let a = self.attributes(&["axis", "largest", "sorted"])?;
        let x = self.data(0, "input")?;
        let (axis, largest) = (a.int("axis", -1)?, a.flag("largest", true)?);
        a.flag("sorted", true)?;
        let &[Dim::Batch, Dim::Fixed(values)] = self.shape(x) else {
            return Err(self.wrong("input", "[N, D]", self.show(x)));
        };
        if shape::axis(axis, 2) != Some(1) || !largest {
            return Err(self.wrong("axis and largest", "the last axis, 1", format!("{axis} and {largest}")));
        }
        let k = match self.integers(1, "k")? {
            Some(&[k]) => usize::try_from(k).ok().filter(|k| (1..=values).contains(k)),
            _ => None,
        };
        let k = k.ok_or_else(|| self.wrong("k", format!("a constant from 1 to {values}"), "another"))?;
        let shape = vec![Dim::Batch, Dim::Fixed(k)];
        Ok(Meaning::Node { operator: Operator::TopK { k }, inputs: vec![x], shape, operations: values as u64 })
    }

    /// Over the second axis only. Before operator set 13, it was over that axis and all following ones, which is the
    /// same for `[N, D]`.
    pub(super) fn softmax(&self) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let a = self.attributes(&["axis"])?;
        let rank = self.shape(self.data(0, "input")?).len();
        let flattens = self.checker.opset < 13;
        let axis = a.int("axis", if flattens { 1 } else { -1 })?;
        match shape::axis(axis, rank) {
            Some(1) if rank == 2 || !flattens => self.same_shape(Operator::Softmax),
            _ => Err(self.wrong("axis", "the second, 1, in operator set 13 or later", axis.to_string())),
        }
    }

    /// Concatenates values along the second axis; the other axes must be equal.
    pub(super) fn concat(&self) -> Result<Meaning, CheckError> {
        self.at_most(MAX_PARTS)?;
        let axis = self.attributes(&["axis"])?.int("axis", 0)?;
        let first = self.data(0, "input")?;
        let mut shape = self.shape(first).to_vec();
        if shape::axis(axis, shape.len()) != Some(1) {
            return Err(self.wrong("axis", "the second, 1", axis.to_string()));
        }
        let (mut inputs, mut channels) = (Vec::new(), 0usize);
        for index in 0..self.inputs.len() {
            let value = self.data(index, "input")?;
            match *self.shape(value) {
                [batch, Dim::Fixed(n), ref rest @ ..] if batch == shape[0] && *rest == shape[2..] => {
                    channels = channels.saturating_add(n);
                }
                _ => {
                    let expected = format!("the shape of {} but for the second axis", self.show(first));
                    return Err(self.wrong("inputs", expected, self.show(value)));
                }
            }
            inputs.push(value);
        }
        shape[1] = Dim::Fixed(channels);
        Ok(Meaning::Node { operator: Operator::Concat, inputs, shape, operations: 0 })
    }

    pub(super) fn lp_normalization(&self) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let a = self.attributes(&["axis", "p"])?;
        let x = self.data(0, "input")?;
        let axis = a.int("axis", -1)?;
        let p = a.int("p", 2)?;
        match shape::axis(axis, self.shape(x).len()) {
            Some(axis) if axis > 0 && (p == 1 || p == 2) => self.same_shape(Operator::LpNormalization { axis, p }),
            _ => Err(self.wrong("axis and p", "an axis after the batch, 1 or 2", format!("{axis} and {p}"))),
        }
    }
}
