//! Which vector instructions the loops run on: the best that the processor has, chosen by [`pulp`], or those that the
//! program asks for, to test and to time what another processor would do.

use std::str::FromStr;
use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};

/// What all loops of this process run on, once it is chosen.
static CHOSEN: OnceLock<Instructions> = OnceLock::new();

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instructions {
    /// The best there is.
    #[default]
    Best,
    /// AVX2 with fused multiply-add, although there may be AVX-512.
    Avx2,
    /// One number at a time.
    Plain,
}

/// An instruction set that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No such name.
    #[error("`{0}` is no instruction set; expected `avx2` or `plain`, or nothing for the best there is")]
    Unknown(String),
    /// The processor does not have it.
    #[error("this processor does not have `avx2`; ask for nothing, and the best there is is taken")]
    Missing,
    /// The loops run on another one already.
    #[error("the instruction set was chosen before: a process has one")]
    Chosen,
}

impl Instructions {
    /// Has all loops of this process run on these: to be called once, before anything is compiled. Without it they run
    /// on the best there is.
    ///
    /// # Errors
    /// [`Unavailable::Chosen`] where the loops run on others already.
    pub fn choose_for_process(self) -> Result<(), Unavailable> {
        if *CHOSEN.get_or_init(|| self) == self { Ok(()) } else { Err(Unavailable::Chosen) }
    }

    /// What all loops of this process run on.
    fn of_process() -> Self {
        *CHOSEN.get_or_init(Self::default)
    }
}

/// `avx2` or `plain`.
impl FromStr for Instructions {
    type Err = Unavailable;

    fn from_str(name: &str) -> Result<Self, Unavailable> {
        match name {
            "avx2" if has_avx2() => Ok(Self::Avx2),
            "avx2" => Err(Unavailable::Missing),
            "plain" => Ok(Self::Plain),
            _ => Err(Unavailable::Unknown(name.to_owned())),
        }
    }
}

/// Runs `op` on the chosen instructions.
#[inline]
pub fn dispatch<Op: WithSimd>(op: Op) -> Op::Output {
    match Instructions::of_process() {
        Instructions::Best => Arch::new().dispatch(op),
        Instructions::Avx2 => on_avx2(op),
        Instructions::Plain => op.with_simd(pulp::Scalar),
    }
}

/// Channels that are computed together where there are `channels` of them: sixteen fill one AVX-512 register, eight one
/// of AVX2. Half-empty vectors of sixteen are no quicker than full ones of eight.
pub fn lanes(channels: usize) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            S::F32_LANES
        }
    }
    let longest = dispatch(Lanes);
    if longest == 16 && !channels.is_multiple_of(16) && channels <= 32 { 8 } else { longest }
}

/// Runs `op` with vectors of `lanes` values, one of those that [`lanes`] gives.
pub(crate) fn on_vectors_of<Op: WithSimd>(lanes: usize, op: Op) -> Op::Output {
    if lanes == 8 && Instructions::of_process() == Instructions::Best { on_avx2(op) } else { dispatch(op) }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    pulp::x86::V3::try_new().is_some()
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

/// Runs `op` on AVX2 where there is any.
#[inline]
fn on_avx2<Op: WithSimd>(op: Op) -> Op::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        struct Call<Op>(pulp::x86::V3, Op);
        impl<Op: WithSimd> pulp::NullaryFnOnce for Call<Op> {
            type Output = Op::Output;
            #[inline(always)]
            fn call(self) -> Op::Output {
                self.1.with_simd(self.0)
            }
        }
        return simd.vectorize(Call(simd, op));
    }
    Arch::new().dispatch(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!("plain".parse(), Ok(Instructions::Plain));
        assert!(matches!("avx2".parse(), Ok(Instructions::Avx2) | Err(Unavailable::Missing)));
        let error = "sse9".parse::<Instructions>().expect_err("no such name").to_string();
        assert!(error.contains("`sse9`") && error.contains("`avx2`"), "{error}");
    }
}
