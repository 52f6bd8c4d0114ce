//! Rectifiers, sigmoid, the projection to the sphere, and the energy, each with its backward pass.

use pulp::Arch;

use super::plane::Planes;

/// x where positive, `slope`·x elsewhere.
pub fn rectify(x: &Planes, slope: f32) -> Planes {
    let mut output = Planes::scratch(x.n, x.size);
    Arch::new().dispatch(|| {
        for (y, x) in output.data.iter_mut().zip(&x.data) {
            *y = if *x > 0.0 { *x } else { slope * *x };
        }
    });
    output
}

/// The gradient before a rectifier, in place. `decisive` is its input, or its output where `slope` is not negative.
pub fn rectify_backward(decisive: &Planes, slope: f32, gradient: &mut Planes) {
    Arch::new().dispatch(|| {
        for (g, y) in gradient.data.iter_mut().zip(&decisive.data) {
            *g = if *y > 0.0 { *g } else { slope * *g };
        }
    });
}

/// 1 / (1 + exp(−x)), in place.
pub fn sigmoid(x: &mut Planes) {
    for value in &mut x.data {
        *value = 1.0 / (1.0 + (-*value).exp());
    }
}

/// The gradient before a sigmoid whose output was `output`, in place.
pub fn sigmoid_backward(output: &Planes, gradient: &mut Planes) {
    for (g, y) in gradient.data.iter_mut().zip(&output.data) {
        *g *= y * (1.0 - y);
    }
}

/// a + b, in place of a.
pub fn add(a: &mut Planes, b: &Planes) {
    Arch::new().dispatch(|| {
        for (a, b) in a.data.iter_mut().zip(&b.data) {
            *a += b;
        }
    });
}

/// a ⊙ b, in place of a.
pub fn multiply(a: &mut Planes, b: &Planes) {
    Arch::new().dispatch(|| {
        for (a, b) in a.data.iter_mut().zip(&b.data) {
            *a *= b;
        }
    });
}

/// Divides each sample by its norm, in place; returns the norms.
pub fn normalize(x: &mut Planes) -> Vec<f32> {
    let len = x.size.len();
    x.data
        .chunks_exact_mut(len)
        .map(|sample| {
            let norm = sample.iter().map(|v| v * v).sum::<f32>().sqrt();
            for value in sample {
                *value /= norm;
            }
            norm
        })
        .collect()
}

/// The gradient before [`normalize`], whose output was `output`: (g − z·⟨z, g⟩) / norm, in place.
pub fn normalize_backward(output: &Planes, norms: &[f32], gradient: &mut Planes) {
    let len = output.size.len();
    for ((g, z), norm) in gradient.data.chunks_exact_mut(len).zip(output.data.chunks_exact(len)).zip(norms) {
        let along: f32 = g.iter().zip(z).map(|(g, z)| g * z).sum();
        for (g, z) in g.iter_mut().zip(z) {
            *g = (*g - z * along) / norm;
        }
    }
}

/// Mean squared difference of each sample, and its gradient with respect to `x`: 2(x − r)/D. That with respect to the
/// reconstruction is its negative.
pub fn squared_l2(x: &Planes, reconstruction: &Planes) -> (Vec<f32>, Planes) {
    let len = x.size.len();
    let mut gradient = Planes::scratch(x.n, x.size);
    let scale = 2.0 / len as f32;
    let energies = x
        .data
        .chunks_exact(len)
        .zip(reconstruction.data.chunks_exact(len))
        .zip(gradient.data.chunks_exact_mut(len))
        .map(|((x, r), g)| {
            let mut sum = 0.0;
            for ((x, r), g) in x.iter().zip(r).zip(g) {
                let difference = x - r;
                sum += difference * difference;
                *g = difference * scale;
            }
            sum / len as f32
        })
        .collect();
    (energies, gradient)
}
