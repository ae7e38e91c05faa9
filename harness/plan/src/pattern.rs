use xxhash_rust::xxh3::xxh3_128;

/// Byte that fills a fresh buffer.
pub const POISON_BYTE: u8 = 0xA5;
/// Byte that fills the guards of a buffer.
pub const GUARD_BYTE: u8 = 0x5C;

/// Fills `bytes` with the pattern of `stamp`.
///
/// Each 4-byte little-endian word is derived from the stamp and the word's index, so that wrong bytes can be traced to
/// the write and the offset that they came from. The words are numbers from 1 to 2^24 - 1, so that `f32` represents
/// them exactly.
pub fn pattern(stamp: u64, bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(4).enumerate() {
        // One round of splitmix64's finaliser is cheap, and patterns of different stamps have no sequence of words in
        // common.
        let mut z = stamp.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index as u64 + 1);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let word = ((z >> 40) as u32).max(1);
        let le = word.to_le_bytes();
        chunk.copy_from_slice(&le[..chunk.len()]);
    }
}

/// Returns the stamp of the pattern that a [`Fill`](crate::Call::Fill) step writes. `stamp` is the stamp in the step,
/// and `occurrence` the number of earlier executions of the step.
pub fn fill_stamp(stamp: u32, occurrence: u32) -> u64 {
    u64::from(occurrence) << 32 | u64::from(stamp)
}

/// Returns the digest with which bytes and [`Order`](crate::Order)s are compared: XXH3 with 128 bits, as 32 hexadecimal
/// digits. The digest detects accidental differences, but an attacker can construct collisions.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_different_stamps_differ_in_every_word() {
        let word = |stamp: u64, i: usize| {
            let mut bytes = vec![0; 4096];
            pattern(stamp, &mut bytes);
            u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap())
        };
        for i in 0..1024 {
            assert_ne!(word(1, i), word(2, i), "word {i}");
            assert!(word(1, i) < 1 << 24);
        }
    }

    /// Exported programs and other versions of rocrepro must write the same patterns. The expected words were computed
    /// by hand.
    #[test]
    fn pattern_words_are_stable() {
        let words = |stamp: u64| {
            let mut bytes = [0; 12];
            pattern(stamp, &mut bytes);
            [0, 4, 8].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
        };
        assert_eq!(words(7)[..2], [0xe099ec, 0xb9f24f]);
        assert_eq!(words(fill_stamp(3, 1))[2], 0x083e6b);
    }

    #[test]
    fn patterns_never_start_with_zeros() {
        // If a pattern began with two zero bytes, the loss of a two-byte copy to zeroed memory would go undetected.
        for stamp in 0..10_000 {
            let mut bytes = [0; 2];
            pattern(stamp, &mut bytes);
            if bytes == [0, 0] {
                panic!("stamp {stamp} starts with two zero bytes");
            }
        }
    }
}
