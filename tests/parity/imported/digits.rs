// Of the file with the SHA-256 digest 3afc35614cdee6fc45980a05cee496dff919e2fb89011138a54f6d3ada6eb0ee.
// Generated from ONNX "models/digits/digits.onnx" by burn-onnx
extern crate alloc;
use burn::prelude::*;
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::nn::conv::Conv2dConfig;
use burn::nn::conv::ConvTranspose2d;
use burn::nn::conv::ConvTranspose2dConfig;
use burn::nn::pool::MaxPool2d;
use burn::nn::pool::MaxPool2dConfig;
use burn::tensor::Bytes;
use burn_store::BurnpackStore;
use burn_store::ModuleSnapshot;


#[derive(Module, Debug)]
pub struct Model {
    conv2d1: Conv2d,
    conv2d2: Conv2d,
    maxpool2d1: MaxPool2d,
    conv2d3: Conv2d,
    conv2d4: Conv2d,
    conv2d5: Conv2d,
    convtranspose2d1: ConvTranspose2d,
    resize1: burn::nn::interpolate::Interpolate2d,
    convtranspose2d2: ConvTranspose2d,
    resize2: burn::nn::interpolate::Interpolate2d,
    convtranspose2d3: ConvTranspose2d,
    convtranspose2d4: ConvTranspose2d,
    #[module(skip)]
    device: Device,
}


#[repr(C, align(256))]
struct Aligned256([u8; 366340usize]);
static ALIGNED_DATA: Aligned256 = Aligned256(
    *include_bytes!("digits.bpk"),
);
static EMBEDDED_STATES: &[u8] = &ALIGNED_DATA.0;

impl Default for Model {
    fn default() -> Self {
        Self::from_embedded(&Default::default())
    }
}

impl Model {
    /// Load model weights from embedded burnpack data (zero-copy at store level).
    ///
    /// The embedded data stays in the binary's .rodata section without heap allocation.
    /// Tensor data is sliced directly from the static bytes.
    ///
    /// Note: Some backends may still copy data internally.
    /// See <https://github.com/tracel-ai/burn/issues/4153> for true backend zero-copy.
    ///
    /// See <https://github.com/tracel-ai/burn/issues/4123>
    pub fn from_embedded(device: &Device) -> Self {
        let mut model = Self::new(device);
        let mut store = BurnpackStore::from_static(EMBEDDED_STATES);
        model
            .load_from(&mut store)
            .unwrap_or_else(|e| {
                panic!(
                    "Failed to load embedded burnpack (built from {}): {e}",
                    "digits.bpk"
                )
            });
        model
    }

    /// Load model weights from in-memory bytes.
    ///
    /// The bytes must be the contents of a `.bpk` file.
    pub fn from_bytes(bytes: Bytes, device: &Device) -> Self {
        let mut model = Self::new(device);
        let mut store = BurnpackStore::from_bytes(Some(bytes));
        model
            .load_from(&mut store)
            .unwrap_or_else(|e| panic!("Failed to load burnpack bytes: {e}"));
        model
    }
}

impl Model {
    #[allow(unused_variables)]
    pub fn new(device: &Device) -> Self {
        let conv2d1 = Conv2dConfig::new([1, 8], [3, 3])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let conv2d2 = Conv2dConfig::new([8, 16], [3, 3])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let maxpool2d1 = MaxPool2dConfig::new([2, 2])
            .with_strides([2, 2])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_ceil_mode(false)
            .init();
        let conv2d3 = Conv2dConfig::new([16, 32], [3, 3])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let conv2d4 = Conv2dConfig::new([32, 128], [4, 4])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let conv2d5 = Conv2dConfig::new([128, 32], [1, 1])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let convtranspose2d1 = ConvTranspose2dConfig::new([32, 32], [3, 3])
            .with_stride([1, 1])
            .with_padding([0, 0])
            .with_padding_out([0, 0])
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let resize1 = burn::nn::interpolate::Interpolate2dConfig::new()
            .with_output_size(None)
            .with_scale_factor(Some([1.6666667, 1.6666667]))
            .with_mode(burn::nn::interpolate::InterpolateMode::Linear)
            .with_align_corners(true)
            .init();
        let convtranspose2d2 = ConvTranspose2dConfig::new([32, 16], [3, 3])
            .with_stride([1, 1])
            .with_padding([0, 0])
            .with_padding_out([0, 0])
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let resize2 = burn::nn::interpolate::Interpolate2dConfig::new()
            .with_output_size(None)
            .with_scale_factor(Some([1.7142857, 1.7142857]))
            .with_mode(burn::nn::interpolate::InterpolateMode::Linear)
            .with_align_corners(true)
            .init();
        let convtranspose2d3 = ConvTranspose2dConfig::new([16, 8], [3, 3])
            .with_stride([1, 1])
            .with_padding([0, 0])
            .with_padding_out([0, 0])
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let convtranspose2d4 = ConvTranspose2dConfig::new([8, 1], [3, 3])
            .with_stride([1, 1])
            .with_padding([0, 0])
            .with_padding_out([0, 0])
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        Self {
            conv2d1,
            conv2d2,
            maxpool2d1,
            conv2d3,
            conv2d4,
            conv2d5,
            convtranspose2d1,
            resize1,
            convtranspose2d2,
            resize2,
            convtranspose2d3,
            convtranspose2d4,
            device: device.clone(),
        }
    }

    #[allow(clippy::let_and_return, clippy::approx_constant)]
    pub fn forward(&self, image: Tensor<4>) -> (Tensor<4>, Tensor<1>, Tensor<2>) {
        let conv2d1_out1 = self.conv2d1.forward(image.clone());
        let relu1_out1 = burn::tensor::activation::relu(conv2d1_out1);
        let conv2d2_out1 = self.conv2d2.forward(relu1_out1);
        let relu2_out1 = burn::tensor::activation::relu(conv2d2_out1);
        let maxpool2d1_out1 = self.maxpool2d1.forward(relu2_out1);
        let conv2d3_out1 = self.conv2d3.forward(maxpool2d1_out1);
        let relu3_out1 = burn::tensor::activation::relu(conv2d3_out1);
        let conv2d4_out1 = self.conv2d4.forward(relu3_out1);
        let relu4_out1 = burn::tensor::activation::relu(conv2d4_out1);
        let conv2d5_out1 = self.conv2d5.forward(relu4_out1);
        let reducel21_out1 = {
            let input_dtype = conv2d5_out1.clone().dtype();
            conv2d5_out1
                .clone()
                .square()
                .sum_dim(1usize)
                .cast(burn::tensor::DType::F32)
                .sqrt()
                .cast(input_dtype)
        };
        let div1_out1 = conv2d5_out1.div(reducel21_out1);
        let convtranspose2d1_out1 = self.convtranspose2d1.forward(div1_out1.clone());
        let relu5_out1 = burn::tensor::activation::relu(convtranspose2d1_out1);
        let resize1_out1 = self.resize1.forward(relu5_out1);
        let convtranspose2d2_out1 = self.convtranspose2d2.forward(resize1_out1);
        let relu6_out1 = burn::tensor::activation::relu(convtranspose2d2_out1);
        let resize2_out1 = self.resize2.forward(relu6_out1);
        let convtranspose2d3_out1 = self.convtranspose2d3.forward(resize2_out1);
        let relu7_out1 = burn::tensor::activation::relu(convtranspose2d3_out1);
        let convtranspose2d4_out1 = self.convtranspose2d4.forward(relu7_out1);
        let sigmoid1_out1 = burn::tensor::activation::sigmoid(convtranspose2d4_out1);
        let sub1_out1 = image.sub(sigmoid1_out1.clone());
        let mul1_out1 = sub1_out1.clone().mul(sub1_out1);
        let reducemean1_out1 = {
            mul1_out1
                .mean_dim(1usize)
                .mean_dim(2usize)
                .mean_dim(3usize)
                .squeeze_dims::<1usize>(&[1, 2, 3])
        };
        let flatten1_out1 = {
            let leading_dim = div1_out1.shape()[..1].iter().product::<usize>() as i32;
            div1_out1.reshape::<2, _>([leading_dim, -1])
        };
        (sigmoid1_out1, reducemean1_out1, flatten1_out1)
    }
}
