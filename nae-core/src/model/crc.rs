//! CRC-32 as in zip and PNG, in a `const fn`: crates that offer it do so with tables of their own
//! size or not in constants, and it is ten lines.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// CRC-32 (IEEE 802.3) of `bytes`.
pub(crate) const fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut i = 0;
    while i < bytes.len() {
        crc = (crc >> 8) ^ TABLE[((crc ^ bytes[i] as u32) & 0xFF) as usize];
        i += 1;
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn check_value_of_the_catalogue() {
        // "CRC-32/ISO-HDLC" in Greg Cook's catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
