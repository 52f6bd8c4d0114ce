//! As `non_finite`, one number at a time. A process has one set of instructions, so this is another program.
#![allow(clippy::unwrap_used)]

mod support;

use nae_simd::Instructions;

#[test]
fn plain_instructions_give_the_same() {
    Instructions::Plain.choose_for_process().unwrap();
    support::functions_are_those_of_nae_core();
    support::overflow_remains_in_convolutions();
    support::pools_keep_nan();
    support::norms_are_right_beyond_the_squares();
}
