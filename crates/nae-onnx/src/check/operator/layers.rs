//! Operators with windows or weights: convolutions, dense layers, pooling, normalization.

use super::super::attributes::Attributes;
use super::super::graph::{Dim, Operator, ValueId, WindowAttributes};
use super::super::{CheckError, shape};
use super::{Interpreter, Meaning, maps_shape, product};
use crate::excerpt::excerpt;

/// The maximum kernel side, stride and dilation, larger than in any trained network.
const MAX_WINDOW: usize = 1024;
const WINDOW: [&str; 5] = ["auto_pad", "kernel_shape", "strides", "pads", "dilations"];

impl Interpreter<'_, '_> {
    pub(super) fn window(
        &self,
        a: &Attributes<'_>,
        kernel: [usize; 2],
        size: [usize; 2],
    ) -> Result<WindowAttributes, CheckError> {
        let kernel = a.sizes("kernel_shape", kernel, 1, MAX_WINDOW)?;
        let mut window = WindowAttributes {
            kernel,
            stride: a.sizes("strides", [1; 2], 1, MAX_WINDOW)?,
            padding: a.sizes("pads", [0; 4], 0, MAX_WINDOW)?,
            dilation: a.sizes("dilations", [1; 2], 1, MAX_WINDOW)?,
        };
        let same = match a.string("auto_pad", "NOTSET")? {
            "NOTSET" => None,
            "VALID" => Some(Ok([0; 4])),
            "SAME_UPPER" => Some(shape::same_padding(size, &window, true)),
            "SAME_LOWER" => Some(shape::same_padding(size, &window, false)),
            other => return Err(self.wrong("auto_pad", "NOTSET, VALID, SAME_UPPER or SAME_LOWER", excerpt(other))),
        };
        if let Some(padding) = same {
            if a.has("pads") && window.padding != [0; 4] {
                return Err(self.wrong("pads", "none beside auto_pad", "some"));
            }
            window.padding = padding.map_err(|[expected, found]| self.wrong("auto_pad", expected, found))?;
        }
        for axis in 0..4 {
            let span = shape::span(&window, axis % 2);
            if window.padding[axis] >= span {
                let found = format!("{} on a kernel that spans {span}", window.padding[axis]);
                return Err(self.wrong("pads", "less than the kernel", found));
            }
        }
        Ok(window)
    }

    pub(super) fn groups(&self, a: &Attributes<'_>, input: usize, output: usize) -> Result<usize, CheckError> {
        let group = a.int("group", 1)?;
        match usize::try_from(group) {
            Ok(g) if g > 0 && input.is_multiple_of(g) && output.is_multiple_of(g) => Ok(g),
            _ => Err(self.wrong("group", format!("a divisor of {input} and {output} channels"), group.to_string())),
        }
    }

    pub(super) fn bias(&self, inputs: &mut Vec<ValueId>, channels: usize) -> Result<(), CheckError> {
        if self.optional(2).is_some() {
            let (bias, [n]) = self.weights(2, "bias")?;
            if n != channels {
                return Err(self.wrong("bias", format!("{channels} elements"), n.to_string()));
            }
            inputs.push(bias);
        }
        Ok(())
    }

    pub(super) fn conv(&self) -> Result<Meaning, CheckError> {
        self.at_most(3)?;
        let a = self.attributes(&[&WINDOW[..], &["group"]].concat())?;
        let x = self.data(0, "input")?;
        let [c, h, w] = self.maps(x)?;
        let (weight, [channels, per_group, kh, kw]) = self.weights(1, "weight")?;
        let window = self.window(&a, [kh, kw], [h, w])?;
        let groups = self.groups(&a, c, channels)?;
        if window.kernel != [kh, kw] || per_group != c / groups {
            let expected = format!("[{channels}, {}, {}, {}]", c / groups, window.kernel[0], window.kernel[1]);
            return Err(self.wrong("weight", expected, self.show(weight)));
        }
        let [oh, ow] = shape::windows([h, w], &window)
            .ok_or_else(|| self.wrong("kernel", "to fit its input", format!("{:?} on {h}×{w}", window.kernel)))?;
        let mut inputs = vec![x, weight];
        self.bias(&mut inputs, channels)?;
        let shape = maps_shape(channels, oh, ow);
        let operations = product(&[channels, oh, ow, per_group, kh, kw]);
        Ok(Meaning::Node { operator: Operator::Conv { window, groups }, inputs, shape, operations })
    }

    pub(super) fn conv_transpose(&self) -> Result<Meaning, CheckError> {
        self.at_most(3)?;
        let a = self.attributes(&[&WINDOW[..], &["group", "output_padding"]].concat())?;
        let x = self.data(0, "input")?;
        let [c, h, w] = self.maps(x)?;
        let (weight, [channels_in, per_group, kh, kw]) = self.weights(1, "weight")?;
        if !matches!(a.string("auto_pad", "NOTSET")?, "NOTSET" | "VALID") {
            return Err(self.wrong("auto_pad", "NOTSET or VALID", "another"));
        }
        let window = self.window(&a, [kh, kw], [h, w])?;
        let groups = self.groups(&a, c, c)?;
        if window.kernel != [kh, kw] || channels_in != c {
            let expected = format!("[{c}, …, {}, {}]", window.kernel[0], window.kernel[1]);
            return Err(self.wrong("weight", expected, self.show(weight)));
        }
        let output_padding = a.sizes("output_padding", [0; 2], 0, MAX_WINDOW)?;
        if output_padding[0] >= window.stride[0] || output_padding[1] >= window.stride[1] {
            return Err(self.wrong("output_padding", "less than the stride", format!("{output_padding:?}")));
        }
        let [oh, ow] = shape::transposed([h, w], &window, output_padding)
            .ok_or_else(|| self.wrong("pads", "to leave something", "nothing left"))?;
        let channels = per_group.saturating_mul(groups);
        let mut inputs = vec![x, weight];
        self.bias(&mut inputs, channels)?;
        let shape = maps_shape(channels, oh, ow);
        let operations = product(&[c, h, w, per_group, kh, kw]);
        let operator = Operator::ConvTranspose { window, output_padding, groups };
        Ok(Meaning::Node { operator, inputs, shape, operations })
    }

    pub(super) fn gemm(&self) -> Result<Meaning, CheckError> {
        self.at_most(3)?;
        let a = self.attributes(&["alpha", "beta", "transA", "transB"])?;
        let x = self.data(0, "input")?;
        let [Dim::Batch, Dim::Fixed(features)] = *self.shape(x) else {
            return Err(self.wrong("input", "[N, D]", self.show(x)));
        };
        a.only("transA", 0)?;
        let transposed = a.flag("transB", false)?;
        let (weight, dims) = self.weights::<2>(1, "weight")?;
        let [rows, columns] = if transposed { [dims[1], dims[0]] } else { dims };
        if rows != features {
            return Err(self.wrong("weight", format!("{features} features in"), self.show(weight)));
        }
        let mut inputs = vec![x, weight];
        self.bias(&mut inputs, columns)?;
        let operator = Operator::Gemm { alpha: a.float("alpha", 1.0)?, beta: a.float("beta", 1.0)?, transposed };
        let shape = vec![Dim::Batch, Dim::Fixed(columns)];
        Ok(Meaning::Node { operator, inputs, shape, operations: product(&[rows, columns]) })
    }

    pub(super) fn mat_mul(&self) -> Result<Meaning, CheckError> {
        self.attributes(&[])?;
        self.at_most(2)?;
        let x = self.data(0, "first operand")?;
        let (weight, [rows, columns]) = self.weights(1, "second operand")?;
        match *self.shape(x) {
            [Dim::Batch, Dim::Fixed(features)] if features == rows => {}
            _ => return Err(self.wrong("first operand", format!("[N, {rows}]"), self.show(x))),
        }
        let shape = vec![Dim::Batch, Dim::Fixed(columns)];
        let operations = product(&[rows, columns]);
        Ok(Meaning::Node { operator: Operator::MatMul, inputs: vec![x, weight], shape, operations })
    }

    pub(super) fn batch_normalization(&self) -> Result<Meaning, CheckError> {
        self.at_most(5)?;
        let a = self.attributes(&["epsilon", "momentum", "training_mode"])?;
        a.only("training_mode", 0)?;
        let x = self.data(0, "input")?;
        let channels = match *self.shape(x) {
            [Dim::Batch, Dim::Fixed(c), Dim::Fixed(_), Dim::Fixed(_)] | [Dim::Batch, Dim::Fixed(c)] => c,
            _ => return Err(self.wrong("input", "[N, C, H, W] or [N, C]", self.show(x))),
        };
        let mut inputs = vec![x];
        for (index, what) in ["scale", "bias", "mean", "variance"].into_iter().enumerate() {
            let (value, [n]) = self.weights(index + 1, what)?;
            if n != channels {
                return Err(self.wrong(what, format!("{channels} elements"), n.to_string()));
            }
            inputs.push(value);
        }
        let epsilon = a.float("epsilon", 1e-5)?;
        let variance = self.floats(4, "variance")?.unwrap_or_default();
        if epsilon < 0.0 || variance.iter().any(|v| v + epsilon <= 0.0) {
            return Err(self.wrong("variance", "above zero with epsilon", "zero or less"));
        }
        let shape = self.shape(x).to_vec();
        Ok(Meaning::Node { operator: Operator::BatchNormalization { epsilon }, inputs, shape, operations: 0 })
    }

    /// Each channel of a sample separately; also groups, `[N, groups, values]`.
    pub(super) fn instance_normalization(&self) -> Result<Meaning, CheckError> {
        self.at_most(3)?;
        let epsilon = self.epsilon(&self.attributes(&["epsilon"])?)?;
        let x = self.data(0, "input")?;
        let channels = match *self.shape(x) {
            [Dim::Batch, Dim::Fixed(c), Dim::Fixed(_)] | [Dim::Batch, Dim::Fixed(c), Dim::Fixed(_), Dim::Fixed(_)] => c,
            _ => return Err(self.wrong("input", "[N, C, H, W] or [N, C, L]", self.show(x))),
        };
        self.normalization(x, channels, Operator::InstanceNormalization { epsilon })
    }

    /// Scales and shifts are per channel since operator set 21, per group before.
    pub(super) fn group_normalization(&self) -> Result<Meaning, CheckError> {
        self.at_most(3)?;
        let a = self.attributes(&["epsilon", "num_groups", "stash_type"])?;
        let epsilon = self.epsilon(&a)?;
        let x = self.data(0, "input")?;
        let [channels, ..] = self.maps(x)?;
        let found = a.int("num_groups", 0)?;
        let groups = usize::try_from(found).ok().filter(|&groups| groups > 0 && channels.is_multiple_of(groups));
        let expected = || format!("a divisor of {channels} channels");
        let groups = groups.ok_or_else(|| self.wrong("num_groups", expected(), found.to_string()))?;
        let of = if self.checker.opset >= 21 { channels } else { groups };
        self.normalization(x, of, Operator::GroupNormalization { groups, epsilon })
    }

    fn epsilon(&self, a: &Attributes<'_>) -> Result<f32, CheckError> {
        let epsilon = a.float("epsilon", 1e-5)?;
        if epsilon > 0.0 { Ok(epsilon) } else { Err(self.wrong("epsilon", "above zero", epsilon.to_string())) }
    }

    /// Normalization of `x` with `count` scales and shifts.
    fn normalization(&self, x: ValueId, count: usize, operator: Operator) -> Result<Meaning, CheckError> {
        let mut inputs = vec![x];
        for (index, what) in ["scale", "shift"].into_iter().enumerate() {
            let (value, [n]) = self.weights(index + 1, what)?;
            if n != count {
                return Err(self.wrong(what, format!("{count} elements"), n.to_string()));
            }
            inputs.push(value);
        }
        let shape = self.shape(x).to_vec();
        let operations = shape::elements(&shape).saturating_mul(4);
        Ok(Meaning::Node { operator, inputs, shape, operations })
    }

    pub(super) fn pool(&self, maximum: bool) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let own = if maximum { "storage_order" } else { "count_include_pad" };
        let a = self.attributes(&[&WINDOW[..], &["ceil_mode", own]].concat())?;
        let x = self.data(0, "input")?;
        let [c, h, w] = self.maps(x)?;
        if !a.has("kernel_shape") {
            return Err(self.wrong("kernel_shape", "two integers", "none"));
        }
        let mut window = self.window(&a, [1; 2], [h, w])?;
        if a.flag("ceil_mode", false)? {
            if !maximum && a.flag("count_include_pad", false)? {
                return Err(self.wrong("ceil_mode", "0 where padding counts in a mean", "1"));
            }
            let rounded_down = window.padding;
            self.last_windows(&mut window, [h, w])?;
            if window.padding != rounded_down && a.string("auto_pad", "NOTSET")? != "NOTSET" {
                return Err(self.wrong("ceil_mode", "0 beside auto_pad, unless it makes no difference", "1"));
            }
        }
        if !maximum && window.dilation != [1; 2] {
            return Err(self.wrong("dilations", "[1, 1]", format!("{:?}", window.dilation)));
        }
        let [oh, ow] = shape::windows([h, w], &window)
            .ok_or_else(|| self.wrong("kernel", "to fit its input", format!("{:?} on {h}×{w}", window.kernel)))?;
        let operator = if maximum {
            a.only("storage_order", 0)?;
            Operator::MaxPool(window)
        } else {
            Operator::AveragePool { window, count_include_padding: a.flag("count_include_pad", false)? }
        };
        let operations = product(&[c, oh, ow, window.kernel[0], window.kernel[1]]);
        Ok(Meaning::Node { operator, inputs: vec![x], shape: maps_shape(c, oh, ow), operations })
    }

    /// Pads at the end, so that the last windows of `ceil_mode` are complete: values beyond the input do not count. A
    /// window that would consist only of padding is refused, since some runtimes include and others omit it.
    fn last_windows(&self, window: &mut WindowAttributes, size: [usize; 2]) -> Result<(), CheckError> {
        for (axis, size) in size.into_iter().enumerate() {
            let stride = window.stride[axis];
            let padded = size + window.padding[axis] + window.padding[axis + 2];
            let Some(room) = padded.checked_sub(shape::span(window, axis)) else { continue };
            let last = room.next_multiple_of(stride);
            if last >= size + window.padding[axis] {
                return Err(self.wrong("ceil_mode", "windows that meet the input", "one that is of padding alone"));
            }
            window.padding[axis + 2] += last - room;
        }
        Ok(())
    }

    pub(super) fn global_average_pool(&self) -> Result<Meaning, CheckError> {
        self.attributes(&[])?;
        self.at_most(1)?;
        let x = self.data(0, "input")?;
        let [c, h, w] = self.maps(x)?;
        let operations = product(&[c, h, w]);
        let shape = maps_shape(c, 1, 1);
        Ok(Meaning::Node { operator: Operator::GlobalAveragePool, inputs: vec![x], shape, operations })
    }
}
