//! Writes a `.nae` file as a C header: its bytes as words, so that they are aligned, and what has to be known while a
//! program is compiled, such as the length of the arena. Any number of source files may include the header; the one that
//! defines `NAME_IMPLEMENTATION` before has the bytes.
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
    let big = name.to_uppercase();
    let mut text = format!(
        "/* A model for nae_core_open({name}_model, {big}_LEN). Written by `embed` of nae-core-c.\n\n   \
         In exactly one source file of the program, define {big}_IMPLEMENTATION before the header is included: there the\n   \
         bytes of the model are. */\n\
         #ifndef {big}_H\n#define {big}_H\n\n#include <stdint.h>\n\n\
         /* Bytes of the model. */\n#define {big}_LEN {file}u\n\
         /* Values of an image. */\n#define {big}_IMAGE_LEN {len}u\n\
         /* Words of the arena of nae_core_score_i8 and nae_core_score_f32. */\n#define {big}_ARENA_WORDS {arena}u\n\
         /* Words of the arena of nae_core_score_u8. */\n#define {big}_ARENA_WORDS_U8 {with_image}u\n\n\
         /* Words, so that the bytes are aligned; little-endian, as the file is. */\n\
         extern const uint32_t {name}_words[{count}];\n\
         #define {name}_model ((const uint8_t *){name}_words)\n\n#endif\n\n\
         #if defined({big}_IMPLEMENTATION) && !defined({big}_IMPLEMENTED)\n#define {big}_IMPLEMENTED\n\n\
         const uint32_t {name}_words[{count}] = {{",
        len = model.input_shape().len(),
        file = 4 * words.len(),
        arena = model.arena_len(),
        with_image = model.arena_len() + model.image_words(),
        count = words.len(),
    );
    for (index, word) in words.iter().enumerate() {
        let separator = if index.is_multiple_of(8) { "\n  " } else { " " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}0x{:08x}u,", u32::from_le_bytes(*word));
    }
    text + "\n};\n\n#endif\n"
}
