//! `nae-train devices`: lists the devices of this machine.

use comfy_table::{Table, presets};
use nae_train::device::DeviceChoice;

use crate::Done;
use crate::args::DevicesArgs;
use crate::output::outln;

pub(crate) fn run(args: &DevicesArgs) -> anyhow::Result<Done> {
    let listed = DeviceChoice::list();
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&listed)?)?;
        return Ok(Done::Whole);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["--device", "adapter", "kind", "driver", "interface"]);
    for device in listed {
        let choice = device.choice.to_string();
        table.add_row([choice, device.adapter, device.kind.to_owned(), device.driver, device.interface]);
    }
    outln!("{}", table.trim_fmt())?;
    if !cfg!(any(feature = "wgpu", feature = "cuda")) {
        outln!("This build computes on the processor alone: see nae-train devices --help")?;
    }
    Ok(Done::Whole)
}
