//! The logarithm of a sum of exponentials, for likelihoods of mixtures and of samples.

use burn::tensor::Tensor;

/// log Σ exp along `dim`, which is reduced to one value. The largest term is subtracted first, to avoid overflow.
pub(in crate::methods) fn log_sum_exp<const D: usize>(terms: Tensor<D>, dim: usize) -> Tensor<D> {
    let largest = terms.clone().detach().max_dim(dim);
    (terms - largest.clone()).exp().sum_dim(dim).log() + largest
}
