#![no_std]
#![no_main]
//! The smallest firmware that gives verdicts with MLPerf Tiny's anomaly detector, to measure its size: start-up, vector
//! table, engine, energy and verdict, no logging. `NAE_AD01` is the path of the model, as for `ad01`.

use core::hint::black_box;
use cortex_m as _;
use nae_core::verdict::Verdict;
use static_cell::ConstStaticCell;

nae_core::include_model! {
    /// The model, checked at compile time.
    struct Ad01 = env!("NAE_AD01");
}

static ARENA: ConstStaticCell<[f32; Ad01::ARENA_LEN]> = ConstStaticCell::new([0.0; Ad01::ARENA_LEN]);
static INPUT: ConstStaticCell<[i8; Ad01::IMAGE_LEN]> = ConstStaticCell::new([0; Ad01::IMAGE_LEN]);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    cortex_m::asm::udf()
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let (arena, input) = (ARENA.take(), INPUT.take());
    let engine = Ad01::engine();
    loop {
        let input = black_box(&mut input[..]);
        let output = engine.as_ref().map(|engine| engine.run_i8(input, arena));
        if let Ok(Ok(output)) = output {
            black_box((output.verdict.unwrap_or(Verdict::Normal), output.score.p_value, output.score.energy));
        }
    }
}
