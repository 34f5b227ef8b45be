//! Symbols and their targets against their characters, one by one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    automaton::{DEAD, MIXED},
    testing::{CHARS, STATES, run, table},
};

/// Characters of all parts of Unicode, and more of those that vocabularies are made of.
fn chars() -> impl Strategy<Value = Vec<char>> {
    let char = prop_oneof![
        1 => any::<char>(),
        3 => prop::sample::select(CHARS.to_vec()),
        2 => prop::char::range('\u{80}', '\u{3ff}'),
        2 => prop::char::range('\u{900}', '\u{dff}'),
        2 => prop::char::range('\u{3000}', '\u{30ff}'),
    ];
    prop::collection::vec(char, 1..8)
}

/// The characters that a symbol stands for, from its encodings.
fn spelled(symbols: &Symbols, symbol: Symbol) -> Vec<char> {
    let mut chars = Vec::new();
    if symbol.is_ascii() {
        let (first, last) = symbol.ascii_bytes();
        return (first..=last).map(char::from).collect();
    }
    for range in &symbols.ranges[symbol.index() - usize::from(FIRST_NON_ASCII)] {
        let mut prefixes: Vec<Vec<u8>> = vec![vec![]];
        for (first, last) in &range.ranges[..usize::from(range.len)] {
            let longer = |prefix: &Vec<u8>| {
                let prefix = prefix.clone();
                (*first..=*last).map(move |byte| [&prefix[..], &[byte]].concat())
            };
            prefixes = prefixes.iter().flat_map(longer).collect();
        }
        for prefix in prefixes {
            for bit in (0..64u8).filter(|bit| range.last >> bit & 1 != 0) {
                let text = [&prefix[..], &[0x80 + bit]].concat();
                chars.extend(String::from_utf8(text).expect("encodings of characters").chars());
            }
        }
    }
    chars
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A symbol spells exactly the characters of its stretch and kind, and each character has one symbol.
    #[test]
    fn symbols_partition_the_characters(chars in chars()) {
        let mut symbols = Symbols::new();
        let of: BTreeMap<char, Option<Symbol>> =
            chars.iter().map(|char| (*char, symbols.symbol(*char))).collect();
        for (char, symbol) in &of {
            let Some(symbol) = *symbol else {
                prop_assert!(*char as u32 >= STRETCHES[STRETCHES.len() - 1].0, "{char:?} has a stretch");
                continue;
            };
            prop_assert_eq!(symbol.is_ascii(), char.is_ascii());
            let spelled = spelled(&symbols, symbol);
            prop_assert!(spelled.contains(char));
            let count = symbols.ranges.len();
            prop_assert!(spelled.iter().all(|other| symbols.symbol(*other) == Some(symbol)));
            prop_assert_eq!(count, symbols.ranges.len());
            for (other, of_other) in &of {
                prop_assert_eq!(*of_other == Some(symbol), spelled.contains(other));
            }
        }
    }

    /// The target of a symbol is the state to which each of its characters leads; and it is mixed only where
    /// characters differ in a state on their way.
    #[test]
    fn the_target_of_a_symbol_is_that_of_its_characters(chars in chars(), table in table()) {
        let mut symbols = Symbols::new();
        let mut automaton = &table;
        let mut runs = Runs::new(&automaton);
        for symbol in chars.iter().filter_map(|char| symbols.symbol(*char)).collect::<Vec<_>>() {
            let spelled = spelled(&symbols, symbol);
            // A few symbols have tens of thousands of characters.
            let states = if spelled.len() < 3_000 { STATES as u32 } else { 1 };
            for state in 0..states {
                let found = if symbol.is_ascii() {
                    symbol.ascii_target(&mut automaton, &runs, state)
                } else {
                    symbols.target(&mut automaton, &mut runs, state, symbol)
                };
                // The states along a character, by the length of its encoding.
                let mut ways: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
                let (mut ends, mut differ) = (Vec::new(), false);
                for char in &spelled {
                    let mut buffer = [0; 4];
                    let bytes = char.encode_utf8(&mut buffer).as_bytes();
                    let way: Vec<u32> =
                        (1..=bytes.len()).map(|len| run(&mut automaton, state, &bytes[..len])).collect();
                    ends.push(way[way.len() - 1]);
                    differ |= *ways.entry(bytes.len()).or_insert_with(|| way.clone()) != way;
                }
                let end = ends[0];
                differ |= ends.iter().any(|other| *other != end);
                if found == MIXED {
                    prop_assert!(differ, "{symbol:?} from {state}");
                } else {
                    prop_assert!(ends.iter().all(|end| *end == found), "{symbol:?} from {state}: {found}");
                }
            }
        }
    }

    /// The target of all characters beyond ASCII, at some of them.
    #[test]
    fn the_target_beyond_ascii_is_that_of_every_character(chars in chars(), table in table()) {
        let mut automaton = &table;
        let mut runs = Runs::new(&automaton);
        for state in 0..STATES as u32 {
            let found = Symbols::any_target(&mut automaton, &mut runs, state);
            if found != MIXED {
                for char in chars.iter().filter(|char| !char.is_ascii()) {
                    prop_assert_eq!(run(&mut automaton, state, char.to_string().as_bytes()), found);
                }
            }
            // Where no byte beyond ASCII is distinguished from another, characters of two bytes lead where those of
            // four do, or nothing does.
            let first = automaton.step(state, 0x80);
            if first == DEAD && (0x80..=0xffu8).all(|byte| automaton.step(state, byte) == DEAD) {
                prop_assert_eq!(found, DEAD);
            }
        }
    }

    #[test]
    fn a_run_ends_where_the_class_changes(table in table()) {
        let automaton = &table;
        let runs = Runs::new(&automaton);
        for byte in 0..=255u8 {
            let last = runs.last[usize::from(byte)];
            prop_assert!((byte..=last).all(|other| automaton.class(other) == automaton.class(byte)));
            prop_assert!(last == 255 || automaton.class(last + 1) != automaton.class(last));
        }
    }

    #[test]
    fn a_set_holds_the_symbols_that_were_put_in(
        numbers in prop::collection::btree_set(any::<u8>(), 0..40),
        others in prop::collection::btree_set(any::<u8>(), 0..40),
    ) {
        let set_of = |numbers: &std::collections::BTreeSet<u8>| {
            let mut set = SymbolSet::default();
            numbers.iter().for_each(|number| set.insert(Symbol(*number)));
            set
        };
        let mut set = set_of(&numbers);
        prop_assert_eq!(set.iter().map(|symbol| symbol.0).collect::<Vec<_>>(), numbers.iter().copied().collect::<Vec<_>>());
        prop_assert!((0..128u8).all(|number| (set.ascii() >> number & 1 != 0) == numbers.contains(&number)));
        prop_assert_eq!(set.has_non_ascii(), numbers.iter().any(|number| *number >= 128));
        set.union(set_of(&others));
        prop_assert_eq!(set, set_of(&numbers.union(&others).copied().collect()));
    }
}
