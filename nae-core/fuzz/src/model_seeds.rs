//! Writes the small models of `nae-core`'s tests, with every kind of layer, into the folder named.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/models/mod.rs"]
mod models;

fn main() {
    let folder = std::env::args().nth(1).expect("usage: model-seeds FOLDER");
    for (index, file) in models::all().iter().enumerate() {
        std::fs::write(format!("{folder}/small-{index}.nae"), file).expect("the folder can be written to");
    }
}
