//! UTF-8, byte by byte.

/// The transitions of UTF-8. States within a character are numbered by the bytes that must follow; 0 is between
/// characters.
pub(crate) fn utf8(place: u8, byte: u8) -> Option<u8> {
    match (place, byte) {
        (0, 0..0x80) | (1, 0x80..0xc0) => Some(0),
        (0, 0xc2..0xe0) | (2, 0x80..0xc0) | (4, 0xa0..0xc0) | (5, 0x80..0xa0) => Some(1),
        (0, 0xe0) => Some(4),
        (0, 0xed) => Some(5),
        (0, 0xe1..0xf0) | (3, 0x80..0xc0) | (6, 0x90..0xc0) | (7, 0x80..0x90) => Some(2),
        (0, 0xf0) => Some(6),
        (0, 0xf1..0xf4) => Some(3),
        (0, 0xf4) => Some(7),
        _ => None,
    }
}

/// The characters of which all bytes satisfy `is_spelled`, in ascending order; `None` if these are all characters.
pub(crate) fn characters_of(is_spelled: impl Fn(u8) -> bool) -> Option<Vec<char>> {
    // No other bytes occur in UTF-8.
    let all = (0..0xc0u8).chain(0xc2..0xf5);
    let bytes: Vec<u8> = all.clone().filter(|byte| is_spelled(*byte)).collect();
    if bytes.len() == all.count() {
        return None;
    }
    let mut characters: Vec<char> = Vec::new();
    let mut open: Vec<(u8, Vec<u8>)> = vec![(0, Vec::new())];
    while let Some((place, begun)) = open.pop() {
        for byte in &bytes {
            let text = [&begun[..], &[*byte]].concat();
            match utf8(place, *byte) {
                Some(0) => characters.extend(std::str::from_utf8(&text).unwrap_or_default().chars()),
                Some(next) => open.push((next, text)),
                None => {}
            }
        }
    }
    characters.sort_unstable();
    Some(characters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_those_of_the_bytes() {
        assert_eq!(characters_of(|_| true), None);
        assert_eq!(characters_of(|byte| !matches!(byte, 0xc0 | 0xc1 | 0xf5..)), None);
        assert_eq!(characters_of(|byte| b"ba\xc3\xa9\xa8".contains(&byte)).unwrap(), ['a', 'b', 'è', 'é']);
        for missing in [0x7f, 0x80, 0xbf, 0xe4, 0xf4] {
            let found = characters_of(|byte| byte != missing).unwrap();
            let has =
                |character: &char| character.encode_utf8(&mut [0; 4]).bytes().all(|byte| byte != missing);
            assert!(found.into_iter().eq(('\0'..=char::MAX).filter(has)), "{missing}");
        }
    }
}
