//! The texts in a normalisation form, as an automaton over bytes.
//!
//! The rest of this text is about form C, which is the common one and the hardest. A text is in form D if no
//! character of it decomposes and its marks are sorted. The compatibility forms KC and KD are forms C and D without
//! the characters that decompose further by compatibility, since these forms replace them. So all four are one
//! construction over different sets of characters.
//!
//! An encoder with an NFC normaliser writes a text only if the text equals its own form C. This condition depends on
//! little of the text read so far: on the last starter (a character of combining class 0), and on the class of the
//! last mark after it. This file computes the dependency once, for all of Unicode.
//!
//! # The state after a text
//!
//! Let a text in form C end in a starter S and marks (characters of a class above 0) after it. Let x be the next
//! character, itself in form C. Form C is closed under substrings, so the text before S does not matter, and
//!
//! - a mark x is refused if its class is below the class of the previous mark, since form C sorts marks.
//! - x is refused if it composes with S: then form C begins with a longer character than S. After a mark of its own
//!   class or a higher one, x cannot compose, so a starter never composes after a mark.
//! - Otherwise there are only marks of lower classes before x. None of these composed with S, and they do not block
//!   x. So x composes with S exactly if the pair Sx is not in form C. The decision does not depend on S itself, but
//!   on S without those marks of its decomposition that sort after x: `é` refuses U+0323, since there is an `ẹ`.
//! - All other characters are accepted. If x does not compose, the rest of S is composed as if x were absent.
//!
//! Only 110 characters can compose with a previous one. So a state is a set of these and a class. The set contains
//! the characters that S refuses and whose class is above the class of the last mark. The class is the class of the
//! last mark. The start is the empty set without a mark. It is the state before any text, and after the many
//! characters that never compose with the next one.
//!
//! # Size and cost
//!
//! | part | number |
//! |---|--:|
//! | sets of refused characters | 126 |
//! | classes | 55 |
//! | states between characters | 4,812 |
//! | all states | 24,715 |
//! | classes of bytes | 136 |
//! | memory | 13 MB |
//! | time to build | 0.1 s |
//! | states visited by text in 18 languages | 221 |
//!
//! Nearly every state between characters needs states of its own inside the characters that are marks. No smaller
//! automaton has this language. Most of it concerns marks of one script on letters of another. Tried instead:
//!
//! - Separate automata for the order of marks and for compositions, run in parallel. They have 425 and 14,853
//!   states; or 6,400 in all with one automaton for each class that composes. A step costs one look-up per
//!   automaton, and their product is this automaton.
//! - Forgetting S after a mark that does not compose with it, and then refusing every character that composes with
//!   anything: 1,212 states. This automaton refuses `n` with a tilde below and a circumflex, which is in form C,
//!   since only other letters compose with a circumflex.
//!
//! # Which Unicode
//!
//! The normaliser of the tokenizers library is the reference, so the tables are the ones that it uses: the crate
//! `unicode-normalization-alignments` 0.1.12 with Unicode 9. Later versions do not change the properties of
//! characters that it knows. It treats all other characters as starters that never compose. Compared with Unicode
//! 18, 188 marks (U+08D3, U+1DF6, U+1E4EE, …) may be in any order and hide a following mark from the letter before
//! them, and 21 characters (U+105C9, U+11938, U+16D68, …) are not composed from their parts. The library leaves
//! these texts unchanged, so they are accepted although they are not in form C today. All texts that are in form C
//! today are accepted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::LazyLock,
};

use unicode_normalization_alignments::{
    UnicodeNormalization,
    char::{canonical_combining_class, compose, decompose_canonical, decompose_compatible},
};
use unskew_core::UnicodeForm;

use super::added::TextDfa;
use crate::{
    StateId,
    dfa::ByteClasses,
    dfa::table::{DEAD, Table},
    ids::FormState,
};

/// A table for each form, built at the first use.
struct ByForm<T>([LazyLock<T>; 4]);

impl<T> ByForm<T> {
    fn get(&self, form: UnicodeForm) -> &T {
        &self.0[match form {
            UnicodeForm::Nfc => 0,
            UnicodeForm::Nfd => 1,
            UnicodeForm::Nfkc => 2,
            UnicodeForm::Nfkd => 3,
        }]
    }
}

/// The **steady** characters: a form accepts them and leaves them unchanged after any text. The result is an
/// automaton over bytes with state 0 between characters. It is the subset construction from all states between
/// characters at once, without the sets of which some member refuses.
pub(crate) fn steady(form: UnicodeForm) -> &'static [[u32; 256]] {
    static STEADY: ByForm<Vec<[u32; 256]>> = ByForm([
        LazyLock::new(|| steady_of(UnicodeForm::Nfc)),
        LazyLock::new(|| steady_of(UnicodeForm::Nfd)),
        LazyLock::new(|| steady_of(UnicodeForm::Nfkc)),
        LazyLock::new(|| steady_of(UnicodeForm::Nfkd)),
    ]);
    STEADY.get(form)
}

fn steady_of(form: UnicodeForm) -> Vec<[u32; 256]> {
    let form = texts(form);
    // Exactly the states between characters read this letter.
    let is_between = |state: FormState| form.step(state, b'a').is_some();
    let between: Vec<FormState> = form.states().filter(|state| is_between(*state)).collect();
    let mut ids: HashMap<Vec<FormState>, u32> = HashMap::new();
    let mut sets = vec![between];
    let mut table: Vec<[u32; 256]> = Vec::new();
    let mut at = 0;
    while let Some(set) = sets.get(at).cloned() {
        let mut row = [DEAD; 256];
        let mut by_class = vec![None; form.classes.len()];
        for byte in 0..=255u8 {
            let target = by_class[usize::from(form.classes.get(byte))].get_or_insert_with(|| {
                let next = set.iter().map(|state| form.step(*state, byte)).collect::<Option<Vec<_>>>();
                let Some(mut next) = next else { return DEAD };
                next.sort_unstable();
                next.dedup();
                match next.last() {
                    None => DEAD,
                    Some(state) if is_between(*state) => 0,
                    Some(_) => *ids.entry(next.clone()).or_insert_with(|| {
                        sets.push(next);
                        u32::try_from(sets.len() - 1).expect("hundreds of sets")
                    }),
                }
            });
            row[usize::from(byte)] = *target;
        }
        table.push(row);
        at += 1;
    }
    table
}

/// All texts in `form`, and all their prefixes, which may end inside a character. The start is state 0. Built at the
/// first call.
pub(crate) fn texts(form: UnicodeForm) -> &'static TextDfa<FormState> {
    static TEXTS: ByForm<TextDfa<FormState>> = ByForm([
        LazyLock::new(|| texts_of(UnicodeForm::Nfc)),
        LazyLock::new(|| texts_of(UnicodeForm::Nfd)),
        LazyLock::new(|| texts_of(UnicodeForm::Nfkc)),
        LazyLock::new(|| texts_of(UnicodeForm::Nfkd)),
    ]);
    TEXTS.get(form)
}

fn texts_of(form: UnicodeForm) -> TextDfa<FormState> {
    let table = build(&Characters::new(form));
    TextDfa::from_table(table.classes, table.next)
}

/// A set of characters that can compose with a previous one: one bit each, in ascending order of classes.
type Set = u128;

/// The state between two characters. Class 0 means that no mark follows the last starter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Between {
    /// The characters that would compose with the text read so far.
    refused: Set,
    class: u8,
}

/// The effect of a character.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// It is not in form C even alone, or is not a character.
    Never,
    Starter {
        /// Its bit in sets of refused characters; no bit if it never composes with a previous one.
        member: Set,
        /// The characters that it refuses after itself.
        refuses: Set,
    },
    Mark {
        class: u8,
        member: Set,
    },
}

/// All characters by their effect.
struct Characters {
    /// The different effects. [`Kind::Never`] is the first.
    kinds: Vec<Kind>,
    /// By code point, surrogates included: the index into `kinds`.
    of: Vec<u16>,
    /// By class: the set of composing characters of higher classes.
    above: [Set; 256],
}

impl Characters {
    fn new(form: UnicodeForm) -> Self {
        let composes = matches!(form, UnicodeForm::Nfc | UnicodeForm::Nfkc);
        let is_compatible = matches!(form, UnicodeForm::Nfkc | UnicodeForm::Nfkd);
        // Collects the characters that decompose, with their parts; the characters that are never in the form; and
        // the marks. Nearly all characters are starters that do not decompose.
        let mut composed: Vec<(char, Vec<char>)> = Vec::new();
        let mut never: Vec<char> = Vec::new();
        let mut marks: Vec<(char, u8)> = Vec::new();
        let mut parts = Vec::new();
        for character in '\0'..=char::MAX {
            parts.clear();
            decompose_canonical(character, |part| parts.push(part));
            let class = canonical_combining_class(character);
            let mut compatible = 0;
            let mut is_other = false;
            if is_compatible {
                decompose_compatible(character, |part| {
                    is_other |= parts.get(compatible) != Some(&part);
                    compatible += 1;
                });
            }
            if is_other || !composes && parts != [character] {
                never.push(character);
            } else if parts != [character] {
                let mut form = parts.iter().copied().nfc().map(|(character, _)| character);
                if form.next() == Some(character) && form.next().is_none() {
                    composed.push((character, parts.clone()));
                } else {
                    never.push(character);
                }
            } else if class != 0 {
                marks.push((character, class));
            }
        }

        let followers: BTreeSet<(u8, char)> = composed
            .iter()
            .flat_map(|(_, parts)| &parts[1..])
            .map(|part| (canonical_combining_class(*part), *part))
            .collect();
        let followers: Vec<(u8, char)> = followers.into_iter().collect();
        assert!(followers.len() <= 128, "the members of a set have a bit each");
        let members: HashMap<char, Set> =
            followers.iter().enumerate().map(|(bit, (_, character))| (*character, 1 << bit)).collect();
        let member = |first: char| members.get(&first).copied().unwrap_or(0);
        let mut above = [0; 256];
        for (class, above) in (0..=255).zip(&mut above) {
            let higher = followers.iter().filter(|follower| follower.0 > class);
            *above = higher.map(|(_, character)| member(*character)).fold(0, |set, member| set | member);
        }

        let mut characters = Self { kinds: vec![Kind::Never], of: vec![0; 0x11_0000], above };
        let mut ids = HashMap::from([(Kind::Never, 0u16)]);
        let mut id = |kind| {
            *ids.entry(kind).or_insert_with(|| {
                characters.kinds.push(kind);
                u16::try_from(characters.kinds.len() - 1).expect("hundreds of kinds")
            })
        };
        let of = &mut characters.of;
        of.fill(id(Kind::Starter { member: 0, refuses: 0 }));
        of[0xd800..0xe000].fill(0);
        for character in never {
            of[character as usize] = 0;
        }
        for (character, class) in marks {
            of[character as usize] = id(Kind::Mark { class, member: member(character) });
        }
        let starters: BTreeSet<char> = composed
            .iter()
            .flat_map(|(_, parts)| parts)
            .copied()
            .filter(|part| canonical_combining_class(*part) == 0)
            .collect();
        let simple = starters.into_iter().map(|character| (character, vec![character]));
        for (character, parts) in simple.chain(composed) {
            let refuses = refuses(character, &parts, &followers);
            of[character as usize] = id(Kind::Starter { member: member(parts[0]), refuses });
        }
        characters
    }
}

/// The set of `followers` that compose with `starter` when only marks of lower classes are between them. `starter`
/// decomposes into `parts`.
fn refuses(starter: char, parts: &[char], followers: &[(u8, char)]) -> Set {
    let is_starter = |part: &char| canonical_combining_class(*part) == 0;
    let marks = parts.iter().rposition(is_starter).map_or(0, |last| last + 1);
    let mut base = parts[0];
    for part in &parts[1..marks] {
        base = compose(base, *part).expect("the parts compose to the starter");
    }
    let mut marks = parts[marks..].iter().copied().peekable();
    let mut set = 0;
    for (bit, (class, follower)) in followers.iter().enumerate() {
        // A starter sorts after all marks of `starter`. A mark sorts before the marks of higher classes.
        while let Some(mark) = marks.next_if(|mark| *class != 0 && canonical_combining_class(*mark) <= *class)
        {
            base = compose(base, mark).expect("the parts compose to the starter");
        }
        let base = if *class == 0 { starter } else { base };
        set |= Set::from(compose(base, *follower).is_some()) << bit;
    }
    set
}

/// The states between characters.
struct States {
    states: Vec<Between>,
    ids: HashMap<Between, u32>,
}

impl States {
    fn id(&mut self, state: Between) -> u32 {
        *self.ids.entry(state).or_insert_with(|| {
            self.states.push(state);
            StateId::from_index(self.states.len() - 1).0
        })
    }
}

/// 64 consecutive items that one byte distinguishes: characters, or patterns of the next byte.
struct Pattern {
    /// The different items among them.
    distinct: Vec<u16>,
    /// For each item, its index in `distinct`.
    of: [u8; 64],
    /// The states built from it so far, by the targets of `distinct`.
    built: HashMap<Vec<u32>, u32>,
    /// The latest entry of `built`.
    latest: (Vec<u32>, u32),
}

impl Pattern {
    fn new(children: &[u16]) -> Self {
        let mut distinct = Vec::new();
        let of = std::array::from_fn(|at| {
            // There are no characters beyond the last code point.
            let child = children.get(at).copied().unwrap_or(0);
            let place = distinct.iter().position(|other| *other == child).unwrap_or_else(|| {
                distinct.push(child);
                distinct.len() - 1
            });
            u8::try_from(place).expect("below 64")
        });
        Self { distinct, of, built: HashMap::new(), latest: (Vec::new(), DEAD) }
    }
}

/// States inside characters, which read a continuation byte next.
struct Inside {
    rows: Vec<[u32; 64]>,
    ids: HashMap<[u32; 64], u32>,
    /// The number of the first of these states.
    first: usize,
    targets: Vec<u32>,
}

impl Inside {
    /// The state that reads one of the items of `pattern`. `below` are the targets of all items.
    fn state(&mut self, pattern: &mut Pattern, below: &[u32]) -> u32 {
        self.targets.clear();
        self.targets.extend(pattern.distinct.iter().map(|child| below[usize::from(*child)]));
        if self.targets.iter().all(|target| *target == DEAD) {
            return DEAD;
        }
        // Most patterns have the same targets in all states between characters, or in all states with the same set.
        if pattern.latest.0 == self.targets {
            return pattern.latest.1;
        }
        let id = pattern.built.get(&self.targets).copied().unwrap_or_else(|| {
            let row = pattern.of.map(|place| self.targets[usize::from(place)]);
            let id = *self.ids.entry(row).or_insert_with(|| {
                self.rows.push(row);
                StateId::from_index(self.first + self.rows.len() - 1).0
            });
            pattern.built.insert(self.targets.clone(), id);
            id
        });
        pattern.latest.0.clone_from(&self.targets);
        pattern.latest.1 = id;
        id
    }
}

/// The patterns of one byte position of an encoding.
struct Level {
    /// The different runs of 64 items; the empty run is the first.
    patterns: Vec<Pattern>,
    /// The pattern of each run.
    of: Vec<u16>,
    /// By pattern: its state, for the current state between characters.
    targets: Vec<u32>,
}

impl Level {
    /// `below` are the items that the bytes lead to.
    fn new(below: &[u16]) -> Self {
        let mut ids: HashMap<&[u16], u16> = HashMap::from([(&[0; 64][..], 0)]);
        let mut patterns = vec![Pattern::new(&[])];
        let of = below
            .chunks(64)
            .map(|run| {
                *ids.entry(run).or_insert_with(|| {
                    patterns.push(Pattern::new(run));
                    u16::try_from(patterns.len() - 1).expect("hundreds of patterns")
                })
            })
            .collect();
        Self { patterns, of, targets: Vec::new() }
    }

    /// The level of the byte before this one. The first `shorter` runs have shorter encodings.
    fn above(&self, shorter: usize) -> Self {
        let mut below = self.of.clone();
        below[..shorter].fill(0);
        Self::new(&below)
    }

    fn set_targets(&mut self, inside: &mut Inside, below: &[u32]) {
        self.targets.clear();
        self.targets.extend(self.patterns.iter_mut().map(|pattern| inside.state(pattern, below)));
    }

    fn target(&self, run: u8) -> u32 {
        self.targets[usize::from(self.of[usize::from(run)])]
    }
}

/// The minimal automaton of the texts of which each character is accepted in turn.
fn build(characters: &Characters) -> Table {
    let mut states = States { states: Vec::new(), ids: HashMap::new() };
    states.id(Between { refused: 0, class: 0 });
    // An accepted starter leads to the same state from everywhere.
    let after_starter: Vec<u32> = characters
        .kinds
        .iter()
        .map(|kind| match *kind {
            Kind::Starter { refuses, .. } => states.id(Between { refused: refuses, class: 0 }),
            _ => DEAD,
        })
        .collect();
    let mut mark_classes = [false; 256];
    for kind in &characters.kinds {
        if let Kind::Mark { class, .. } = kind {
            mark_classes[usize::from(*class)] = true;
        }
    }
    // No mark sorts before marks of the lowest class, so this class counts as no mark.
    let lowest = mark_classes.iter().position(|is_used| *is_used);
    // By state: the target for each class of marks.
    let mut after_mark: Vec<[u32; 256]> = Vec::new();
    while let Some(state) = states.states.get(after_mark.len()).copied() {
        let mut targets = [DEAD; 256];
        for class in state.class..=255 {
            if mark_classes[usize::from(class)] {
                let refused = state.refused & characters.above[usize::from(class)];
                let kept = if Some(usize::from(class)) == lowest { 0 } else { class };
                targets[usize::from(class)] = states.id(Between { refused, class: kept });
            }
        }
        after_mark.push(targets);
    }

    let mut last = Level::new(&characters.of);
    let mut middle = last.above(32);
    let mut second = middle.above(16);

    let mut begins = [true; 256];
    for (begins, neighbours) in begins[1..0x80].iter_mut().zip(characters.of.windows(2)) {
        *begins = neighbours[0] != neighbours[1];
    }
    let mut table = Table::new(ByteClasses::from_begins(&begins));
    let mut inside =
        Inside { rows: Vec::new(), ids: HashMap::new(), first: states.states.len(), targets: Vec::new() };
    let mut targets = Vec::new();
    for (state, after_mark) in states.states.iter().zip(&after_mark) {
        targets.clear();
        targets.extend(characters.kinds.iter().zip(&after_starter).map(|(kind, after)| match *kind {
            Kind::Starter { member, .. } if state.refused & member == 0 => *after,
            Kind::Mark { class, member } if state.refused & member == 0 => after_mark[usize::from(class)],
            _ => DEAD,
        }));
        last.set_targets(&mut inside, &targets);
        middle.set_targets(&mut inside, &last.targets);
        second.set_targets(&mut inside, &middle.targets);
        let row = table.push(true);
        for byte in 0..=255 {
            let target = match byte {
                0..=0x7f => targets[usize::from(characters.of[usize::from(byte)])],
                0xc2..=0xdf => last.target(byte - 0xc0),
                0xe0..=0xef => middle.target(byte - 0xe0),
                0xf0..=0xf4 => second.target(byte - 0xf0),
                _ => DEAD,
            };
            let class = table.classes.get(byte);
            table.row_mut(row)[usize::from(class)] = target;
        }
    }
    let first = usize::from(table.classes.get(0x80));
    for row in &inside.rows {
        let state = table.push(true);
        table.row_mut(state)[first..first + 64].copy_from_slice(row);
    }
    table.canonical()
}

#[cfg(test)]
mod tests;
