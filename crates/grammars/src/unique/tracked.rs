//! What a mask has too much where texts may not come twice: see [`distinct`](crate::unique::distinct).
//!
//! A mask is made without knowing which texts were used. It has too much
//!
//! - tokens that end a text which was begun before them and was used, or that come to where only used texts are left. They lie
//!   on the way of a used text through the trie of the vocabulary;
//! - tokens in which such a text begins, and ends or comes to where few are left. Which tokens hold a text, and what text, is
//!   known for each terminal: those that hold a used one are looked up, and those that hold two at once are always in question.
//!   Where a text was begun before the token, it is found when the mask is made in which of its tokens another one may begin
//!   and end.
//!
//! Each of these is read where texts are tracked, and removed if it leads nowhere there. No others need to be: up to the first
//! place where a text ends or few are left, both parsers say the same.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_automata::Dfa;
use unskew_core::{MaskRef, TokenId, TokenTrie, Vocabulary};

use super::{
    distinct::{MANY, Remaining, Used},
    used_ways::Hit,
};
use crate::{
    Except,
    network::rules::NONE,
    parser::places::{BOUNDARY, Compiled, DEAD, Place, Places, Reading},
};

/// What a compiled grammar knows of its terminals whose texts may not come twice.
#[derive(Debug)]
pub(crate) struct Distinct {
    /// Their numbers.
    terminals: Box<[u32]>,
    /// What tokens hold texts of them, once it was asked for.
    holding: OnceLock<Arc<Holding>>,
}

/// The tokens in which some text of a terminal begins, and ends or becomes one of few.
#[derive(Default, Debug)]
pub(crate) struct Holding {
    all: SparseTokens,
    /// Those in which that may happen twice, or in which few texts may be left.
    twice: SparseTokens,
    /// By text: the tokens that hold it.
    by_text: HashMap<Box<[u8]>, Vec<TokenId>>,
    /// By token: where such texts begin, in ascending order.
    begins: HashMap<TokenId, SmallVec<[u32; 4]>>,
}

/// Some tokens, as the words of a mask in which they are.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct SparseTokens {
    /// The words that are not zero, with their places.
    words: Box<[(u32, u32)]>,
    /// All words, up to the last of these.
    bits: Box<[u32]>,
}

impl SparseTokens {
    fn new(mut tokens: Vec<TokenId>) -> Self {
        tokens.sort_unstable();
        let word = |token: &TokenId| u32::try_from(token.index() / 32).expect("ids are u32");
        let words = tokens.chunk_by(|left, right| word(left) == word(right)).map(|tokens| {
            let bits = tokens.iter().fold(0u32, |bits, token| bits | 1 << (token.index() % 32));
            (word(&tokens[0]), bits)
        });
        let words: Box<[(u32, u32)]> = words.collect();
        let mut bits = vec![0; words.last().map_or(0, |(last, _)| *last as usize + 1)];
        words.iter().for_each(|(word, set)| bits[*word as usize] = *set);
        Self { words, bits: bits.into() }
    }

    pub(crate) fn contains(&self, token: TokenId) -> bool {
        let bits = self.bits.get(token.index() / 32).copied().unwrap_or(0);
        bits >> (token.index() % 32) & 1 != 0
    }

    /// Adds those that are in a mask of these words.
    pub(crate) fn add_common(&self, mask: &[u32], found: &mut Vec<TokenId>) {
        for (word, bits) in &self.words {
            let mut common = bits & mask[*word as usize];
            while common != 0 {
                found.push(TokenId(word * 32 + common.trailing_zeros()));
                common &= common - 1;
            }
        }
    }

    fn ids(&self) -> impl Iterator<Item = TokenId> {
        MaskRef::new(&self.bits, self.bits.len() * 32).into_ids()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.words[..]) + size_of_val(&self.bits[..])
    }
}

impl Distinct {
    /// `None` if there are no such terminals.
    pub(crate) fn new(compiled: &Compiled) -> Option<Self> {
        let (literals, others) = compiled.terminals.len();
        let all = (literals..literals + others).map(|terminal| u32::try_from(terminal).expect("limited"));
        let terminals: Box<[u32]> =
            all.filter(|terminal| compiled.terminals.is_distinct(*terminal)).collect();
        (!terminals.is_empty()).then(|| Self { terminals, holding: OnceLock::new() })
    }

    /// What tokens hold texts of the terminals; more of them where some texts are left out. `of` knows those of an automaton.
    pub(crate) fn holding(
        &self,
        compiled: &Compiled,
        vocabulary: &Vocabulary,
        of: impl Fn(&Except, &Remaining) -> Arc<Holding>,
    ) -> &Holding {
        self.holding.get_or_init(|| {
            let languages =
                self.terminals.iter().filter_map(|terminal| compiled.terminals.remaining(*terminal));
            let mut lists: Vec<Arc<Holding>> = Vec::new();
            let mut bases: Vec<&Arc<Dfa>> = Vec::new();
            for (except, remaining) in languages {
                let list = of(except, remaining);
                if !lists.iter().any(|other| Arc::ptr_eq(other, &list)) {
                    lists.push(list);
                    bases.push(except.base());
                }
            }
            if let [list] = &lists[..] {
                return Arc::clone(list);
            }
            // Of two terminals, one text of each may be in one token.
            let of_several =
                |token: &TokenId| lists.iter().filter(|list| list.all.contains(*token)).count() > 1;
            let both = |token: &TokenId| {
                let text = vocabulary.text(*token).unwrap_or_default();
                let spans: Vec<Span> = bases.iter().flat_map(|base| spans(base, text)).collect();
                holds_two(&spans)
            };
            let mut all: Vec<TokenId> = lists.iter().flat_map(|list| list.all.ids()).collect();
            let mut twice: Vec<TokenId> = lists.iter().flat_map(|list| list.twice.ids()).collect();
            all.sort_unstable();
            all.dedup();
            twice.extend(all.iter().copied().filter(|token| of_several(token) && both(token)));
            let mut by_text: HashMap<Box<[u8]>, Vec<TokenId>> = HashMap::new();
            for (text, tokens) in lists.iter().flat_map(|list| &list.by_text) {
                by_text.entry(text.clone()).or_default().extend_from_slice(tokens);
            }
            let mut begins: HashMap<TokenId, SmallVec<[u32; 4]>> = HashMap::new();
            for (token, more) in lists.iter().flat_map(|list| &list.begins) {
                let begins = begins.entry(*token).or_default();
                begins.extend_from_slice(more);
                begins.sort_unstable();
                begins.dedup();
            }
            Arc::new(Holding {
                all: SparseTokens::new(all),
                twice: SparseTokens::new(twice),
                by_text,
                begins,
            })
        })
    }

    /// The tokens that hold this text, where it is known what they hold.
    pub(crate) fn holding_text(&self, text: &[u8]) -> &[TokenId] {
        self.holding.get().map_or(&[], |holding| holding.of(text))
    }

    /// Of the tokens of a mask for `place`, those in which a text may end that is none of the used ones yet, and yet come
    /// again. `places` track nothing; `among` says which of some tokens the mask
    /// has, and, if asked, which of them do more than to go on in a terminal that was begun.
    pub(crate) fn doubtful(
        &self,
        compiled: &Compiled,
        places: &mut Places,
        place: Place,
        vocabulary: &Vocabulary,
        among: impl Fn(&SparseTokens, bool) -> Vec<TokenId>,
    ) -> Vec<TokenId> {
        let Some(holding) = self.holding.get() else { return Vec::new() };
        let is_distinct = |terminal: u32| terminal != BOUNDARY && compiled.terminals.is_distinct(terminal);
        // Where a text was begun before the token, it may come again in it.
        if places.readings(place).iter().any(|reading| is_distinct(reading.terminal)) {
            let mut tokens = among(&holding.all, true);
            // By what is in front of a text: the terminals that may begin behind it.
            let mut beginning: HashMap<&[u8], SmallVec<[u32; 8]>> = HashMap::new();
            tokens.retain(|token| {
                let text = vocabulary.text(*token).unwrap_or_default();
                let begins = holding.begins.get(token).map_or(&[][..], |begins| begins);
                begins.iter().any(|begin| {
                    let (before, text) = text.split_at(*begin as usize);
                    let beginning =
                        beginning.entry(before).or_insert_with(|| places.beginning(compiled, place, before));
                    let terminals = &compiled.terminals;
                    beginning.iter().any(|terminal| {
                        terminals.is_distinct(*terminal) && may_end(compiled, *terminal, text)
                    })
                })
            });
            tokens
        } else {
            among(&holding.twice, false)
        }
    }
}

/// Whether `text` begins with a text of `terminal`, or with the beginning of few of them.
fn may_end(compiled: &Compiled, terminal: u32, text: &[u8]) -> bool {
    let terminals = &compiled.terminals;
    let Some((first, rest)) = text.split_first() else { return false };
    let mut state = terminals.first(terminal, terminals.class(*first));
    let mut rest = rest.iter();
    while state != NONE {
        if is_critical(compiled, terminal, state) {
            return true;
        }
        let Some(byte) = rest.next() else { break };
        state = terminals.step(terminal, state, terminals.class(*byte));
    }
    false
}

/// From where to where in a token.
type Span = (usize, usize);

/// Where in `text` there are texts of an automaton that end there: not where it reads on to the end and may still go on, for then it
/// makes no difference what was used.
fn spans(dfa: &Dfa, text: &[u8]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for from in 0..text.len() {
        let (known, mut at) = (spans.len(), Some(dfa.start()));
        for (end, byte) in (from + 1..).zip(&text[from..]) {
            at = at.and_then(|at| dfa.step(at, *byte));
            let Some(at) = at else { break };
            if dfa.is_accepting(at) {
                spans.push((from, end));
            }
        }
        if at.is_some_and(|at| dfa.edges(at).next().is_some()) {
            spans.truncate(known);
        }
    }
    spans
}

/// Whether one of these is behind another.
fn holds_two(spans: &[Span]) -> bool {
    let first_end = spans.iter().map(|(_, end)| *end).min();
    let last_begin = spans.iter().map(|(from, _)| *from).max();
    first_end.zip(last_begin).is_some_and(|(end, begin)| end <= begin)
}

impl Holding {
    /// For the automaton that `except` leaves texts out of, and tokens among which are all that hold a text of it or come to where
    /// few are left. O(b) steps for b bytes of these, and more where a text may begin with every byte.
    pub(crate) fn new<'v>(
        except: &Except,
        remaining: &Remaining,
        tokens: impl Iterator<Item = (TokenId, &'v [u8])>,
    ) -> Self {
        let base = except.base();
        let (mut all, mut twice) = (Vec::new(), Vec::new());
        let mut by_text: HashMap<Box<[u8]>, Vec<TokenId>> = HashMap::new();
        let mut begins: HashMap<TokenId, SmallVec<[u32; 4]>> = HashMap::new();
        for (token, text) in tokens {
            let spans = spans(base, text);
            let to_few =
                if remaining.is_scarce { coming_to_few(base, remaining, text) } else { SmallVec::new() };
            let id = |from: usize| u32::try_from(from).expect("tokens are short");
            let from_here = spans.iter().map(|(from, _)| id(*from));
            let mut from_here: SmallVec<[u32; 4]> = from_here.chain(to_few.iter().copied().map(id)).collect();
            if !from_here.is_empty() {
                from_here.sort_unstable();
                from_here.dedup();
                begins.insert(token, from_here);
            }
            if !to_few.is_empty() {
                all.push(token);
                twice.push(token);
            } else if !spans.is_empty() {
                all.push(token);
                if holds_two(&spans) {
                    twice.push(token);
                }
            }
            for (from, end) in spans {
                let tokens = by_text.entry(text[from..end].into()).or_default();
                if tokens.last() != Some(&token) {
                    tokens.push(token);
                }
            }
        }
        Self { all: SparseTokens::new(all), twice: SparseTokens::new(twice), by_text, begins }
    }

    /// The tokens that hold this text of a terminal.
    pub(crate) fn of(&self, text: &[u8]) -> &[TokenId] {
        self.by_text.get(text).map_or(&[], |tokens| tokens)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 64;
        let tokens: usize = self.by_text.values().map(Vec::len).sum();
        let texts: usize = self.by_text.keys().map(|text| text.len()).sum();
        self.all.memory_usage()
            + self.twice.memory_usage()
            + (self.by_text.len() + self.begins.len()) * ENTRY
            + tokens * size_of::<TokenId>()
            + texts
    }
}

/// The only byte that texts of an automaton begin with and the only one that they end with, if there are such and all texts have
/// two bytes at least.
pub(crate) fn marks(dfa: &Dfa) -> Option<(u8, u8)> {
    let mut first = dfa.edges(dfa.start()).map(|edge| (edge.bytes, edge.target));
    let (bytes, target) = first.next()?;
    if first.next().is_some() || bytes.start() != bytes.end() || dfa.is_accepting(target) {
        return None;
    }
    let mut last: Option<u8> = None;
    for edge in dfa.states().flat_map(|state| dfa.edges(state)).filter(|edge| dfa.is_accepting(edge.target)) {
        if edge.bytes.start() != edge.bytes.end() || last.is_some_and(|last| last != *edge.bytes.start()) {
            return None;
        }
        last = Some(*edge.bytes.start());
    }
    Some((*bytes.start(), last?))
}

/// Where in `text` others begin that come to where few are left.
fn coming_to_few(dfa: &Dfa, remaining: &Remaining, text: &[u8]) -> SmallVec<[usize; 4]> {
    let comes_to_few = |from: &usize| {
        let mut at = dfa.start();
        for byte in &text[*from..] {
            let Some(next) = dfa.step(at, *byte) else { return false };
            at = next;
            if remaining.of(at) < MANY {
                return true;
            }
        }
        false
    };
    (0..text.len()).filter(comes_to_few).collect()
}

/// Whether it may make a difference in this state of a terminal what texts were used.
fn is_critical(compiled: &Compiled, terminal: u32, state: u32) -> bool {
    let terminals = &compiled.terminals;
    terminals.is_accepting(terminal, state)
        || terminals
            .remaining(terminal)
            .is_some_and(|(except, remaining)| remaining.of(except.state(state)) < MANY)
}

/// Tokens on the ways of texts that were used. Some may be among them that the mask does not have.
#[derive(Default, Debug)]
pub(crate) struct OnUsedWays {
    /// Behind the end of such a text, or where few are left.
    pub(crate) doubtful: Vec<TokenId>,
    /// Behind the end of such a text, and one reading cannot read them in any way.
    pub(crate) certain: Vec<TokenId>,
    /// The place of all other readings; [`DEAD`] if there are none.
    pub(crate) others: Place,
    /// A terminal and its state, if a text of it that was used might end in front of any token: in doubt are those with which it
    /// does not [go on](goes_on).
    pub(crate) used: Option<(u32, u32)>,
}

/// Whether a text of `terminal` goes on with all of `bytes`.
pub(crate) fn goes_on(compiled: &Compiled, (terminal, state): (u32, u32), bytes: &[u8]) -> bool {
    let terminals = &compiled.terminals;
    let step = |state, byte: &u8| Some(terminals.step(terminal, state, terminals.class(*byte)));
    bytes.iter().try_fold(state, |state, byte| step(state, byte).filter(|next| *next != NONE)).is_some()
}

/// The tokens on the ways of texts that were used, from `place`, in which texts are tracked. O(log n) for n used texts, and a look at each of these tokens.
pub(crate) fn on_used_ways(
    compiled: &Compiled,
    places: &mut Places,
    place: Place,
    vocabulary: &Vocabulary,
    trie: &TokenTrie,
) -> OnUsedWays {
    let terminals = &compiled.terminals;
    let mut found = OnUsedWays { others: DEAD, ..OnUsedWays::default() };
    for at in 0..places.readings(place).len() {
        let Reading { terminal, state: begun, todo, .. } = places.readings(place)[at];
        if terminal == BOUNDARY || !terminals.is_distinct(terminal) {
            continue;
        }
        let Some(pending) = places.pending(compiled, todo, terminal) else { continue };
        let mut sets: SmallVec<[Used; 4]> = places.parser.used_before(pending).collect();
        sets.sort_unstable();
        sets.dedup();
        let Some(texts) = places.texts_mut() else { continue };
        let state = texts.state(begun);
        if terminals.is_accepting(terminal, state) {
            let text = texts.whole(begun);
            if sets.iter().any(|used| places.parser.used.contains(*used, text)) {
                found.used = Some((terminal, state));
            }
        }
        let is_first = found.certain.is_empty();
        let Some((mut of, ways)) = places.used_ways(compiled) else { continue };
        for used in &sets {
            for Hit { at, is_last } in ways.hits(&mut of, trie, (terminal, begun), *used) {
                let rest = of.texts.bytes(begun, at);
                let tokens = trie.beginning_with(&rest);
                if !is_last {
                    // Those with which the text goes on are none that it ends in.
                    let begun = (terminal, of.texts.state(at));
                    let behind = |token: TokenId| &vocabulary.text(token).unwrap_or_default()[rest.len()..];
                    let ends = |token: &&TokenId| !goes_on(compiled, begun, behind(**token));
                    found.doubtful.extend(tokens.iter().filter(ends));
                    continue;
                }
                let mut before = of.texts.since(begun, at).map(|(at, _)| of.texts.last(at).0);
                let has_ended = before.any(|at| terminals.is_accepting(terminal, of.texts.state(at)));
                // Whatever was read before, these texts were used.
                let is_certain = is_first && sets.len() == 1 && !has_ended;
                if is_certain { &mut found.certain } else { &mut found.doubtful }.extend_from_slice(tokens);
            }
        }
        if is_first && !found.certain.is_empty() {
            found.others = places.without(place, at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use unskew_automata::Limits;

    use super::*;

    #[test]
    fn marks_are_bytes_around_all_texts() {
        for (pattern, expected) in [
            (r#""[a-z]*""#, Some((b'"', b'"'))),
            ("a(bc|dc)", Some((b'a', b'c'))),
            ("ab*", None),
            ("ab*[cd]", None),
            ("[ab]c", None),
            ("a|bc", None),
            ("ab+", Some((b'a', b'b'))),
        ] {
            let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            assert_eq!(marks(&dfa), expected, "{pattern}");
        }
    }

    #[test]
    fn two_texts_are_one_behind_the_other() {
        assert!(holds_two(&[(0, 2), (2, 4)]) && holds_two(&[(3, 4), (0, 1), (1, 9)]));
        assert!(!holds_two(&[(0, 3), (2, 4)]) && !holds_two(&[(0, 2)]) && !holds_two(&[]));
    }
}
