//! Operations that move or collect elements: pooling, resizing, flattening and reshaping.

use super::{BuildError, Dim, GraphBuilder, Value, geometry, layers};
use crate::proto::{AttributeProto, TensorProto};

/// A pooling window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool2d {
    /// The window's height and width.
    pub kernel: [usize; 2],
    /// The vertical and the horizontal stride.
    pub stride: [usize; 2],
    /// The number of rows and columns added at the top, left, bottom and right; smaller than the
    /// window. They count neither for the maximum nor for the average.
    pub padding: [usize; 4],
}

impl Pool2d {
    /// A square window whose stride is its own size, without padding.
    pub fn square(size: usize) -> Self {
        Self { kernel: [size; 2], stride: [size; 2], padding: [0; 4] }
    }
}

impl GraphBuilder {
    /// Adds a `MaxPool`: `[N, C, H, W]` to `[N, C, H', W']`. A window that does not fit at the
    /// bottom or right is omitted.
    ///
    /// # Errors
    /// [`BuildError::Shape`], and [`BuildError::Geometry`] if the window does not fit.
    pub fn max_pool2d(&mut self, name: &str, x: Value, pool: &Pool2d) -> Result<Value, BuildError> {
        self.pool(name, "MaxPool", x, pool)
    }

    /// Adds an `AveragePool`: `[N, C, H, W]` to `[N, C, H', W']`; padding does not count.
    ///
    /// # Errors
    /// As for [`max_pool2d`](Self::max_pool2d).
    pub fn average_pool2d(&mut self, name: &str, x: Value, pool: &Pool2d) -> Result<Value, BuildError> {
        self.pool(name, "AveragePool", x, pool)
    }

    fn pool(&mut self, name: &str, op: &'static str, x: Value, pool: &Pool2d) -> Result<Value, BuildError> {
        let [c, h, w] = self.maps_of(name, op, x)?;
        let Pool2d { kernel, stride, padding } = *pool;
        let mut out = [0; 2];
        for (axis, size) in [h, w].into_iter().enumerate() {
            let (k, s, before, after) = (kernel[axis], stride[axis], padding[axis], padding[axis + 2]);
            if k == 0 || s == 0 {
                return Err(geometry(name, op, "a window or stride of zero"));
            }
            if before >= k || after >= k {
                return Err(geometry(name, op, format!("a padding of {} on a window of {k}", before.max(after))));
            }
            let padded = size.saturating_add(before).saturating_add(after);
            if k > padded {
                return Err(geometry(name, op, format!("a window of {k} on an input of {padded} with padding")));
            }
            out[axis] = (padded - k) / s + 1;
        }
        let attributes = layers::window(kernel, stride, padding, [1; 2], 1);
        let shape = vec![Dim::Batch, Dim::Fixed(c), Dim::Fixed(out[0]), Dim::Fixed(out[1])];
        self.node(name, op, &[x], shape, attributes)
    }

    /// Adds a `Resize`, linear in both directions, with the first and last pixels of input and
    /// output aligned (PyTorch's `interpolate(…, mode="bilinear", align_corners=True)`): `[N, C, H,
    /// W]` to `[N, C, height, width]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`], and [`BuildError::Geometry`] for a zero size.
    pub fn resize_bilinear_align_corners(
        &mut self,
        name: &str,
        x: Value,
        size: [usize; 2],
    ) -> Result<Value, BuildError> {
        let attributes = vec![
            AttributeProto::string("mode", "linear"),
            AttributeProto::string("coordinate_transformation_mode", "align_corners"),
        ];
        self.resize(name, x, size, attributes)
    }

    /// Adds a `Resize`, linear in both directions, with the pixel areas of input and output aligned
    /// (PyTorch's `align_corners=False`): `[N, C, H, W]` to `[N, C, height, width]`, without
    /// antialiasing.
    ///
    /// # Errors
    /// As for [`resize_bilinear_align_corners`](Self::resize_bilinear_align_corners), and
    /// [`BuildError::Geometry`] if a side is not a multiple of the input's: the model stores the
    /// ratio as a 32-bit float, and runtimes would disagree on an inexact one.
    pub fn resize_bilinear_half_pixel(&mut self, name: &str, x: Value, size: [usize; 2]) -> Result<Value, BuildError> {
        self.exact_ratio(name, x, size)?;
        let attributes = vec![
            AttributeProto::string("mode", "linear"),
            AttributeProto::string("coordinate_transformation_mode", "half_pixel"),
        ];
        self.resize(name, x, size, attributes)
    }

    /// Adds a `Resize`, nearest: output pixel `i` is input pixel `floor(i · H / height)`.
    ///
    /// # Errors
    /// As for [`resize_bilinear_half_pixel`](Self::resize_bilinear_half_pixel).
    pub fn resize_nearest(&mut self, name: &str, x: Value, size: [usize; 2]) -> Result<Value, BuildError> {
        self.exact_ratio(name, x, size)?;
        let attributes = vec![
            AttributeProto::string("mode", "nearest"),
            AttributeProto::string("coordinate_transformation_mode", "asymmetric"),
            AttributeProto::string("nearest_mode", "floor"),
        ];
        self.resize(name, x, size, attributes)
    }

    fn exact_ratio(&self, name: &str, x: Value, size: [usize; 2]) -> Result<(), BuildError> {
        let [_, h, w] = self.maps_of(name, "Resize", x)?;
        match [(h, size[0]), (w, size[1])].into_iter().find(|(from, to)| to % from != 0) {
            Some((from, to)) => {
                Err(geometry(name, "Resize", format!("{to} is not a multiple of {from}; align_corners takes any size")))
            }
            None => Ok(()),
        }
    }

    fn resize(
        &mut self,
        name: &str,
        x: Value,
        size: [usize; 2],
        attributes: Vec<AttributeProto>,
    ) -> Result<Value, BuildError> {
        const OP: &str = "Resize";
        let [c, h, w] = self.maps_of(name, OP, x)?;
        // Sizes would have to include the batch, and burn-onnx does not support the operator set
        // that has `axes`; scales keep the batch size free.
        let scales = [1.0, 1.0, scale(name, h, size[0])?, scale(name, w, size[1])?];
        let scales_name = format!("{name}.scales");
        let scales_value = self.value(&scales_name, vec![Dim::Fixed(4)], false)?;
        self.initializers.push((scales_value, TensorProto::floats(&scales_name, &[4], &scales)));
        let shape = vec![Dim::Batch, Dim::Fixed(c), Dim::Fixed(size[0]), Dim::Fixed(size[1])];
        self.node_optional(name, OP, vec![Some(x), None, Some(scales_value)], shape, attributes)
    }

    /// Adds a `Flatten`: `[N, a, b, …]` to `[N, a·b·…]`, row-major.
    ///
    /// # Errors
    /// [`BuildError::Shape`] without a batch axis.
    pub fn flatten(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let features = self.sample_elements(name, "Flatten", x)?;
        let shape = vec![Dim::Batch, Dim::Fixed(features)];
        self.node(name, "Flatten", &[x], shape, vec![AttributeProto::int("axis", 1)])
    }

    /// Adds a `Reshape` of each sample to `dims`, row-major: `[N, …]` to `[N, dims…]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`] without a batch axis, [`BuildError::Geometry`] if the number of
    /// elements changes.
    pub fn reshape(&mut self, name: &str, x: Value, dims: &[usize]) -> Result<Value, BuildError> {
        const OP: &str = "Reshape";
        let elements = self.sample_elements(name, OP, x)?;
        let wanted = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if dims.is_empty() || wanted != Some(elements) {
            return Err(geometry(name, OP, format!("{elements} elements a sample do not make {dims:?}")));
        }
        // The batch is -1, not 0: tract and burn-onnx infer it, whatever the previous rank was.
        let target: Vec<i64> = std::iter::once(-1).chain(dims.iter().map(|&d| d as i64)).collect();
        let target = self.integers(&format!("{name}.shape"), &target)?;
        let shape = std::iter::once(Dim::Batch).chain(dims.iter().map(|&d| Dim::Fixed(d))).collect();
        self.node(name, OP, &[x, target], shape, Vec::new())
    }

    fn sample_elements(&self, name: &str, operator: &'static str, x: Value) -> Result<usize, BuildError> {
        let shape = self.shape_of(name, x)?;
        let elements = match shape {
            [Dim::Batch, rest @ ..] => rest.iter().try_fold(1usize, |n, d| match d {
                Dim::Fixed(size) => n.checked_mul(*size),
                Dim::Batch => None,
            }),
            _ => None,
        };
        elements.ok_or_else(|| BuildError::Shape {
            node: name.into(),
            operator,
            expected: "[N, …]".into(),
            found: shape.to_vec(),
        })
    }
}

/// The nearest float to `to / from`, not below it, for which every runtime rounds down the product
/// with `from` to `to`, both in single and in double precision.
fn scale(name: &str, from: usize, to: usize) -> Result<f32, BuildError> {
    let mut scale = to as f32 / from as f32;
    if to > 0 {
        for _ in 0..4 {
            let single = (from as f32 * scale) as usize;
            let double = (from as f64 * f64::from(scale)) as usize;
            if single == to && double == to {
                return Ok(scale);
            }
            scale = scale.next_up();
        }
    }
    Err(geometry(name, "Resize", format!("no scale takes {from} to {to}")))
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn scales_reach_every_size() {
        for from in 1..=300usize {
            for to in 1..=600 {
                let s = scale("r", from, to).unwrap();
                let exact = to as f64 / from as f64;
                assert!((f64::from(s) / exact - 1.0).abs() < 3e-7, "{from} to {to}: {s}");
            }
        }
        assert!(scale("r", 3, 0).is_err());
    }
}
