//! The bytes that may continue a complete text of a terminal.
//!
//! Where such a byte may also begin the next terminal, the end of the text is ambiguous.

use unskew_automata::Dfa;
use unskew_trie::ByteSet;

/// The bytes on the edges that leave the accepting states of `dfa`.
pub(crate) fn extending(dfa: &Dfa) -> ByteSet {
    let mut bytes = ByteSet::default();
    let representatives: Vec<u8> = dfa.classes().representatives().collect();
    let mut classes = vec![false; representatives.len()];
    for state in dfa.states().filter(|state| dfa.is_accepting(*state)) {
        for (class, byte) in classes.iter_mut().zip(&representatives) {
            *class |= dfa.step(state, *byte).is_some();
        }
    }
    for byte in 0..=255 {
        if classes[usize::from(dfa.classes().get(byte))] {
            bytes.insert(byte);
        }
    }
    bytes
}
