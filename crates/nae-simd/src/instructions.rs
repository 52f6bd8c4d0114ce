//! The vector instructions of the loops: the best that the processor has, chosen by [`pulp`], or those that the program
//! requests, to test and to time the loops as on another processor.

use std::str::FromStr;
use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};

/// The instructions of all loops of this process, once they are chosen.
static CHOSEN: OnceLock<Instructions> = OnceLock::new();

/// The requested instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instructions {
    /// The best that the processor has.
    #[default]
    Best,
    /// AVX2 with fused multiply-add, even if the processor has AVX-512.
    Avx2,
    /// One number at a time.
    Plain,
}

/// The reason why an instruction set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// There is no instruction set with this name.
    #[error(
        "`{0}` is no instruction set; expected `avx2` or `plain`; unset NAE_INSTRUCTIONS to use the best available"
    )]
    Unknown(String),
    /// The processor does not have it.
    #[error("this processor does not have `avx2`; unset NAE_INSTRUCTIONS to use the best available")]
    Missing,
    /// The loops run on another instruction set already.
    #[error("the instruction set was chosen before: a process has one")]
    Chosen,
}

impl Instructions {
    /// Selects these instructions for all loops of this process; must be called once, before anything is compiled.
    /// Without it, the loops run on the best that the processor has.
    ///
    /// # Errors
    /// [`Unavailable::Chosen`] if the loops run on others already.
    pub fn choose_for_process(self) -> Result<(), Unavailable> {
        if *CHOSEN.get_or_init(|| self) == self { Ok(()) } else { Err(Unavailable::Chosen) }
    }

    /// The instructions of all loops of this process.
    fn of_process() -> Self {
        *CHOSEN.get_or_init(Self::default)
    }
}

/// Parses `avx2` or `plain`.
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

/// Number of channels that are computed together if there are `channels` of them: sixteen fill one AVX-512 register,
/// eight one AVX2 register. Half-empty vectors of sixteen are no faster than full ones of eight.
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

/// Runs `op` with vectors of `lanes` values, a number that [`lanes`] returns.
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

/// Runs `op` on AVX2 if the processor has it.
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
