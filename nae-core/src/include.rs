//! The macro that embeds a model at compile time.

/// Embeds a `.nae` file in the program: aligned, checked by the compiler, with the arena's length and the operator set
/// as constants. A malformed file fails the build.
///
/// `include_model! { pub struct Digits = "digits.nae"; }` declares the unit struct `Digits` with
/// - `Digits::MODEL`: the checked [`Model`](crate::model::Model),
/// - `Digits::ARENA_LEN`: length of the arena in `f32`,
/// - `Digits::IMAGE_LEN`: number of values of an image,
/// - `Digits::engine()`: an [`Engine`](crate::engine::Engine) with this model's operators only.
///
/// The path is relative to the file of the call, as in `include_bytes!`. The compiler takes about five seconds per
/// megabyte to check the file, in each crate that uses one of the constants; beyond a few megabytes it warns that
/// evaluation takes long.
///
/// ```
/// nae_core::include_model! {
///     /// A box blur.
///     struct Blur = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blur.nae");
/// }
///
/// let mut arena = [0.0; Blur::ARENA_LEN];
/// let image = [0.5; Blur::IMAGE_LEN];
/// let output = Blur::engine()?.run(&image, &mut arena)?;
/// assert!(output.score.energy < 0.1);
/// # Ok::<(), nae_core::engine::EngineError>(())
/// ```
///
/// # Section of the file
/// By default, the file lies with the program's other constants. `section = "…"` after the path names another section
/// of the linker script, for example one in a QSPI flash that is mapped into memory (execute in place):
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// nae_core::include_model! {
///     /// A box blur, whose weights lie in the flash outside the chip.
///     struct Blur = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blur.nae"), section = ".qspi.models";
/// }
/// assert_eq!(Blur::IMAGE_LEN, 16);
/// # }
/// ```
///
/// with, in the linker script,
///
/// ```text
/// SECTIONS { .qspi : ALIGN(16) { KEEP(*(.qspi.models)) } > QSPI }
/// ```
///
/// The section must be readable at its address when the model is run, with the bytes that were linked: on the chip, the
/// program first has to map the flash. On Cortex-M it must be memory of type Normal, see
/// [`Engine`](crate::engine::Engine). The lengths and the set of operators are constants, so nothing in the section is
/// read for them. Attributes before `struct` apply to the unit struct, not to the bytes.
///
/// # A damaged file
/// The same file with one bit of a weight changed does not compile:
/// ```compile_fail
/// nae_core::include_model! {
///     /// A box blur, damaged.
///     struct Blur = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blur-damaged.nae");
/// }
///
/// let mut arena = [0.0; Blur::ARENA_LEN];
/// let image = [0.5; Blur::IMAGE_LEN];
/// let output = Blur::engine()?.run(&image, &mut arena)?;
/// assert!(output.score.energy < 0.1);
/// # Ok::<(), nae_core::engine::EngineError>(())
/// ```
#[macro_export]
macro_rules! include_model {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident = $path:expr $(, section = $section:literal)? $(;)?
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        impl $name {
            /// The model, checked at compile time.
            #[allow(long_running_const_eval)]
            pub const MODEL: $crate::model::Model<'static> = {
                #[repr(C, align(16))]
                struct Aligned<const N: usize>([u8; N]);
                $(#[unsafe(link_section = $section)])?
                static FILE: Aligned<{ include_bytes!($path).len() }> =
                    Aligned(*include_bytes!($path));
                match $crate::model::Model::parse(&FILE.0) {
                    Ok(model) => model,
                    Err(error) => panic!("{}", error.message()),
                }
            };

            /// Length of the arena the engine needs, in `f32`.
            pub const ARENA_LEN: usize = Self::MODEL.arena_len();

            /// Number of values of an image.
            pub const IMAGE_LEN: usize = Self::MODEL.input_shape().len();

            /// Returns an engine that contains only the operators of this model.
            ///
            /// # Errors
            /// [`EngineError::Endianness`]($crate::engine::EngineError::Endianness) on a big-endian target. There is no
            /// other error: the file is aligned and checked at compile time.
            pub fn engine() -> Result<
                $crate::engine::Engine<'static, { $name::MODEL.operators().bits() }>,
                $crate::engine::EngineError,
            > {
                static MODEL: $crate::model::Model<'static> = $name::MODEL;
                $crate::engine::Engine::with_operators(&MODEL)
            }
        }
    };
}
