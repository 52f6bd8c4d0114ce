//! A frozen network (backbone) whose features are used, and the grid of places that its outputs are resampled to.

use nae_core::Shape;
use nae_core::layer::{Padding, ResizeMode};
use nae_graph::{AveragePool2d, Conv2d, Graph, Op, TensorId};
use nae_onnx::builder::{Dim, display_shape};
use nae_onnx::check::graph::CheckedModel;
use nae_onnx::check::{CheckError, Limits, check};
use nae_onnx::lower::{LowerError, described, lower_features};
use nae_simd::CompileError;
use sha2::{Digest as _, Sha256};

use crate::whitening::Projection;

/// The side of the neighbourhood over which the features of a place are averaged, as in PatchCore (Roth et al., CVPR 2022,
/// section 3.1): a defect seldom ends at the border of a place.
const NEIGHBOURHOOD: usize = 3;
/// The largest number of features of a place: the covariance of more takes minutes to decompose.
const MAX_FEATURES: usize = 2048;

/// Why a file cannot be used as a backbone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackboneError {
    /// The file is not valid ONNX, or exceeds the limits.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The network has an unsupported layer, or lacks a requested output.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The input is not an image of one fixed size.
    #[error("expected an input [N, 3, S, S] (or [N, 1, S, S]), square and of fixed size, found {found}; export it so")]
    Input {
        /// The input it has.
        found: String,
    },
    /// None of the outputs is a map [C, H, W].
    #[error(
        "expected outputs [N, C, H, W] with more than one place; found {found}; export the network with middle layers \
             among its outputs"
    )]
    NoMaps {
        /// The outputs it has.
        found: String,
    },
    /// A requested output has only one place.
    #[error(
        "output `{name}` has {height}x{width} places; features are taken from maps with more than one: export the network with \
         middle layers among its outputs"
    )]
    OnePlace {
        /// Its name.
        name: String,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// An output was requested more than once.
    #[error("output `{name}` was named twice; name each once")]
    Twice {
        /// Its name.
        name: String,
    },
    /// The outputs cannot be resampled to one grid.
    #[error(
        "output `{name}` has {height}x{width} places, which are no multiple or part of the {rows}x{columns} of the grid"
    )]
    Grid {
        /// Name of the output.
        name: String,
        /// Its rows.
        height: usize,
        /// Its columns.
        width: usize,
        /// Rows of the grid.
        rows: usize,
        /// Columns of the grid.
        columns: usize,
    },
    /// The network has several outputs, and none was requested by name.
    #[error("expected one output, or the name of the one to use; found {found}")]
    SeveralOutputs {
        /// The outputs it has.
        found: String,
    },
    /// The images have another shape than the input.
    #[error("expected an input [N, {channels}, H, W] of fixed size for images of {channels} channels{}, found {found}",
        if *channels == 1 { ", or [N, 3, H, W]" } else { "" })]
    Channels {
        /// The shape of the images.
        channels: usize,
        /// The input it has.
        found: String,
    },
    /// `nae-simd` does not support a layer.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The number of features of a place is too large.
    #[error("its outputs have {found} channels together; at most {MAX_FEATURES} can be used: name fewer")]
    TooMany {
        /// The number of channels of all outputs together.
        found: usize,
    },
}

/// A frozen network that computes features for each place of an image.
#[derive(Clone, Debug)]
pub struct Backbone {
    graph: Graph,
    taps: Vec<Tap>,
    grid: [usize; 2],
    sha256: String,
}

/// An output of the network whose features are used.
#[derive(Clone, Debug)]
struct Tap {
    name: String,
    tensor: TensorId,
    shape: Shape,
}

impl Backbone {
    /// Reads a network from the bytes of an ONNX file. `outputs` are the names of the outputs to use; without names, all that
    /// are maps. The grid has the places of the output of median size.
    ///
    /// # Errors
    /// [`BackboneError`] says what was expected and what was found.
    pub fn parse(onnx: &[u8], outputs: &[String]) -> Result<Self, BackboneError> {
        let model = check(onnx, &Limits::default())?;
        match model.graph.sample_shape(model.graph.input) {
            Some(Shape { channels: 1 | 3, height: height @ 2.., width }) if height == width => {}
            _ => {
                let found = display_shape(&model.graph.values[model.graph.input].shape);
                return Err(BackboneError::Input { found });
            }
        }
        let names = if outputs.is_empty() { maps(&model)? } else { outputs.to_vec() };
        if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(BackboneError::Twice { name: name.clone() });
        }
        // Before the layers up to them, which may be none of those that are supported.
        for name in &names {
            let value = model.graph.outputs.iter().find(|(output, _)| output == name).map(|(_, value)| *value);
            let shape = value.map(|value| model.graph.values[value].shape.as_slice());
            if let Some(&[_, _, Dim::Fixed(height), Dim::Fixed(width)]) = shape
                && height * width < 2
            {
                return Err(BackboneError::OnePlace { name: name.clone(), height, width });
            }
        }
        let (graph, tensors) = lower_features(&model, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let shapes = graph.shapes().map_err(|error| LowerError::Write { node: None, error })?;
        let taps: Vec<Tap> =
            names.into_iter().zip(tensors).map(|(name, tensor)| Tap { name, tensor, shape: shapes[tensor] }).collect();
        if let Some(Tap { name, shape: Shape { height, width, .. }, .. }) =
            taps.iter().find(|tap| tap.shape.height * tap.shape.width < 2)
        {
            return Err(BackboneError::OnePlace { name: name.clone(), height: *height, width: *width });
        }
        let features = taps.iter().map(|tap| tap.shape.channels).sum();
        if features > MAX_FEATURES {
            return Err(BackboneError::TooMany { found: features });
        }
        let mut sizes: Vec<[usize; 2]> = taps.iter().map(|tap| [tap.shape.height, tap.shape.width]).collect();
        sizes.sort_unstable();
        let grid = sizes[sizes.len() / 2];
        let sha256 = Sha256::digest(onnx).iter().map(|byte| format!("{byte:02x}")).collect();
        let backbone = Self { graph, taps, grid, sha256 };
        for tap in &backbone.taps {
            let (Shape { height, width, .. }, [rows, columns]) = (tap.shape, grid);
            resampled(tap.shape, grid).ok_or(BackboneError::Grid {
                name: tap.name.clone(),
                height,
                width,
                rows,
                columns,
            })?;
        }
        Ok(backbone)
    }

    /// The shape of an image: 1 or 3 channels, with values from 0 to 1.
    pub fn input(&self) -> Shape {
        self.graph.input()
    }

    /// The number of rows and columns of the grid of places.
    pub const fn grid(&self) -> [usize; 2] {
        self.grid
    }

    /// The number of features of a place.
    pub fn features(&self) -> usize {
        self.taps.iter().map(|tap| tap.shape.channels).sum()
    }

    /// The names of the outputs whose features are used.
    pub fn outputs(&self) -> Vec<String> {
        self.taps.iter().map(|tap| tap.name.clone()).collect()
    }

    /// The SHA-256 of the file, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The graph of the network, the resampling to the grid, and `projection`: from an image to `[K, rows, columns]`.
    ///
    /// The projection of all outputs together is the sum of a projection of each. Therefore each output is projected by a 1×1
    /// convolution at its own size, and only K channels are resampled to the grid.
    pub fn projected(&self, projection: &Projection) -> Graph {
        let mut graph = self.graph.clone();
        let (mut sum, mut first) = (None, 0);
        for tap in &self.taps {
            let channels = tap.shape.channels;
            // The offset is added once, with the first output.
            let bias = sum.is_none().then(|| projection.offset().to_vec());
            let conv = Conv2d {
                in_channels: channels,
                out_channels: projection.components(),
                kernel: [1, 1],
                stride: [1, 1],
                padding: Padding::NONE,
                weights: projection.columns(first..first + channels),
                bias: bias.unwrap_or_else(|| vec![0.0; projection.components()]),
                activation: nae_core::layer::Activation::Identity,
            };
            first += channels;
            let mut tensor = graph.push_from(tap.tensor, conv);
            if let Some(Some(op)) = resampled(tap.shape, self.grid) {
                tensor = graph.push_from(tensor, op);
            }
            sum = Some(match sum {
                None => tensor,
                Some(other) => graph.push_from(tensor, Op::Add { other }),
            });
        }
        graph.push(Op::AveragePool2d(AveragePool2d {
            kernel: [NEIGHBOURHOOD; 2],
            stride: [1; 2],
            padding: Padding::all(NEIGHBOURHOOD / 2),
            count_include_padding: false,
        }));
        graph
    }
}

/// The operation that resamples maps of this shape to the grid: none, the mean of blocks, or bilinear enlargement. `None` if
/// the sizes are not in a ratio of whole numbers.
fn resampled(shape: Shape, [rows, columns]: [usize; 2]) -> Option<Option<Op>> {
    let Shape { height, width, .. } = shape;
    if [height, width] == [rows, columns] {
        Some(None)
    } else if height % rows == 0 && width % columns == 0 && height / rows == width / columns {
        let stride = [height / rows, width / columns];
        let padding = Padding::NONE;
        Some(Some(Op::AveragePool2d(AveragePool2d { kernel: stride, stride, padding, count_include_padding: false })))
    } else if rows % height == 0 && columns % width == 0 && rows / height == columns / width {
        Some(Some(Op::Resize { height: rows, width: columns, mode: ResizeMode::BilinearHalfPixel }))
    } else {
        None
    }
}

/// The names of all outputs that are maps.
fn maps(model: &CheckedModel) -> Result<Vec<String>, BackboneError> {
    let graph = &model.graph;
    let is_map = |shape: &[Dim]| matches!(shape, [_, Dim::Fixed(_), Dim::Fixed(height), Dim::Fixed(width)] if height * width > 1);
    let maps = graph.outputs.iter().filter(|(_, value)| is_map(&graph.values[*value].shape));
    let names: Vec<String> = maps.map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return Err(BackboneError::NoMaps { found: described(graph) });
    }
    Ok(names)
}
