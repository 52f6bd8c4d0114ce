//! Writes good requests, as the target `inference` reads them, into the folder named.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("usage: inference-seeds FOLDER");
    let as_json: &[u8] =
        br#"{"inputs":[{"name":"image","shape":[2,1,1,2],"datatype":"FP32","data":[[[[1,2.5]]],[[[-3,4e1]]]]}]}"#;
    let as_bytes: &[u8] = br#"{"id":"7","parameters":{"binary_data_output":true},"inputs":[{"name":"image","shape":[2,1,1,2],"datatype":"UINT8","parameters":{"binary_data_size":4}}],"outputs":[{"name":"energy","parameters":{"binary_data":true}}]}"#;
    let length = (as_bytes.len() as u16).to_le_bytes();
    let requests =
        [[&[0, 0xFF, 0xFF][..], as_json].concat(), [&[0][..], &length, as_bytes, &[0, 51, 255, 102]].concat()];
    for (index, request) in requests.iter().enumerate() {
        std::fs::write(Path::new(&folder).join(format!("seed-{index}")), request)?;
    }
    Ok(())
}
