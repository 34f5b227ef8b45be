//! Host names as an automaton that counts the lengths of labels and of the whole name at once.
//!
//! In RFC 1123, section 2.1, a label has letters, digits and inner hyphens and at most 63 characters, and a name
//! has at most 253. An exact count of both lengths takes 28,000 states and half a second. So the whole is counted
//! in blocks: a label with its dot takes one or two blocks of 32 characters, and a name has at most seven blocks.
//! Every name of up to seven labels of 31 characters, or of three of 63 and one of 31, is written; some longer
//! names are valid and are not written.
//!
//! From draft 7 on, a label with hyphens at its third and fourth position is not written: RFC 5891, section
//! 4.2.3.1, reserves these labels, and the validity of an A-label (`xn--`) depends on Punycode and on tables of
//! Unicode. Older drafts refer to RFC 1034 alone.

use unskew_automata::{Dfa, Limits, RegexError, dfa::DfaBuilder};

/// Characters in a block, including the dot after a label.
const BLOCK: u32 = 32;

/// The largest number of blocks of a name: 7 * 32 - 1 characters.
const BLOCKS: u32 = 7;

/// The largest number of characters of a label.
const LABEL: u32 = 63;

/// A superset of all valid names: any number of labels of the right length.
pub(crate) const OUTER: &str =
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";

/// A position inside a label, after at least one of its characters.
#[derive(Clone, Copy)]
struct Position {
    /// Blocks of the preceding labels.
    blocks: u32,
    /// Characters of this label so far.
    length: u32,
    hyphen: bool,
}

impl Position {
    fn index(self) -> u32 {
        BLOCKS + 1 + (self.blocks * LABEL + self.length - 1) * 2 + u32::from(self.hyphen)
    }

    /// Blocks taken if the label ends here.
    fn taken(self) -> u32 {
        self.blocks + (self.length + 1).div_ceil(BLOCK)
    }
}

/// The names that are written. `reserved` allows hyphens at the third and fourth position, as RFC 1123 does.
pub(crate) fn names(reserved: bool, limits: &Limits) -> Result<Dfa, RegexError> {
    let mut edges = DfaBuilder::new(limits);
    // The states before a label come first, ordered by the blocks taken; the states inside labels follow.
    for _ in 0..=BLOCKS {
        edges.state(false)?;
    }
    let mut positions = vec![];
    for blocks in 0..BLOCKS {
        for length in 1..=LABEL {
            for hyphen in [false, true] {
                let position = Position { blocks, length, hyphen };
                edges.state(!hyphen && position.taken() <= BLOCKS)?;
                positions.push(position);
            }
        }
    }
    let alphanumeric = [b'0'..=b'9', b'A'..=b'Z', b'a'..=b'z'];
    for blocks in 0..BLOCKS {
        for bytes in alphanumeric.clone() {
            edges.edge(blocks, bytes, Position { blocks, length: 1, hyphen: false }.index());
        }
    }
    for position in positions {
        let longer = Position { length: position.length + 1, ..position };
        if longer.length <= LABEL && longer.taken() <= BLOCKS {
            for bytes in alphanumeric.clone() {
                edges.edge(position.index(), bytes, Position { hyphen: false, ..longer }.index());
            }
            if reserved || !(position.hyphen && position.length == 3) {
                edges.edge(position.index(), b'-'..=b'-', Position { hyphen: true, ..longer }.index());
            }
        }
        if !position.hyphen && position.taken() < BLOCKS {
            edges.edge(position.index(), b'.'..=b'.', position.taken());
        }
    }
    edges.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of the RFCs, with the blocks counted directly.
    fn is_name(text: &str, reserved: bool) -> bool {
        let label = |label: &str| {
            let bytes = label.as_bytes();
            (1..=63).contains(&bytes.len())
                && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
                && (reserved || bytes.get(2..4) != Some(b"--"))
        };
        let blocks: usize = text.split('.').map(|label| label.len() / 32 + 1).sum();
        text.split('.').all(label) && blocks <= 7
    }

    #[test]
    fn names_are_those_of_the_definition() {
        let names = [false, true].map(|reserved| super::names(reserved, &Limits::default()).unwrap());
        let long = |length: usize| "a".repeat(length);
        let mut texts: Vec<String> = [
            "", "a", "-", "a-", "-a", "a-b", "a--b", "ab--c", "a.b", "a..b", ".", "a.", "1.2", "xn--a", "a_b",
        ]
        .map(str::to_owned)
        .to_vec();
        for first in [1, 2, 30, 31, 32, 33, 62, 63, 64] {
            for count in 1..9 {
                texts.push(vec![long(first); count].join("."));
                texts.push(vec![long(first); count].join(".") + "." + &long(31));
                texts.push(vec![long(first); count].join(".") + "." + &long(32));
            }
        }
        for text in texts {
            assert_eq!(names[0].accepts(text.as_bytes()), is_name(&text, false), "{text}");
            assert_eq!(names[1].accepts(text.as_bytes()), is_name(&text, true), "{text}");
        }
    }
}
