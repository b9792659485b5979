//! The hash by which Inspect gives an eval id to logs from before it recorded one.
//!
//! BLAKE2s with a 16-byte digest (RFC 7693, no key), written as the last 22 digits in base 57. Only texts of a few
//! hundred bytes are hashed, once per log, so that clarity goes before speed.

const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// Columns, then diagonals, of the working vector.
const LANES: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];

const BLOCK_BYTES: usize = 64;
const DIGEST_BYTES: usize = 16;

fn compress(state: &mut [u32; 8], block: &[u8; BLOCK_BYTES], hashed_bytes: u64, last: bool) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mut v = [0_u32; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&IV);
    v[12] ^= hashed_bytes as u32;
    v[13] ^= (hashed_bytes >> 32) as u32;
    if last {
        v[14] = !v[14];
    }
    for order in &SIGMA {
        for (lane, [a, b, c, d]) in LANES.into_iter().enumerate() {
            v[a] = v[a].wrapping_add(v[b]).wrapping_add(words[order[2 * lane]]);
            v[d] = (v[d] ^ v[a]).rotate_right(16);
            v[c] = v[c].wrapping_add(v[d]);
            v[b] = (v[b] ^ v[c]).rotate_right(12);
            v[a] = v[a].wrapping_add(v[b]).wrapping_add(words[order[2 * lane + 1]]);
            v[d] = (v[d] ^ v[a]).rotate_right(8);
            v[c] = v[c].wrapping_add(v[d]);
            v[b] = (v[b] ^ v[c]).rotate_right(7);
        }
    }
    for (i, word) in state.iter_mut().enumerate() {
        *word ^= v[i] ^ v[i + 8];
    }
}

/// BLAKE2s-128 of `content`.
fn blake2s_128(content: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut state = IV;
    // Parameter block: digest length, no key, one leaf.
    state[0] ^= 0x0101_0000 | DIGEST_BYTES as u32;
    let mut hashed = 0_usize;
    loop {
        let rest = &content[hashed..];
        let taken = rest.len().min(BLOCK_BYTES);
        let last = rest.len() <= BLOCK_BYTES;
        let mut block = [0; BLOCK_BYTES];
        block[..taken].copy_from_slice(&rest[..taken]);
        hashed += taken;
        compress(&mut state, &block, hashed as u64, last);
        if last {
            break;
        }
    }
    let mut digest = [0; DIGEST_BYTES];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

const ALPHABET: &[u8; 57] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const TEXT_DIGITS: usize = 22;

/// The 22-character text of a content's hash.
pub(super) fn base57_hash(content: &str) -> String {
    let mut number = u128::from_be_bytes(blake2s_128(content.as_bytes()));
    let mut digits = [ALPHABET[0]; TEXT_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(number % 57) as usize];
        number /= 57;
    }
    digits.iter().map(|&digit| char::from(digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(content: &[u8]) -> String {
        blake2s_128(content).iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn agrees_with_the_standard_library_of_python() {
        // hashlib.blake2s(content, digest_size=16).hexdigest() for prefixes of 0, 1, 2 … 199.
        let content: Vec<u8> = (0..200).collect();
        for (length, digest) in [
            (0, "64550d6ffe2c0a01a14aba1eade0200c"),
            (1, "9f31f3ec588c6064a8e1f9051aeab90a"),
            (3, "c41561edb251df8f3c9523524d60a707"),
            (55, "ce44dc306dff56ed00a657fb7b25d20c"),
            (63, "4006430a2d313751a9ece24fccb52de5"),
            (64, "dc66ca8f03865801b0ffe06ed8a1a90e"),
            (65, "399d3e92ccfcedcdde9bf4c2be14cf8c"),
            (127, "5d3541be0ce9b6d8f9315862ac0198c5"),
            (128, "7a3b3fa888b60095e7b305efcf3c3dbc"),
            (129, "dd6146fb0f48a29aa4c813fe75d15941"),
            (200, "60e1aeb835cbdc82f24af34585a9df13"),
        ] {
            assert_eq!(hex(&content[..length]), digest, "{length}");
        }
    }

    #[test]
    fn text_agrees_with_inspect() {
        for (content, text) in [
            ("", "KrXdknxCFUSPixb5bXVpBy"),
            ("abc", "YJxWvRnZ2qUCFkTthLTM5M"),
            ("runtask2024-01-01T00:00:00+00:00", "h6TCSKkD3MEEHq22vhZRnQ"),
            (
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "kFucDHHND4rZoAaVB3AYcN",
            ),
            ("é—😀", "fsFoqEpTXubXTehChVGgHV"),
        ] {
            assert_eq!(base57_hash(content), text, "{content}");
        }
    }
}
