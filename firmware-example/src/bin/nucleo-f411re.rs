#![no_std]
#![no_main]
//! The application on ST's Nucleo-F411RE (STM32F411RE, Cortex-M4F at 84 MHz): images arrive on the debugger's virtual
//! serial port (USART2, PA3), the green LED (PA5) is the alarm, the log is sent by RTT. The port is read only between
//! two scores, so the sender must pause after each image. Compiled in the tests; **not tried on hardware**.

use cortex_m as _; // its critical section
use defmt_rtt as _;
use firmware_example::{Fault, Memory, SerialImages, Watch};
use static_cell::ConstStaticCell;
use stm32f4xx_hal::{pac, prelude::*, rcc::Config, serial};

static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());

#[defmt::panic_handler]
fn defmt_panic() -> ! {
    cortex_m::asm::udf()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    defmt::error!("{}", defmt::Display2Format(info));
    cortex_m::asm::udf()
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let Some(board) = pac::Peripherals::take() else { defmt::panic!("the peripherals are taken") };
    let mut rcc = board.RCC.freeze(Config::hsi().sysclk(84.MHz()));
    let gpioa = board.GPIOA.split(&mut rcc);
    let settings = serial::Config::default().baudrate(115_200.bps());
    let line = match board.USART2.rx::<u8>(gpioa.pa3, settings, &mut rcc) {
        Ok(line) => line,
        Err(_) => defmt::panic!("the serial port cannot have this rate"),
    };
    let alarm = gpioa.pa5.into_push_pull_output();
    let mut watch = match Watch::new(SerialImages::new(line), alarm, MEMORY.take()) {
        Ok(watch) => watch,
        Err(error) => defmt::panic!("{}", error),
    };
    loop {
        match watch.capture().and_then(|()| watch.judge()) {
            Ok(report) => defmt::info!("{}", report),
            // Bytes were lost; the next image with the right checksum is taken.
            Err(Fault::Source(_)) => defmt::warn!("no image"),
            Err(Fault::Engine(error)) => defmt::error!("{}", error),
            Err(Fault::Pin(error)) => match error {},
        }
    }
}
