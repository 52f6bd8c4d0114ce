//! The paper's experiments, to be made again. So far the one in two dimensions: [`gaussians8`].

pub mod gaussians8;
