//! The extensions of the instruction set that rustc enables, by target and flags. Used by `build.rs`, and tested in
//! `tests/extensions.rs`.

/// The extensions that the kernels use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extensions {
    /// SMLAD and related instructions: the version of the architecture that has them.
    pub(crate) dsp: Option<&'static str>,
    /// Helium, at least for integers.
    pub(crate) mve: bool,
}

/// Returns the extensions of a target with rustc's flags, separated as cargo does in `CARGO_ENCODED_RUSTFLAGS`.
pub(crate) fn extensions(target: &str, flags: &str) -> Extensions {
    let version = if target.starts_with("thumbv7em") {
        "v7"
    } else if target.starts_with("thumbv8m.main") {
        "v8"
    } else {
        return Extensions::default();
    };
    // An option is `-C x=y`, which are two arguments, `-Cx=y` or `--codegen=x=y`.
    let options = flags.split('\x1f').map(|argument| {
        let option = argument.strip_prefix("--codegen=").or(argument.strip_prefix("-C")).unwrap_or(argument);
        option.split_once('=').unwrap_or_default()
    });
    // ARMv7E-M has SMLAD. ARMv8-M may have it: these cores do, and they must be named to the compiler so that the
    // assembler accepts the instructions. As for every option, the last one counts.
    let cpu = options.clone().rfind(|(name, _)| *name == "target-cpu").map_or("", |(_, cpu)| cpu);
    let mut mve = version == "v8" && matches!(cpu, "cortex-m52" | "cortex-m55" | "cortex-m85");
    let mut dsp = version == "v7" || mve || matches!(cpu, "cortex-m33" | "cortex-m35p");
    // Lists of features add up, and the last mention of a feature counts. Helium needs the DSP extension; its part for
    // floats, which no kernel uses, needs the part for integers.
    let lists = options.filter(|(name, _)| *name == "target-feature");
    for feature in lists.flat_map(|(_, list)| list.split(',')) {
        match feature.trim() {
            "+dsp" => dsp = true,
            "-dsp" => (dsp, mve) = (false, false),
            "+mve" | "+mve.fp" if version == "v8" => (dsp, mve) = (true, true),
            "-mve" => mve = false,
            _ => {}
        }
    }
    Extensions { dsp: dsp.then_some(version), mve }
}
