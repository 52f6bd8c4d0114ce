//! NaN, infinities and very large or small numbers, with the best instructions that the processor has.
#![allow(clippy::unwrap_used)]

mod support;

#[test]
fn functions_are_those_of_nae_core() {
    support::functions_are_those_of_nae_core();
}

#[test]
fn overflow_remains_in_convolutions() {
    support::overflow_remains_in_convolutions();
}

#[test]
fn pools_keep_nan() {
    support::pools_keep_nan();
}

#[test]
fn norms_are_right_beyond_the_squares() {
    support::norms_are_right_beyond_the_squares();
}
