//! The bytes with which the texts of a terminal go on where they may end.

use unskew_automata::Dfa;
use unskew_trie::ByteSet;

/// The bytes with which `dfa` goes on in some state in which it may end.
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
