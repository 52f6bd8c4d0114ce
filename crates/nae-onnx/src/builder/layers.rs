//! Operations with weights: convolution, transposed convolution and dense layer.

use super::{BuildError, Dim, GraphBuilder, Value, geometry};
use crate::proto::AttributeProto;

/// A convolution over `[N, in, H, W]`.
#[derive(Debug, Clone)]
pub struct Conv2d<'a> {
    /// The number of output channels.
    pub channels: usize,
    /// The kernel's height and width.
    pub kernel: [usize; 2],
    /// The weights `[channels, in / groups, kernel height, kernel width]`, as in PyTorch and burn.
    pub weight: &'a [f32],
    /// One bias per output channel.
    pub bias: Option<&'a [f32]>,
    /// The vertical and the horizontal stride.
    pub stride: [usize; 2],
    /// The number of rows and columns of zeros added at the top, left, bottom and right.
    pub padding: [usize; 4],
    /// The vertical and the horizontal spacing of kernel elements.
    pub dilation: [usize; 2],
    /// The number of groups of channels that are convolved separately.
    pub groups: usize,
}

impl<'a> Conv2d<'a> {
    /// A convolution with stride 1, one group, and without padding or dilation.
    pub fn new(channels: usize, kernel: [usize; 2], weight: &'a [f32], bias: Option<&'a [f32]>) -> Self {
        Self { channels, kernel, weight, bias, stride: [1; 2], padding: [0; 4], dilation: [1; 2], groups: 1 }
    }
}

/// A transposed convolution over `[N, in, H, W]`.
#[derive(Debug, Clone)]
pub struct ConvTranspose2d<'a> {
    /// The number of output channels.
    pub channels: usize,
    /// The kernel's height and width.
    pub kernel: [usize; 2],
    /// The weights `[in, channels / groups, kernel height, kernel width]`, as in PyTorch and burn.
    pub weight: &'a [f32],
    /// One bias per output channel.
    pub bias: Option<&'a [f32]>,
    /// The vertical and the horizontal stride.
    pub stride: [usize; 2],
    /// The number of rows and columns removed from the result at the top, left, bottom and right.
    pub padding: [usize; 4],
    /// The number of rows and columns added to the result at the bottom and right; smaller than the
    /// stride.
    pub output_padding: [usize; 2],
    /// The vertical and the horizontal spacing of kernel elements.
    pub dilation: [usize; 2],
    /// The number of groups of channels that are convolved separately.
    pub groups: usize,
}

impl<'a> ConvTranspose2d<'a> {
    /// A transposed convolution with stride 1, one group, and without padding or dilation.
    pub fn new(channels: usize, kernel: [usize; 2], weight: &'a [f32], bias: Option<&'a [f32]>) -> Self {
        Self {
            channels,
            kernel,
            weight,
            bias,
            stride: [1; 2],
            padding: [0; 4],
            output_padding: [0; 2],
            dilation: [1; 2],
            groups: 1,
        }
    }
}

/// A dense layer over `[N, in]`.
#[derive(Debug, Clone)]
pub struct Gemm<'a> {
    /// The number of output features.
    pub features: usize,
    /// The weights; see [`transposed`](Self::transposed) for their order.
    pub weight: &'a [f32],
    /// One bias per output feature.
    pub bias: Option<&'a [f32]>,
    /// Whether the weights are `[features, in]` as in PyTorch; otherwise they are `[in, features]`
    /// as in burn.
    pub transposed: bool,
}

impl GraphBuilder {
    /// Adds a `Conv`: `[N, in, H, W]` to `[N, channels, H', W']`.
    ///
    /// # Errors
    /// [`BuildError::Shape`], [`BuildError::Elements`], [`BuildError::NotFinite`], and
    /// [`BuildError::Geometry`] if the kernel does not fit or the groups do not divide the
    /// channels.
    pub fn conv2d(&mut self, name: &str, x: Value, conv: &Conv2d<'_>) -> Result<Value, BuildError> {
        const OP: &str = "Conv";
        let [c, h, w] = self.maps_of(name, OP, x)?;
        let Conv2d { channels, kernel, stride, padding, dilation, groups, .. } = *conv;
        positive(name, OP, channels, kernel, stride, dilation, groups)?;
        divides(name, OP, groups, c, channels)?;
        let mut out = [0; 2];
        for (axis, size) in [h, w].into_iter().enumerate() {
            let span = extent(dilation[axis], kernel[axis]);
            let padded = size.saturating_add(padding[axis]).saturating_add(padding[axis + 2]);
            if span > padded {
                return Err(geometry(
                    name,
                    OP,
                    format!("the kernel spans {span} on an input of {padded} with padding"),
                ));
            }
            out[axis] = (padded - span) / stride[axis] + 1;
        }
        let dims = [channels, c / groups, kernel[0], kernel[1]];
        let inputs = self.layer_inputs(name, OP, x, &dims, conv.weight, channels, conv.bias)?;
        let attributes = window(kernel, stride, padding, dilation, groups);
        let shape = vec![Dim::Batch, Dim::Fixed(channels), Dim::Fixed(out[0]), Dim::Fixed(out[1])];
        self.node(name, OP, &inputs, shape, attributes)
    }

    /// Adds a `ConvTranspose`: `[N, in, H, W]` to `[N, channels, H', W']`, where `H' = (H -
    /// 1)·stride + dilation·(kernel - 1) + 1 + output_padding - padding`.
    ///
    /// # Errors
    /// As for [`conv2d`](Self::conv2d).
    pub fn conv_transpose2d(&mut self, name: &str, x: Value, conv: &ConvTranspose2d<'_>) -> Result<Value, BuildError> {
        const OP: &str = "ConvTranspose";
        let [c, h, w] = self.maps_of(name, OP, x)?;
        let ConvTranspose2d { channels, kernel, stride, padding, output_padding, dilation, groups, .. } = *conv;
        positive(name, OP, channels, kernel, stride, dilation, groups)?;
        divides(name, OP, groups, c, channels)?;
        let mut out = [0; 2];
        for (axis, size) in [h, w].into_iter().enumerate() {
            if output_padding[axis] >= stride[axis] {
                let reason = format!("an output padding of {} with a stride of {}", output_padding[axis], stride[axis]);
                return Err(geometry(name, OP, reason));
            }
            let full = (size - 1)
                .saturating_mul(stride[axis])
                .saturating_add(extent(dilation[axis], kernel[axis]))
                .saturating_add(output_padding[axis]);
            let cut = padding[axis].saturating_add(padding[axis + 2]);
            if cut >= full {
                return Err(geometry(name, OP, format!("a padding of {cut} leaves nothing of {full}")));
            }
            out[axis] = full - cut;
        }
        let dims = [c, channels / groups, kernel[0], kernel[1]];
        let inputs = self.layer_inputs(name, OP, x, &dims, conv.weight, channels, conv.bias)?;
        let mut attributes = window(kernel, stride, padding, dilation, groups);
        if output_padding != [0; 2] {
            attributes.push(AttributeProto::ints("output_padding", integers(&output_padding)));
        }
        let shape = vec![Dim::Batch, Dim::Fixed(channels), Dim::Fixed(out[0]), Dim::Fixed(out[1])];
        self.node(name, OP, &inputs, shape, attributes)
    }

    /// Adds a `Gemm`: `[N, in]` to `[N, features]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`], [`BuildError::Elements`], [`BuildError::NotFinite`], and
    /// [`BuildError::Geometry`] for zero features.
    pub fn gemm(&mut self, name: &str, x: Value, gemm: &Gemm<'_>) -> Result<Value, BuildError> {
        const OP: &str = "Gemm";
        let features_in = match *self.shape_of(name, x)? {
            [Dim::Batch, Dim::Fixed(n)] => n,
            ref other => {
                let expected = "[N, features]; flatten images first".into();
                return Err(BuildError::Shape { node: name.into(), operator: OP, expected, found: other.to_vec() });
            }
        };
        let features = gemm.features;
        if features == 0 {
            return Err(geometry(name, OP, "zero features out"));
        }
        let dims = if gemm.transposed { [features, features_in] } else { [features_in, features] };
        let inputs = self.layer_inputs(name, OP, x, &dims, gemm.weight, features, gemm.bias)?;
        let attributes = if gemm.transposed { vec![AttributeProto::int("transB", 1)] } else { Vec::new() };
        self.node(name, OP, &inputs, vec![Dim::Batch, Dim::Fixed(features)], attributes)
    }

    #[allow(clippy::too_many_arguments)] // what three operators share, and nothing else calls
    fn layer_inputs(
        &mut self,
        name: &str,
        operator: &'static str,
        x: Value,
        dims: &[usize],
        weight: &[f32],
        channels: usize,
        bias: Option<&[f32]>,
    ) -> Result<Vec<Value>, BuildError> {
        let mut inputs = vec![x, self.weights(name, operator, "weight", dims, weight)?];
        if let Some(bias) = bias {
            inputs.push(self.weights(name, operator, "bias", &[channels], bias)?);
        }
        Ok(inputs)
    }
}

fn extent(dilation: usize, kernel: usize) -> usize {
    dilation.saturating_mul(kernel - 1).saturating_add(1)
}

fn positive(
    name: &str,
    operator: &'static str,
    channels: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
) -> Result<(), BuildError> {
    for (what, value) in [
        ("channels out", channels),
        ("a kernel size", kernel[0].min(kernel[1])),
        ("a stride", stride[0].min(stride[1])),
        ("a dilation", dilation[0].min(dilation[1])),
        ("groups", groups),
    ] {
        if value == 0 {
            return Err(geometry(name, operator, format!("{what} of zero")));
        }
    }
    Ok(())
}

fn divides(name: &str, operator: &'static str, groups: usize, c: usize, channels: usize) -> Result<(), BuildError> {
    if c.is_multiple_of(groups) && channels.is_multiple_of(groups) {
        return Ok(());
    }
    Err(geometry(name, operator, format!("{groups} groups do not divide {c} channels in and {channels} out")))
}

/// The attributes of a convolution; those with default values are omitted, except for the kernel.
pub(super) fn window(
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
    dilation: [usize; 2],
    groups: usize,
) -> Vec<AttributeProto> {
    let mut attributes = vec![
        AttributeProto::ints("kernel_shape", integers(&kernel)),
        AttributeProto::ints("strides", integers(&stride)),
        AttributeProto::ints("pads", integers(&padding)),
    ];
    if dilation != [1; 2] {
        attributes.push(AttributeProto::ints("dilations", integers(&dilation)));
    }
    if groups != 1 {
        attributes.push(AttributeProto::int("group", groups as i64));
    }
    attributes
}

fn integers(values: &[usize]) -> impl Iterator<Item = i64> {
    values.iter().map(|&v| v as i64)
}
