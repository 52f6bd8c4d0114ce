//! Any bytes as a table: refused, or rows of as many cells as there are names.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(table) = nae_input::table::parse(Path::new("readings.csv"), data) else { return };
    assert!(table.rows().iter().all(|row| row.cells.len() == table.names().len()));
});
