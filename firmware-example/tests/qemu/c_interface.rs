//! `nae-core/c/examples/cortex-m4f`, a C program on `nae-core`'s C interface, under QEMU. It contains the 8-bit model,
//! so these tests do not exist with the feature `f32-model`.

use crate::host_energies;
use crate::machine::{assert_near, flash, run_text, tool, variable};

/// Bytes of the images in the program's flash.
const IMAGES: usize = 3840;

/// Checks that the results of the program in `folder` are the host's, that its cost is the recorded one, and that it
/// contains no panic.
fn check(library: &str, elf: &str, recorded: u64) {
    let elf = variable(elf);
    let run = run_text("mps2-an386", &elf);
    assert_eq!(run.energies, host_energies());
    assert_eq!(run.instructions.len(), run.energies.len());
    let most = *run.instructions.iter().max().unwrap();
    let model = include_bytes!("../../../models/digits/digits-int8.nae").len();
    let (flash, ram) = (flash(&elf), ram(&elf));
    println!("C on Cortex-M4F (mps2-an386), {library}, {} images equal to the host bit for bit", run.energies.len());
    println!("  executed instructions per image      {most} at most");
    println!(
        "  flash                                {flash} bytes, {} without model and images",
        flash - model - IMAGES
    );
    println!("  RAM and peak stack                   {ram} + {} bytes", run.stack);
    assert_near(library, most, recorded);
    assert!(run.stack > 0 && run.stack < 2560, "{} bytes of stack", run.stack);
    let symbols = tool("nm", &["-C"], &elf);
    for name in ["panicking", "panic_fmt", "nae_core_panicked"] {
        assert!(!symbols.contains(name), "{name} is linked into {}", elf.display());
    }
}

/// Number of bytes of RAM that statics take.
fn ram(elf: &std::path::Path) -> usize {
    let sizes = tool("size", &[], elf);
    sizes.lines().nth(1).unwrap().split_whitespace().skip(1).take(2).map(|n| n.parse::<usize>().unwrap()).sum()
}

#[test]
fn c_with_all_operators() {
    check("all operators", "NAE_C_ALL", 900_692);
}

#[test]
fn c_with_the_operators_of_one_model() {
    check("the operators of one model", "NAE_C_ONE", 901_059);
}
