//! The logarithm of a sum of exponentials, which likelihoods of mixtures and of samples are.

use burn::tensor::Tensor;

/// log Σ exp along `dim`, which is left with one value. The largest term is taken out, so that nothing overflows.
pub(in crate::methods) fn log_sum_exp<const D: usize>(terms: Tensor<D>, dim: usize) -> Tensor<D> {
    let largest = terms.clone().detach().max_dim(dim);
    (terms - largest.clone()).exp().sum_dim(dim).log() + largest
}
