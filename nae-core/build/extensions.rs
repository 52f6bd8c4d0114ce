//! Which extensions of the instruction set rustc is told of, by target and flags. For `build.rs`, and tested in
//! `tests/extensions.rs`.

/// What the kernels ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extensions {
    /// SMLAD and friends: version of the architecture that has them.
    pub(crate) dsp: Option<&'static str>,
    /// Helium, for integers at least.
    pub(crate) mve: bool,
}

/// The extensions of a target with rustc's flags, as cargo separates them in `CARGO_ENCODED_RUSTFLAGS`.
pub(crate) fn extensions(target: &str, flags: &str) -> Extensions {
    let version = if target.starts_with("thumbv7em") {
        "v7"
    } else if target.starts_with("thumbv8m.main") {
        "v8"
    } else {
        return Extensions::default();
    };
    // `-C x=y`, which are two arguments, `-Cx=y` or `--codegen=x=y`.
    let options = flags.split('\x1f').map(|argument| {
        let option = argument.strip_prefix("--codegen=").or(argument.strip_prefix("-C")).unwrap_or(argument);
        option.split_once('=').unwrap_or_default()
    });
    // ARMv7E-M has SMLAD. ARMv8-M may have it: these cores do, and the compiler must be told of them for the assembler to take
    // the instructions. As for every option, the last one counts.
    let cpu = options.clone().rfind(|(name, _)| *name == "target-cpu").map_or("", |(_, cpu)| cpu);
    let mut mve = version == "v8" && matches!(cpu, "cortex-m55" | "cortex-m85");
    let mut dsp = version == "v7" || mve || matches!(cpu, "cortex-m33" | "cortex-m35p");
    // Lists of features add up, and the last word on a feature counts. Helium needs the DSP extension; its part for floats, of
    // which no kernel makes use, needs that for integers.
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
