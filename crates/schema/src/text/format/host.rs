//! Names of hosts, as an automaton by rule: lengths of labels and of the whole are counted at once.
//!
//! RFC 1123, section 2.1, has labels of letters, digits and inner hyphens, of at most 63 characters, and 253 in all. Counted
//! to the character, the place in the label and in the whole make 28,000 states, half a second of work. So the whole is
//! counted in blocks: a label with its dot takes one block of 32 or two, and there are seven. Every name of up to seven labels of
//! 31 characters is written, or of three of 63 and one of 31; longer ones are names too and are not.
//!
//! A label with hyphens in its third and fourth place is none that is written from draft 7 on: RFC 5891, section 4.2.3.1, reserves
//! it, and whether an A-label (`xn--`) is one is decided by Punycode and by tables of Unicode. Older drafts have RFC 1034 alone.

use unskew_automata::{Dfa, DfaBuilder, Limits, RegexError};

/// Characters that a block counts, the dot behind a label among them.
const BLOCK: u32 = 32;

/// Blocks in a name: 7 * 32 - 1 characters at most.
const BLOCKS: u32 = 7;

/// Characters of a label.
const LABEL: u32 = 63;

/// Texts of names of which none is missing: labels of the right length, any number of them.
pub(crate) const OUTER: &str =
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";

/// A place inside a label, behind at least one character of it.
#[derive(Clone, Copy)]
struct Place {
    /// Blocks that the labels in front have taken.
    blocks: u32,
    /// Characters of this label so far.
    length: u32,
    hyphen: bool,
}

impl Place {
    fn index(self) -> u32 {
        BLOCKS + 1 + (self.blocks * LABEL + self.length - 1) * 2 + u32::from(self.hyphen)
    }

    /// Blocks taken if the label ends here.
    fn taken(self) -> u32 {
        self.blocks + (self.length + 1).div_ceil(BLOCK)
    }
}

/// The names that are written; whether hyphens may stand in the third and fourth place, as RFC 1123 lets them.
pub(crate) fn names(reserved: bool, limits: &Limits) -> Result<Dfa, RegexError> {
    let mut edges = DfaBuilder::new(limits);
    // The states in front of a label come first, by the blocks taken; then those inside.
    for _ in 0..=BLOCKS {
        edges.state(false)?;
    }
    let mut places = vec![];
    for blocks in 0..BLOCKS {
        for length in 1..=LABEL {
            for hyphen in [false, true] {
                let place = Place { blocks, length, hyphen };
                edges.state(!hyphen && place.taken() <= BLOCKS)?;
                places.push(place);
            }
        }
    }
    let alphanumeric = [b'0'..=b'9', b'A'..=b'Z', b'a'..=b'z'];
    for blocks in 0..BLOCKS {
        for bytes in alphanumeric.clone() {
            edges.edge(blocks, bytes, Place { blocks, length: 1, hyphen: false }.index());
        }
    }
    for place in places {
        let longer = Place { length: place.length + 1, ..place };
        if longer.length <= LABEL && longer.taken() <= BLOCKS {
            for bytes in alphanumeric.clone() {
                edges.edge(place.index(), bytes, Place { hyphen: false, ..longer }.index());
            }
            if reserved || !(place.hyphen && place.length == 3) {
                edges.edge(place.index(), b'-'..=b'-', Place { hyphen: true, ..longer }.index());
            }
        }
        if !place.hyphen && place.taken() < BLOCKS {
            edges.edge(place.index(), b'.'..=b'.', place.taken());
        }
    }
    edges.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the words of the RFCs, and the blocks counted out.
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
