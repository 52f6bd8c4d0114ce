//! Which kernels a target and rustc's flags choose: what `build.rs` makes of them.

#[path = "../build/extensions.rs"]
mod extensions;

use extensions::{Extensions, extensions};

const V8: &str = "thumbv8m.main-none-eabihf";
const NONE: Extensions = Extensions { dsp: None, mve: false };
const V8_DSP: Extensions = Extensions { dsp: Some("v8"), mve: false };
const V8_HELIUM: Extensions = Extensions { dsp: Some("v8"), mve: true };

/// Flags as cargo passes them, given with spaces.
fn of(target: &str, flags: &str) -> Extensions {
    extensions(target, &flags.replace(' ', "\x1f"))
}

#[test]
fn a_target_has_what_its_architecture_always_has() {
    let v7 = Extensions { dsp: Some("v7"), mve: false };
    assert_eq!(of("thumbv7em-none-eabi", ""), v7);
    assert_eq!(of("thumbv7em-none-eabihf", "-C target-cpu=cortex-m7"), v7);
    for target in ["thumbv6m-none-eabi", "thumbv7m-none-eabi", "thumbv8m.base-none-eabi", V8] {
        assert_eq!(of(target, ""), NONE, "{target}");
    }
    for target in ["x86_64-unknown-linux-gnu", "riscv32imac-unknown-none-elf"] {
        assert_eq!(of(target, "-C target-cpu=cortex-m55 -C target-feature=+dsp,+mve"), NONE, "{target}");
    }
}

#[test]
fn the_last_core_counts_however_it_is_written() {
    for (core, expected) in [
        ("cortex-m33", V8_DSP),
        ("cortex-m35p", V8_DSP),
        ("cortex-m52", V8_HELIUM),
        ("cortex-m55", V8_HELIUM),
        ("cortex-m85", V8_HELIUM),
        ("cortex-m333", NONE),
        ("generic", NONE),
    ] {
        for flag in ["-C target-cpu=", "-Ctarget-cpu=", "--codegen=target-cpu=", "--codegen target-cpu="] {
            assert_eq!(of(V8, &format!("{flag}{core}")), expected, "{flag}{core}");
            let earlier = format!("-C target-cpu=cortex-m55 -C opt-level=3 {flag}{core}");
            assert_eq!(of(V8, &earlier), expected, "{earlier}");
        }
    }
    // Another option whose value looks like it.
    assert_eq!(of(V8, "-C link-arg=target-cpu=cortex-m55"), NONE);
}

#[test]
fn features_are_whole_words_and_the_last_one_counts() {
    let m55 = |features: &str| of(V8, &format!("-C target-cpu=cortex-m55 {features}"));
    assert_eq!(m55("-C target-feature=-mve"), V8_DSP);
    assert_eq!(m55("-C target-feature=-mve.fp"), V8_HELIUM);
    assert_eq!(m55("-C target-feature=-fp64,-mve.fp,+strict-align"), V8_HELIUM);
    assert_eq!(m55("-C target-feature=-mve -C target-feature=+mve"), V8_HELIUM);
    assert_eq!(m55("-C target-feature=+mve,-mve"), V8_DSP);
    assert_eq!(m55("-Ctarget-feature=-dsp"), NONE);
    // Helium brings what it needs.
    assert_eq!(m55("-C target-feature=-dsp,+mve.fp"), V8_HELIUM);
    assert_eq!(m55("-C link-arg=--defsym=a-mve=1"), V8_HELIUM);
    assert_eq!(of(V8, "-C target-feature=-dsp -C target-cpu=cortex-m33"), NONE);
    assert_eq!(of(V8, "-C target-feature=+dsp"), V8_DSP);
    assert_eq!(of(V8, "-C target-feature=+mve"), V8_HELIUM);
    assert_eq!(of("thumbv7em-none-eabihf", "-C target-feature=-dsp"), NONE);
    assert_eq!(of("thumbv7em-none-eabihf", "-C target-feature=+mve"), Extensions { dsp: Some("v7"), mve: false });
}
