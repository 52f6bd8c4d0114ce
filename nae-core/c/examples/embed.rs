//! Writes a `.nae` file as a C header: its bytes as words, so that they are aligned, and what has to be known while a
//! program is compiled, such as the length of the arena.
//!
//! ```console
//! $ cargo run -p nae-core-c --example embed -- models/digits/digits-int8.nae digits >digits.h
//! ```

use nae_core::model::Model;
use std::fmt::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, name] = &arguments[..] else { return Err("usage: embed MODEL.nae NAME >NAME.h".into()) };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(format!("`{name}` is not a name of C").into());
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let model = Model::parse(&bytes).map_err(|error| format!("{path}: {error}"))?;
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(format!("{path}: its length is not a multiple of 4").into());
    }
    print!("{}", header(&model, words, name));
    Ok(())
}

fn header(model: &Model<'_>, words: &[[u8; 4]], name: &str) -> String {
    let (big, len) = (name.to_uppercase(), model.input_shape().len());
    let image = if model.image_quantization().is_some() { len.div_ceil(4) } else { len };
    let mut text = format!(
        "/* A model for nae_core_open({name}_model, {big}_LEN). Written by `embed` of nae-core-c. */\n\
         #ifndef {big}_H\n#define {big}_H\n\n#include <stdint.h>\n\n\
         /* Bytes of the model. */\n#define {big}_LEN {file}u\n\
         /* Values of an image. */\n#define {big}_IMAGE_LEN {len}u\n\
         /* Words of the arena of nae_core_score_i8 and nae_core_score_f32. */\n#define {big}_ARENA_WORDS {arena}u\n\
         /* Words of the arena of nae_core_score_u8. */\n#define {big}_ARENA_WORDS_U8 {with_image}u\n\n\
         /* Words, so that the bytes are aligned; little-endian, as the file is. */\n\
         static const uint32_t {name}_words[{count}] = {{",
        file = 4 * words.len(),
        arena = model.arena_len(),
        with_image = model.arena_len() + image,
        count = words.len(),
    );
    for (index, word) in words.iter().enumerate() {
        let separator = if index.is_multiple_of(8) { "\n  " } else { " " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}0x{:08x}u,", u32::from_le_bytes(*word));
    }
    text + &format!("\n}};\n#define {name}_model ((const uint8_t *){name}_words)\n\n#endif\n")
}
