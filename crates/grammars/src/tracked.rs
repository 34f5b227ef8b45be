//! What a mask has too much where texts may not come twice: see [`distinct`](crate::distinct).
//!
//! A mask is made without knowing which texts were used. It has too much
//!
//! - tokens that end a text which was begun before them and was used, or that come to where only used texts are left. They lie
//!   on the way of a used text through the trie of the vocabulary;
//! - tokens in which such a text begins, and ends or comes to where few are left. Which tokens hold a text at all is known for
//!   each terminal; which of these a mask has, and come to one there, is found when the mask is made.
//!
//! Each of these is read where texts are tracked, and removed if it leads nowhere there. No others need to be: up to the first
//! place where a text ends or few are left, both parsers say the same.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use unskew_core::{TokenId, TokenTrie, Vocabulary};

use crate::{
    Except,
    distinct::{MANY, Remaining},
    places::{BOUNDARY, Compiled, DEAD, Place, Places, Reading},
    rules::NONE,
};

/// What a compiled grammar knows of its terminals whose texts may not come twice.
#[derive(Debug)]
pub(crate) struct Distinct {
    /// Their numbers.
    terminals: Box<[u32]>,
    /// Whether one byte may be a whole text, or leave few.
    has_short: bool,
    /// The tokens in which some text of them may begin and end or become one of few, once it was asked for.
    holding: OnceLock<Arc<SparseTokens>>,
}

/// Some tokens, as the words of a mask in which they are.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct SparseTokens {
    /// The words that are not zero, with their places.
    words: Box<[(u32, u32)]>,
    /// All words, up to the last of these.
    bits: Box<[u32]>,
}

/// A token in which a text that may not come twice begins and ends, or becomes one of few.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    token: TokenId,
    /// If one text ends in it, once: from where to where such a text may be. None are given where it is not as simple.
    spans: SmallVec<[(u32, u32); 2]>,
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
        let bits = |(word, bits): &(u32, u32)| {
            let (word, bits) = (*word, *bits);
            (0..32u32).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| TokenId(word * 32 + bit))
        };
        self.words.iter().flat_map(bits)
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
        let width = u8::try_from(compiled.terminals.width() - 1).expect("256 classes");
        let has_short = terminals.iter().any(|terminal| {
            (0..=width).any(|class| match compiled.terminals.first(*terminal, class) {
                NONE => false,
                state => is_critical(compiled, *terminal, state),
            })
        });
        (!terminals.is_empty()).then(|| Self { terminals, has_short, holding: OnceLock::new() })
    }

    /// The tokens in which some text of the terminals begins, and ends or becomes one of few; more of them where some texts are
    /// left out. `of` knows those of an automaton.
    pub(crate) fn holding(
        &self,
        compiled: &Compiled,
        of: impl Fn(&Except, &Remaining) -> Arc<SparseTokens>,
    ) -> &SparseTokens {
        self.holding.get_or_init(|| {
            let mut lists: Vec<Arc<SparseTokens>> = Vec::new();
            for (except, remaining) in
                self.terminals.iter().filter_map(|terminal| compiled.terminals.remaining(*terminal))
            {
                let list = of(except, remaining);
                if !lists.iter().any(|other| Arc::ptr_eq(other, &list)) {
                    lists.push(list);
                }
            }
            if let [list] = &lists[..] {
                return Arc::clone(list);
            }
            Arc::new(SparseTokens::new(lists.iter().flat_map(|list| list.ids()).collect()))
        })
    }

    /// Of `tokens`, those that lead on from `place` in a mask and in which a text may have begun and ended: `places` track
    /// nothing.
    pub(crate) fn doubtful(
        &self,
        compiled: &Compiled,
        places: &mut Places,
        place: Place,
        vocabulary: &Vocabulary,
        tokens: &[TokenId],
    ) -> Vec<Doubt> {
        let terminals = &compiled.terminals;
        let is_distinct = |terminal: u32| terminal != BOUNDARY && terminals.is_distinct(terminal);
        // What ends first may have begun before the token.
        let begun_before = places.readings(place).iter().all(|Reading { terminal, state, .. }| {
            is_distinct(*terminal) && !terminals.is_accepting(*terminal, *state)
        });
        // Then the texts that were used before the token are not all that there may be.
        let is_begun = places.readings(place).iter().any(|reading| is_distinct(reading.terminal));
        let mut found: Vec<Doubt> = Vec::new();
        for token in tokens {
            let (mut ends, mut last) = (0, 0);
            let mut at = place;
            let text = vocabulary.text(*token).unwrap_or_default();
            for (behind, byte) in (1usize..).zip(text) {
                let class = terminals.class(*byte);
                let is_end =
                    |terminal: u32, state: u32| state != NONE && is_critical(compiled, terminal, state);
                let mut here = places.readings(at).iter().any(|Reading { terminal, state, .. }| {
                    is_distinct(*terminal) && is_end(*terminal, terminals.step(*terminal, *state, class))
                });
                here |= self.has_short
                    && places.beginning(compiled, at).into_iter().any(|terminal| {
                        terminals.is_distinct(terminal) && is_end(terminal, terminals.first(terminal, class))
                    });
                if here {
                    (ends, last) = (ends + 1, behind);
                }
                at = places.step(compiled, at, *byte);
                if at == DEAD {
                    break;
                }
            }
            if at != DEAD && ends > u32::from(begun_before) {
                let spans =
                    if ends == 1 && !is_begun { self.spans(compiled, text, last) } else { SmallVec::new() };
                found.push(Doubt { token: *token, spans });
            }
        }
        found
    }
}

impl Distinct {
    /// Where a text may have begun that ends in `text` behind so many bytes. None if it may be another one of few.
    fn spans(&self, compiled: &Compiled, text: &[u8], end: usize) -> SmallVec<[(u32, u32); 2]> {
        let mut spans = SmallVec::new();
        let number = |at: usize| u32::try_from(at).expect("tokens are short");
        for (except, remaining) in
            self.terminals.iter().filter_map(|terminal| compiled.terminals.remaining(*terminal))
        {
            if remaining.is_scarce {
                return SmallVec::new();
            }
            let from = (0..end).filter(|from| except.base().accepts(&text[*from..end]));
            spans.extend(from.map(|from| (number(from), number(end))));
        }
        spans
    }
}

impl Doubt {
    /// The token, if it has to be read: unless none of the texts that it may hold is one of those that `is_used` knows.
    pub(crate) fn token(&self, vocabulary: &Vocabulary, is_used: impl Fn(&[u8]) -> bool) -> Option<TokenId> {
        let text = vocabulary.text(self.token).unwrap_or_default();
        let is_known = |(from, end): &(u32, u32)| is_used(&text[*from as usize..*end as usize]);
        (self.spans.is_empty() || self.spans.iter().any(is_known)).then_some(self.token)
    }
}

/// The tokens in which some text of an automaton begins and ends, or comes to where few are left. O(bytes of the vocabulary)
/// steps, and more where a text may begin with every byte.
pub(crate) fn holding(except: &Except, remaining: &Remaining, vocabulary: &Vocabulary) -> SparseTokens {
    let base = except.base();
    let holds = |text: &[u8]| {
        (0..text.len()).any(|from| {
            let mut at = base.start();
            for byte in &text[from..] {
                let Some(next) = base.step(at, *byte) else { return false };
                at = next;
                if base.is_accepting(at) || remaining.of(at) < MANY {
                    return true;
                }
            }
            false
        })
    };
    let tokens = vocabulary.text_tokens().filter(|(_, text)| holds(text));
    SparseTokens::new(tokens.map(|(token, _)| token).collect())
}

/// Whether it may make a difference in this state of a terminal what texts were used.
fn is_critical(compiled: &Compiled, terminal: u32, state: u32) -> bool {
    let terminals = &compiled.terminals;
    terminals.is_accepting(terminal, state)
        || terminals
            .remaining(terminal)
            .is_some_and(|(except, remaining)| remaining.of(except.state(state)) < MANY)
}

/// The tokens on the ways of texts that were used, from `place`, in which texts are tracked: behind a text's end, and where few
/// are left. Some may be among them that the mask does not have. `None` if a text that was used might end in front of any token.
pub(crate) fn on_used_ways(
    compiled: &Compiled,
    places: &mut Places,
    place: Place,
    trie: &TokenTrie,
) -> Option<Vec<TokenId>> {
    let mut found: Vec<TokenId> = Vec::new();
    for at in 0..places.readings(place).len() {
        let reading = places.readings(place)[at];
        if reading.terminal == BOUNDARY || !compiled.terminals.is_distinct(reading.terminal) {
            continue;
        }
        let Some(pending) = places.pending(compiled, reading.todo, reading.terminal) else { continue };
        let Some((except, remaining)) = compiled.terminals.remaining(reading.terminal) else { continue };
        let Some(texts) = places.texts() else { continue };
        let (prefix, state) = (texts.bytes(reading.state), texts.state(reading.state));
        let used = places.parser.used_before(pending).flat_map(|used| places.parser.used.texts(used));
        // What is left of them. That of texts which are left out counts too where few are left.
        let used = used.map(|text| texts.of(text));
        let left_out = except.texts().filter(|_| remaining.is_scarce);
        let mut rests: Vec<&[u8]> =
            used.chain(left_out).filter_map(|text| text.strip_prefix(&prefix[..])).collect();
        rests.sort_unstable();
        rests.dedup();
        match rests.first() {
            Some([]) => return None,
            Some(_) => {}
            None => continue,
        }
        /// On the way: the texts from here to there that agree in so many bytes, and the state; or behind the end of one.
        #[derive(Clone, Copy)]
        enum Way {
            On(usize, usize, usize, u32),
            Behind,
        }
        let step = |way: Way, byte: u8| {
            let Way::On(first, end, depth, state) = way else { return Some(Way::Behind) };
            let among = &rests[first..end];
            let from = first + among.partition_point(|rest| rest.get(depth).copied() < Some(byte));
            let to = first + among.partition_point(|rest| rest.get(depth).copied() <= Some(byte));
            if from == to {
                return None;
            }
            let state = except.step(state, byte);
            match state == NONE || rests[from].len() == depth + 1 {
                // Others may go on from the end of this one; what is behind it is looked at in any case.
                true => Some(Way::Behind),
                false => Some(Way::On(from, to, depth + 1, state)),
            }
        };
        let visit = |token: TokenId, way: Way| match way {
            Way::Behind => found.push(token),
            Way::On(.., state) => {
                if remaining.of(except.state(state)) < MANY {
                    found.push(token);
                }
            }
        };
        trie.walk(Way::On(0, rests.len(), 0, state), step, visit);
    }
    Some(found)
}
