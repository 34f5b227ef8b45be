//! Base64, as rank files and SentencePiece's character maps have it: standard alphabet, padded. Thirty lines here
//! instead of a dependency.

/// The bytes of `text`, or `None` where it is not base64 with its padding.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for digit in group {
            bits = bits << 6 | u32::from(value(*digit)?);
        }
        // A group of n digits holds n - 1 bytes, and the bits after them are zero.
        bits <<= 6 * (4 - group.len());
        let [_, whole @ ..] = bits.to_be_bytes();
        let (kept, rest) = whole.split_at(group.len() - 1);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn padding_and_alphabet() {
        assert_eq!(decode(b"").unwrap(), b"");
        assert_eq!(decode(b"QQ==").unwrap(), b"A");
        assert_eq!(decode(b"QUI=").unwrap(), b"AB");
        assert_eq!(decode(b"QUJD").unwrap(), b"ABC");
        assert_eq!(decode(b"+/8A/w==").unwrap(), [0xfb, 0xff, 0x00, 0xff]);
        for wrong in ["QQ", "QQ=", "QQ=A", "QR==", "====", "A===", "Q Q=", "QQ==QQ=="] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
