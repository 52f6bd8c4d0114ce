//! What the fuzz targets share. See `tests/fuzz.sh` for how they are run.

/// Where the header has the file's length and checksum, and from where the checksum counts.
const LENGTH: usize = 12;
const CHECKSUM: usize = 16;
const CHECKED_FROM: usize = 20;

/// The bytes at an address that the engine can use, with the right length and checksum in the header: no mutation
/// finds those.
pub fn mended(data: &[u8]) -> Vec<u32> {
    let mut words = vec![0u32; data.len() / 4];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    bytes.copy_from_slice(&data[..bytes.len()]);
    if bytes.len() >= CHECKED_FROM {
        let length = bytes.len() as u32;
        bytes[LENGTH..CHECKSUM].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32(&bytes[CHECKED_FROM..]);
        bytes[CHECKSUM..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
    }
    words
}

/// CRC-32 as in zlib, by a table: models have hundreds of kilobytes.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let (mut value, mut bit) = (n as u32, 0);
            while bit < 8 {
                value = (value >> 1) ^ (0xEDB8_8320 & (value & 1).wrapping_neg());
                bit += 1;
            }
            table[n] = value;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize])
}
