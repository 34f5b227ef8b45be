//! Checks SentencePiece's compiled character map (`precompiled_charsmap`) before the encoder walks it.
//!
//! The map is a double array (a trie in one array of units) and a table of replacements. The encoder follows the
//! array without looking at bounds; a damaged map makes it index outside the array, cut a character in two,
//! or ask for gigabytes. Here every unit that any text can reach is visited once.

/// The longest map that is accepted, in bytes: the largest known ones have about a third of a megabyte.
pub(crate) const LIMIT: usize = 4 << 20;

/// The longest replacement of a character, in bytes. The longest in Unicode's own forms has 33.
const REPLACEMENT_LIMIT: usize = 256;

/// The fault of `map`, if it has one.
///
/// Format: the size of the array in bytes, the array, then replacements that each end with a zero byte.
/// O(n) for n units, times the 255 bytes that may follow each.
pub(crate) fn check(map: &[u8]) -> Result<(), String> {
    if map.len() > LIMIT {
        return Err(format!("the character map has {} bytes, the limit is {LIMIT}", map.len()));
    }
    let (size, rest) = map.split_first_chunk().ok_or("the character map is cut off")?;
    let units = u32::from_le_bytes(*size) as usize / 4;
    let Some((array, replacements)) = rest.split_at_checked(units * 4) else {
        return Err(format!("the character map announces {units} units, more than it holds"));
    };
    let array: Vec<u32> = array.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    let replacements =
        std::str::from_utf8(replacements).map_err(|_| "a replacement is not UTF-8".to_owned())?;

    let outside = || "the character map points outside its array".to_owned();
    // From a position, byte `b` leads to the unit at `position ^ b`, if that unit is labelled `b`.
    let first = offset(*array.first().ok_or("the character map is empty")?);
    let mut seen = vec![false; array.len()];
    *seen.get_mut(first).ok_or_else(outside)? = true;
    let mut open = vec![first];
    while let Some(position) = open.pop() {
        for byte in 1..=255usize {
            let unit_at = position ^ byte;
            let unit = *array.get(unit_at).ok_or_else(outside)?;
            if unit & 0x8000_00ff != byte as u32 {
                continue;
            }
            let next = unit_at ^ offset(unit);
            let target = *array.get(next).ok_or_else(outside)?;
            let ends_here = unit & 0x100 != 0;
            if ends_here {
                let replacement = replacements
                    .get((target & 0x7fff_ffff) as usize..)
                    .ok_or("the character map points outside its replacements, or into a character")?;
                if replacement.bytes().take(REPLACEMENT_LIMIT + 1).take_while(|byte| *byte != 0).count()
                    > REPLACEMENT_LIMIT
                {
                    return Err(format!(
                        "a replacement has more than {REPLACEMENT_LIMIT} bytes, which is the limit"
                    ));
                }
            }
            if !std::mem::replace(&mut seen[next], true) {
                open.push(next);
            }
        }
    }
    Ok(())
}

fn offset(unit: u32) -> usize {
    let unit = unit as usize;
    (unit >> 10) << ((unit & 0x200) >> 6)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::check;

    /// A map of one rule: the byte `from` becomes `to`.
    pub(crate) fn one_rule(from: u8, to: &str) -> Vec<u8> {
        // Root at 0, children from position 256 on (so that no child shares a block with the root); the value of the
        // rule at 256 ^ from ^ 512 = 768 ^ from.
        let mut array = vec![0u32; 1024];
        array[0] = 256 << 10;
        array[256 ^ usize::from(from)] = (512 << 10) | 0x100 | u32::from(from);
        array[768 ^ usize::from(from)] = 1 | 0x8000_0000;
        let mut map = 4096u32.to_le_bytes().to_vec();
        map.extend(array.iter().flat_map(|unit| unit.to_le_bytes()));
        map.push(0);
        map.extend_from_slice(to.as_bytes());
        map.push(0);
        map
    }

    #[test]
    fn a_sound_map_passes_and_a_damaged_one_does_not() {
        let map = one_rule(b'a', "\u{e9}");
        check(&map).unwrap();

        assert!(check(&[]).unwrap_err().contains("cut off"));
        assert!(check(&[0; 4]).unwrap_err().contains("empty"));
        assert!(check(&[255; 8]).unwrap_err().contains("more than it holds"));
        let mut wrong = map.clone();
        wrong[4 + 1] = 0xff; // the root's offset
        assert!(check(&wrong).is_err());
        let mut wrong = map.clone();
        let value_at = 4 + 4 * (768 ^ usize::from(b'a'));
        wrong[value_at] = 2; // inside the two bytes of é
        assert!(check(&wrong).unwrap_err().contains("into a character"));
        let long = one_rule(b'a', &"x".repeat(257));
        assert!(check(&long).unwrap_err().contains("more than 256 bytes"));
        let mut wrong = map;
        wrong[0..4].copy_from_slice(&1024u32.to_le_bytes());
        assert!(check(&wrong).is_err());
    }
}
