//! Structural similarity (Wang, Bovik, Sheikh and Simoncelli, IEEE TIP 13(4), 2004), equation 13, as an energy.
//!
//! The window is a product of two Gaussians, one for each axis, so the weighted means over windows are two products
//! with constant matrices, which are as portable and as differentiable as a dense layer.

use burn::tensor::{Device, Tensor, TensorData};

/// The side of the window, in pixels; the image's side if that is smaller.
const SIDE: usize = 11;
/// The standard deviation of the window's weights, in pixels.
const SIGMA: f64 = 1.5;
const C1: f32 = 0.01 * 0.01;
const C2: f32 = 0.03 * 0.03;

/// One minus the mean structural similarity of images `[N, C, H, W]` in [0, 1] and their reconstructions; `[N]`, in [0,
/// 2]. [`nae_core::energy::Energy::Ssim`] has the complete definition.
pub(crate) fn ssim(x: Tensor<4>, reconstruction: Tensor<4>) -> Tensor<1> {
    let windows = Windows::new(&x);
    // Variances do not change if both images are shifted by the same value; near zero, there is less cancellation in
    // E[x²] − E[x]².
    let [n, c, h, w] = x.dims();
    let middle = x.clone().detach().reshape([n, c, h * w]).mean_dim(2).reshape([n, c, 1, 1]);
    let (a, b) = (x - middle.clone(), reconstruction - middle.clone());
    let (mean_a, mean_b) = (windows.mean(a.clone()), windows.mean(b.clone()));
    let variance_a = windows.mean(a.clone() * a.clone()) - mean_a.clone() * mean_a.clone();
    let variance_b = windows.mean(b.clone() * b.clone()) - mean_b.clone() * mean_b.clone();
    let covariance = windows.mean(a * b) - mean_a.clone() * mean_b.clone();
    let (mean_x, mean_y) = (mean_a + middle.clone(), mean_b + middle);

    let luminance = ((mean_x.clone() * mean_y.clone()).mul_scalar(2.0).add_scalar(C1))
        / ((mean_x.clone() * mean_x) + (mean_y.clone() * mean_y)).add_scalar(C1);
    let structure = covariance.mul_scalar(2.0).add_scalar(C2) / (variance_a + variance_b).add_scalar(C2);
    super::sample_mean(luminance * structure).neg().add_scalar(1.0)
}

/// The weighted means over every window within the image.
struct Windows {
    /// The matrix for the vertical axis, `[1, 1, H′, H]`.
    down: Tensor<4>,
    /// The matrix for the horizontal axis, `[1, 1, W, W′]`.
    across: Tensor<4>,
}

impl Windows {
    fn new(x: &Tensor<4>) -> Self {
        let [_, _, h, w] = x.dims();
        Self { down: axis(h, &x.device()), across: axis(w, &x.device()).swap_dims(2, 3) }
    }

    fn mean(&self, x: Tensor<4>) -> Tensor<4> {
        let [n, c, ..] = x.dims();
        let expand = |matrix: &Tensor<4>| {
            let [_, _, rows, columns] = matrix.dims();
            matrix.clone().expand([n, c, rows, columns])
        };
        expand(&self.down).matmul(x).matmul(expand(&self.across))
    }
}

/// The matrix of one axis, `[1, 1, L′, L]`: row k contains the window's weights, starting at place k.
fn axis(length: usize, device: &Device) -> Tensor<4> {
    let side = length.min(SIDE);
    let middle = (side as f64 - 1.0) / 2.0;
    let weights: Vec<f64> = (0..side).map(|i| (-0.5 * ((i as f64 - middle) / SIGMA).powi(2)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let places = length - side + 1;
    let mut matrix = vec![0.0f32; places * length];
    for (place, row) in matrix.chunks_exact_mut(length).enumerate() {
        for (value, weight) in row[place..].iter_mut().zip(&weights) {
            *value = (weight / total) as f32;
        }
    }
    Tensor::from_data(TensorData::new(matrix, [1, 1, places, length]), device)
}
