#![no_std]
#![no_main]
//! One inference of the network of `ad01_int8.tflite` by burn without `std`, in 32-bit floats, between the marks that
//! `tests/qemu/insn-count` counts between. Weights are made up: how many instructions there are does not depend on
//! them.

extern crate alloc;

use core::arch::asm;
use core::hint::black_box;
use core::mem::MaybeUninit;

use alloc::vec::Vec;
use burn::tensor::{Device, Tensor, TensorData, activation::relu};
use cortex_m as _;
use embedded_alloc::LlffHeap;
use semihosting::{println, process};

/// Inputs of each layer, and the outputs of the last.
const WIDTHS: [usize; 11] = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640];

const HEAP_BYTES: usize = 3 << 20;
static mut HEAP_MEMORY: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];
#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

struct Layer {
    weight: Tensor<2>,
    bias: Tensor<2>,
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    println!("{info}");
    process::exit(101)
}

/// Numbers between −1/8 and 1/8: from layer to layer the outputs keep their size.
fn made_up(rows: usize, columns: usize, state: &mut u32, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = (0..rows * columns)
        .map(|_| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((*state >> 8) as f32 / (1 << 23) as f32 - 1.0) / 8.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, [rows, columns]), device)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // SAFETY: once, before anything is allocated; nothing else names the memory.
    unsafe { HEAP.init(&raw mut HEAP_MEMORY as usize, HEAP_BYTES) };
    let device = Device::flex();
    let mut state = 1;
    let layers: Vec<Layer> = WIDTHS
        .windows(2)
        .map(|w| Layer {
            weight: made_up(w[0], w[1], &mut state, &device),
            bias: made_up(1, w[1], &mut state, &device),
        })
        .collect();
    let input = made_up(1, WIDTHS[0], &mut state, &device);
    let held = HEAP.used();

    // SAFETY: these instructions change nothing.
    unsafe { asm!("mov r10, r10", options(nomem, nostack, preserves_flags)) };
    let mut x = black_box(input);
    for (index, layer) in layers.iter().enumerate() {
        x = x.matmul(layer.weight.clone()) + layer.bias.clone();
        if index + 1 < layers.len() {
            x = relu(x);
        }
    }
    let output = black_box(x.into_data());
    // SAFETY: as above.
    unsafe { asm!("mov r11, r11", options(nomem, nostack, preserves_flags)) };

    let output: Vec<f32> = output.iter().collect();
    assert!(output.len() == 640 && output.iter().all(|value| value.is_finite()));
    assert!(output.iter().any(|&value| value != 0.0));
    println!("{held} bytes of heap hold network and input");
    process::exit(0)
}
