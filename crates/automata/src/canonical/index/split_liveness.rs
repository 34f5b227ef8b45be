//! Precomputed liveness: the states of a tokenizer's automata that accept every ordinary continuation. They are the
//! reason why most positions need no search.
//!
//! A position of a constraint is *live* if some accepted text continues from it, over bytes and piece boundaries. A
//! search could decide that for each position. But where the tokenizer cannot refuse the continuation, the
//! constraint alone decides, and its DFA has no dead states. The *splitter* is the automaton over bytes and
//! boundaries ([`SplitDfa`](crate::split::SplitDfa)). The *text DFA* accepts the texts without added tokens
//! ([`TextDfa`]). This file computes once for a tokenizer:
//!
//! - The **ordinary characters**. The splitter reads them at the start of a text. If texts are brought into
//!   normalisation form C, they are also unchanged by this form after any text.
//! - The **universal** states of the splitter: every text of ordinary characters can be read from them, with
//!   boundaries inserted as needed. No state after two blanks is universal, since each already determines whether a
//!   letter follows. This is the universality problem of a nondeterministic automaton in which boundaries are free
//!   moves. The sets of its subset construction have few members, nearly always one.
//! - The bytes that can complete an **added token**. Only its last byte after its last but one byte can complete an
//!   added token.
//!
//! - The **free** added tokens. They may follow after any text, and lead to the start of a text that is universal.
//!
//! It computes once for a constraint the *safe* states of its DFA: the states from which ordinary characters and free
//! added tokens lead to acceptance, where no two characters could end an added token. **A safe state together with a
//! universal state is live**: the text that leads the first to acceptance can be read from the second. A universal
//! state accepts the empty text, so that an added token may follow.
//!
//! A state that is not safe is no fault: its way to acceptance needs a character that is not ordinary, or the text of
//! an added token that is not free. It costs searches. Tried instead: to leave out of a constraint the texts that the
//! tokenizer rewrites, so that every state is safe. A combining mark is rewritten after some letters and not after
//! others, and a text with one may have no ordinary end.

use rustc_hash::FxHashMap as Map;
use smallvec::SmallVec;
use unskew_trie::ByteSet;

use super::{
    tables::CanonicalIndex,
    universal::{CharacterDfa, Subset, ordinary, places, step, universal, utf8_table},
};
use crate::{
    Dfa, StateId,
    canonical::{
        merges::derivation::NONE,
        texts::{added::TextDfa, utf8::utf8},
        tokenizer::automaton::TokenizerAutomaton,
        viability::{language::DfaLanguage, position::Automata},
    },
    dfa::table::DEAD,
    ids::{CharacterState, SplitState, Table, TextState, TokenClass},
};

/// Facts about a tokenizer's automata.
#[derive(Debug)]
pub(crate) struct SplitLiveness {
    /// By splitter state: whether it is universal. States inside a character are not.
    pub(crate) universal: Table<SplitState, bool>,
    /// By splitter state: the ASCII bytes that lead to a universal state.
    pub(crate) live_next: Table<SplitState, ByteSet>,
    /// By splitter state: the ASCII bytes that lead to a universal state after a boundary.
    pub(crate) live_after_boundary: Table<SplitState, ByteSet>,
    /// By state of the text DFA: whether it is calm, that is, refuses no byte.
    calm: Table<TextState, bool>,
    /// The bytes that some text state refuses: the last bytes of added tokens. And the bytes that lead to a state
    /// that is not calm.
    pub(super) last: ByteSet,
    pub(super) last_but_one: ByteSet,
    /// The ordinary characters as an automaton over bytes.
    pub(super) characters: CharacterDfa,
    /// By splitter state: the UTF-8 state within a character, as for [`utf8`]. It is also 0 if it is not unique.
    pub(crate) places: Table<SplitState, u8>,
    /// By splitter state: whether it is a state after a wide character. These states are universal and accepting.
    /// Non-ASCII characters mostly end in them, or their [`live_after_boundary`](Self::live_after_boundary) contains
    /// an element of `after_wide_char`.
    pub(crate) is_after_wide_char: Table<SplitState, bool>,
    /// The distinct [`live_after_boundary`](Self::live_after_boundary) of the states in which non-ASCII characters
    /// mostly end.
    pub(crate) after_wide_char: Vec<ByteSet>,
    /// By splitter state that is not universal: two-byte look-ahead. The pairs are an ASCII byte and the state after
    /// it, read directly or after a boundary, from which a further byte leads to a universal state.
    pub(crate) lookahead2: Table<SplitState, Lookahead2>,
    /// The distinct lists of [`lookahead2`](Self::lookahead2) after a boundary, of accepting states that are not
    /// universal. Runs of blanks end in these states. A constraint that can continue with an entry of the list
    /// continues in another piece.
    pub(crate) lookahead2_lists: Vec<Lookahead2>,
    /// By splitter state: the index of its list in `lookahead2_lists`.
    pub(crate) lookahead2_of: Table<SplitState, Option<u8>>,
    /// Whether no added token can end inside a non-ASCII character or with it.
    pub(crate) is_calm_inside: bool,
    /// By number of an added token: whether it is free.
    pub(super) free: Vec<bool>,
    /// The number of states between characters that are not universal.
    uncertain: usize,
}

/// Bytes, and the states after them.
type Lookahead2 = SmallVec<[(u8, SplitState); 4]>;

/// Results of [`SplitLiveness::completes_character`], by the class of the token, the splitter state and the state of
/// the ordinary characters, if the character must be ordinary.
pub(crate) type CharacterMemo = Map<(TokenClass, SplitState, Option<CharacterState>), bool>;

impl SplitLiveness {
    pub(crate) fn new(tokenizer: &TokenizerAutomaton) -> Self {
        let split = &tokenizer.split;
        let characters =
            ordinary(split, tokenizer.form.map_or_else(utf8_table, crate::canonical::texts::form::steady));
        let universal = universal(split, &characters);
        let leads = |state: SplitState| {
            let bytes =
                (0..0x80u8).filter(|byte| split.step(state, *byte).is_some_and(|next| universal[next]));
            bytes.collect::<ByteSet>()
        };
        let live_next: Table<SplitState, ByteSet> = split.states().map(leads).collect();
        let after = |state: SplitState| split.mark(state).map_or_else(ByteSet::default, leads);
        let live_after_boundary: Table<SplitState, ByteSet> = split.states().map(after).collect();
        let (calm, last, last_but_one) = endings(&tokenizer.text);
        let places = places(split);
        let is_uncertain = |state: &SplitState| places[*state] & 1 != 0 && !universal[*state];
        let uncertain = split.states().filter(is_uncertain).count();
        let lookahead2_from = |state: SplitState| {
            let mut lookahead2 = Lookahead2::new();
            for from in split.mark(state).into_iter().chain([state]) {
                for byte in (0..0x80u8).filter(|byte| !last.contains(*byte) && !last_but_one.contains(*byte))
                {
                    if let Some(next) = split.step(from, byte)
                        && !live_next[next].is_empty()
                        && characters.is_character(byte)
                    {
                        lookahead2.push((byte, next));
                    }
                }
            }
            lookahead2
        };
        let lookahead2: Table<SplitState, Lookahead2> = split
            .states()
            .map(|state| match is_uncertain(&state) {
                true => lookahead2_from(state),
                false => Lookahead2::new(),
            })
            .collect();
        let mut lookahead2_lists: Vec<Lookahead2> = Vec::new();
        let list_of = |state: SplitState| {
            let after = Some(&lookahead2[split.mark(state)?]).filter(|lookahead2| !lookahead2.is_empty())?;
            let is_looked_at = split.is_accepting(state) && !universal[state] && places[state] == 1;
            let at = lookahead2_lists.iter().position(|known| known == after).or_else(|| {
                (is_looked_at && lookahead2_lists.len() < LOOKAHEAD2_LISTS).then(|| {
                    lookahead2_lists.push(after.clone());
                    lookahead2_lists.len() - 1
                })
            });
            at.filter(|_| is_looked_at).and_then(|at| u8::try_from(at).ok())
        };
        let lookahead2_of = split.states().map(list_of).collect();
        // The states in which the characters of most scripts, and signs, end.
        let ends = ["é", "я", "中", "ก", "“", "→", "٣", "😀"].map(|text| {
            text.bytes().fold(Subset::from_slice(&[split.start()]), |subset, byte| step(split, &subset, byte))
        });
        let mut is_after_wide_char: Table<SplitState, bool> = Table::filled(false, split.len());
        for state in ends.iter().flatten().copied() {
            is_after_wide_char[state] = universal[state] && split.is_accepting(state);
        }
        let mut after_wide_char: Vec<ByteSet> = Vec::new();
        for (state, _) in is_after_wide_char.iter().filter(|(_, is)| **is) {
            let bytes = live_after_boundary[state];
            if !after_wide_char.contains(&bytes) {
                after_wide_char.push(bytes);
            }
        }
        // Other states count too if at least the same bytes may follow.
        for (state, bytes) in live_after_boundary.iter() {
            let is_wider = after_wide_char.iter().any(|needed| needed.and(bytes) == *needed);
            is_after_wide_char[state] |= universal[state] && split.is_accepting(state) && is_wider;
        }
        let is_calm = |state: TextState| calm[state];
        let mut free = tokenizer.text.always_read(is_calm);
        for (free, added) in free.iter_mut().zip(&tokenizer.added) {
            // The form of the text may refuse one that is matched after the normaliser.
            let is_plain = !added.strips && (!added.normalized || tokenizer.form.is_none());
            *free &= is_plain && split.section(added.section).is_some_and(|start| universal[start]);
        }
        Self {
            free,
            universal,
            live_next,
            is_calm_inside: last.iter().chain(last_but_one.iter()).all(|byte| byte.is_ascii()),
            lookahead2,
            lookahead2_lists,
            lookahead2_of,
            live_after_boundary,
            calm,
            last,
            last_but_one,
            characters,
            places: places.entries().iter().map(|places| only_place(*places)).collect(),
            is_after_wide_char,
            after_wide_char,
            uncertain,
        }
    }

    /// The safety of the states of the constraint's DFA, and how many states between characters are not safe.
    pub(crate) fn safety(
        &self,
        DfaLanguage { dfa, places, .. }: &DfaLanguage,
        automata: Automata<'_, DfaLanguage>,
    ) -> (Vec<Safety>, usize) {
        let is_between = |state: StateId| places.get(state.index()).is_none_or(|places| places & 1 != 0);
        let between: Vec<bool> = dfa.states().map(is_between).collect();
        let mut safe = self.by_ascii(dfa);
        let unknown = |safe: &[Safety]| {
            let both = safe.iter().zip(&between);
            both.filter(|(safe, between)| **between && **safe == Safety::Unknown).count()
        };
        if unknown(&safe) > 0 {
            self.by_characters(automata, &between, &mut safe);
        }
        let unknown = unknown(&safe);
        (safe, unknown)
    }

    /// The most pairs of states that searches visit for a DFA of `states` states, of which `unknown` are not safe: an
    /// uncertain state of the splitter with any state, or any state of the splitter with one that is not safe.
    pub(crate) fn pairs(&self, states: usize, unknown: usize) -> usize {
        let wide = unknown.saturating_mul(self.universal.len());
        states.saturating_mul(self.uncertain).saturating_add(wide)
    }

    /// The states that are safe through ASCII without the bytes that end added tokens. States with higher numbers
    /// are mostly closer to acceptance, so each sweep is in descending order. After [`SWEEPS`] sweeps the rest is
    /// undecided.
    pub(super) fn by_ascii(&self, dfa: &Dfa) -> Vec<Safety> {
        let table = dfa.table();
        let mut columns: Vec<usize> = (0..0x80u8)
            .filter(|byte| self.characters.is_character(*byte) && !self.last.contains(*byte))
            .map(|byte| usize::from(table.classes.get(byte)))
            .collect();
        columns.dedup();
        let mut safe: Vec<Safety> = table
            .accepting
            .iter()
            .map(|accepts| if *accepts { Safety::Always } else { Safety::Unknown })
            .collect();
        for _ in 0..SWEEPS {
            let mut changed = false;
            for state in dfa.states().rev() {
                if safe[state.index()] == Safety::Unknown {
                    let row = table.row(state);
                    let leads = |column: &usize| {
                        row[*column] != DEAD && safe[row[*column] as usize] == Safety::Always
                    };
                    if columns.iter().any(leads) {
                        safe[state.index()] = Safety::Always;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        safe
    }

    /// Decides the undecided states: a backward search from acceptance through ordinary characters and free added
    /// tokens. One bit of a node tells whether the previous byte may be the last but one byte of an added token.
    fn by_characters(&self, automata: Automata<'_, DfaLanguage>, between: &[bool], safe: &mut [Safety]) {
        type Node = (StateId, CharacterState, bool);
        let dfa = &automata.language.dfa;
        let mut ids: Map<Node, usize> = Map::default();
        let mut nodes: Vec<Node> = Vec::new();
        // One byte of each class of bytes that no automaton distinguishes.
        let mut bytes: Vec<u8> = dfa.bytes().collect();
        let column = |byte: u8| {
            let of = self.characters.column(byte);
            let ends = [self.last, self.last_but_one].map(|set| u32::from(set.contains(byte)));
            of.chain([u32::from(dfa.classes().get(byte))]).chain(ends).collect::<Vec<u32>>()
        };
        bytes.sort_by_cached_key(|byte| column(*byte));
        bytes.dedup_by_key(|byte| column(*byte));
        for (state, _) in dfa.states().zip(between).filter(|(_, between)| **between) {
            for before in [false, true] {
                let node = (state, CharacterState::BETWEEN, before);
                ids.insert(node, nodes.len());
                nodes.push(node);
            }
        }
        let mut edges: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while let Some((state, place, before)) = nodes.get(at).copied() {
            for byte in bytes.iter().copied().filter(|byte| !before || !self.last.contains(*byte)) {
                let Some(place) = self.characters.step(place, byte) else { continue };
                if let Some(next) = dfa.step(state, byte) {
                    let node = (next, place, self.last_but_one.contains(byte));
                    let id = *ids.entry(node).or_insert_with(|| {
                        nodes.push(node);
                        nodes.len() - 1
                    });
                    edges.push((id, at));
                }
            }
            if place == CharacterState::BETWEEN {
                for number in automata.added_numbers(state).filter(|number| self.free[*number]) {
                    let next = dfa.run(state, &automata.tokenizer.added[number].content);
                    edges.extend(next.map(|next| (ids[&(next, CharacterState::BETWEEN, false)], at)));
                }
            }
            at += 1;
        }
        edges.sort_unstable();
        edges.dedup();
        let accepts = |node: &Node| node.1 == CharacterState::BETWEEN && dfa.is_accepting(node.0);
        let mut reached: Vec<bool> = nodes.iter().map(accepts).collect();
        let mut open: Vec<usize> = (0..nodes.len()).filter(|node| reached[*node]).collect();
        while let Some(node) = open.pop() {
            let begin = edges.partition_point(|(target, _)| *target < node);
            for (_, source) in edges[begin..].iter().take_while(|(target, _)| *target == node) {
                if !std::mem::replace(&mut reached[*source], true) {
                    open.push(*source);
                }
            }
        }
        for ((state, place, before), _) in nodes.iter().zip(&reached).filter(|(_, reached)| **reached) {
            let safe = &mut safe[state.index()];
            match (place, before) {
                (&CharacterState::BETWEEN, true) => *safe = Safety::Always,
                (&CharacterState::BETWEEN, false) if *safe == Safety::Unknown => *safe = Safety::WhenCalm,
                _ => {}
            }
        }
    }

    /// Whether a state of this safety is safe in combination with this text state.
    #[inline]
    pub(crate) fn holds(&self, safe: Safety, text: TextState) -> bool {
        match safe {
            Safety::Always => true,
            Safety::WhenCalm => self.calm[text],
            Safety::Unknown => false,
        }
    }

    /// Whether tokens can follow `token` that complete the character in which the splitter's `state` is, exactly,
    /// and lead to a state after a wide character. At most three tokens are needed. `place` is the state of the
    /// ordinary characters if the character must be ordinary. Results are kept in `memo`.
    pub(crate) fn completes_character(
        &self,
        index: &CanonicalIndex,
        memo: &mut CharacterMemo,
        token: u32,
        state: SplitState,
        place: Option<CharacterState>,
    ) -> bool {
        let key = (index.automaton.bigrams.class(token), state, place);
        if let Some(known) = memo.get(&key) {
            return *known;
        }
        let completes_character = self.completes_character_with(index, memo, (token, state, place), |_| true);
        memo.insert(key, completes_character);
        completes_character
    }

    /// As [`completes_character`](Self::completes_character), where the next token must satisfy `counts`.
    pub(crate) fn completes_character_with(
        &self,
        index: &CanonicalIndex,
        memo: &mut CharacterMemo,
        (token, state, place): (u32, SplitState, Option<CharacterState>),
        counts: impl Fn(u32) -> bool,
    ) -> bool {
        let (tokenizer, split) = (&*index.automaton, &index.automaton.split);
        // Any character counts where none must be ordinary.
        let next_place = |place: Option<CharacterState>, byte: u8| match place {
            None => Some(None),
            Some(place) => self.characters.step(place, byte).map(Some),
        };
        let mut ends = |next_token: u32, next: SplitState, place: Option<CharacterState>| {
            (self.is_after_wide_char[next] || self.places[next] != 0)
                && counts(next_token)
                && tokenizer.bigrams.may_follow(token, next_token)
                && (self.is_after_wide_char[next]
                    || self.completes_character(index, memo, next_token, next, place))
        };
        let mut completes_character = (0x80..0xc0u8).any(|byte| {
            let symbol = tokenizer.symbols[usize::from(byte)];
            let next = split.step(state, byte).filter(|_| symbol != NONE);
            let next = next.and_then(|next| Some((next, next_place(place, byte)?)));
            next.is_some_and(|(next, place)| ends(symbol, next, place))
        });
        if !completes_character {
            completes_character = index.trie.any(
                (state, place),
                |(state, place), byte| {
                    let continues = self.places[state] != 0 && !byte.is_ascii();
                    let next = split.step(state, byte).filter(|_| continues);
                    next.and_then(|next| Some((next, next_place(place, byte)?)))
                },
                |unskew_core::TokenId(token), (next, place)| {
                    tokenizer.is_merged(token) && ends(token, next, place)
                },
            );
        }
        completes_character
    }

    /// The state of the ordinary characters after `text`. `None` if `text` has another character.
    pub(crate) fn place(&self, text: &[u8]) -> Option<CharacterState> {
        text.iter().try_fold(CharacterState::BETWEEN, |place, byte| self.characters.step(place, *byte))
    }

    /// Whether no added token can end with the next byte.
    #[inline]
    pub(crate) fn is_calm(&self, text: TextState) -> bool {
        self.calm[text]
    }

    /// Whether an added token might end in `text` after its first byte.
    pub(crate) fn ends_added(&self, text: &[u8]) -> bool {
        text.windows(2).any(|pair| self.last_but_one.contains(pair[0]) && self.last.contains(pair[1]))
    }

    /// Whether some added token has this byte as its last byte.
    pub(crate) fn may_end_added(&self, byte: u8) -> bool {
        self.last.contains(byte)
    }

    /// By byte class of `dfa`: its ASCII bytes that end no added token, and the subset that is not the last but one
    /// byte of an added token either. Classes without these bytes are omitted.
    pub(crate) fn columns(&self, dfa: &Dfa) -> Vec<(u8, [ByteSet; 2])> {
        let mut columns: Vec<(u8, [ByteSet; 2])> = Vec::new();
        for byte in (0..0x80u8).filter(|byte| !self.last.contains(*byte)) {
            let [bytes, calm] = of_class(&mut columns, dfa.classes().get(byte));
            bytes.insert(byte);
            if !self.last_but_one.contains(byte) {
                calm.insert(byte);
            }
        }
        columns
    }

    /// For each of [`lookahead2_lists`](Self::lookahead2_lists), by a byte of each class of a constraint: after this
    /// byte the constraint must certainly be able to continue with one of these bytes.
    pub(crate) fn lookahead2_by_class(&self, class: impl Fn(u8) -> u8) -> Vec<Vec<(u8, ByteSet)>> {
        let by_class = |list: &Lookahead2| {
            let mut live_next: Vec<(u8, ByteSet)> = Vec::new();
            for (byte, after) in list {
                let first = live_next.iter().find(|(other, _)| class(*other) == class(*byte));
                let first = first.map_or(*byte, |(other, _)| *other);
                of_class(&mut live_next, first).union(&self.live_next[*after]);
            }
            live_next
        };
        self.lookahead2_lists.iter().map(by_class).collect()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.universal.len() * (1 + 2 * size_of::<ByteSet>())
            + self.calm.len()
            + self.characters.memory_usage()
    }
}

/// The most look-ahead lists that are distinguished; a set of them is 8 bits.
const LOOKAHEAD2_LISTS: usize = 8;

/// The number of sweeps of [`SplitLiveness::by_ascii`].
const SWEEPS: usize = 12;

/// Whether ordinary text leads from a state of a DFA to acceptance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Safety {
    /// Not known.
    Unknown,
    /// Yes, if no added token can end with the next byte.
    WhenCalm,
    /// Yes.
    Always,
}

/// By text state, whether it is calm; the bytes that some state refuses; and the bytes that lead to a state that is
/// not calm.
fn endings(text: &TextDfa<TextState>) -> (Table<TextState, bool>, ByteSet, ByteSet) {
    let rows = || text.states().map(|state| text.row(state));
    let calm: Table<TextState, bool> = rows().map(|mut row| row.all(|next| next.is_some())).collect();
    let bytes_to = |is: &dyn Fn(Option<TextState>) -> bool| {
        let mut columns = vec![false; text.classes.len()];
        for row in rows() {
            row.zip(&mut columns).for_each(|(next, column)| *column |= is(next));
        }
        (0..=255u8).filter(|byte| columns[usize::from(text.classes.get(*byte))]).collect::<ByteSet>()
    };
    let last = bytes_to(&|next| next.is_none());
    let last_but_one = bytes_to(&|next| next.is_some_and(|next| !calm[next]));
    (calm, last, last_but_one)
}

/// By state of `dfa`: the UTF-8 states in which it is reached, one bit each. Empty if all bytes are ASCII. `None` if
/// `dfa` reads bytes that are not UTF-8.
pub(crate) fn places_of(dfa: &Dfa) -> Option<Vec<u8>> {
    if dfa.bytes().all(|byte| byte.is_ascii()) {
        return Some(Vec::new());
    }
    let mut places = vec![0u8; dfa.len()];
    let mut open = vec![(dfa.start(), 0u8)];
    places[dfa.start().index()] = 1;
    while let Some((state, place)) = open.pop() {
        for edge in dfa.edges(state) {
            for byte in edge.bytes {
                let next = utf8(place, byte)?;
                let reached = &mut places[edge.target.index()];
                if *reached >> next & 1 == 0 {
                    *reached |= 1 << next;
                    open.push((edge.target, next));
                }
            }
        }
    }
    Some(places)
}

/// The entry of `list` for this class, inserted if it is missing. Classes are few.
pub(crate) fn of_class<C: PartialEq, T: Default>(list: &mut Vec<(C, T)>, class: C) -> &mut T {
    let at = list.iter().position(|(other, _)| *other == class).unwrap_or_else(|| {
        list.push((class, T::default()));
        list.len() - 1
    });
    &mut list[at].1
}

/// The index of the only bit that is set; 0 if there is not exactly one.
pub(crate) fn only_place(places: u8) -> u8 {
    if places.is_power_of_two() { u8::try_from(places.trailing_zeros()).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests;
