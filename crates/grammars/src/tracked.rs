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
    holding: OnceLock<Arc<[TokenId]>>,
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
        of: impl Fn(&Except, &Remaining) -> Arc<[TokenId]>,
    ) -> &[TokenId] {
        self.holding.get_or_init(|| {
            let mut lists: Vec<Arc<[TokenId]>> = Vec::new();
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
            let mut tokens: Vec<TokenId> = lists.iter().flat_map(|list| list.iter().copied()).collect();
            tokens.sort_unstable();
            tokens.dedup();
            tokens.into()
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
        tokens: impl Iterator<Item = TokenId>,
    ) -> Vec<TokenId> {
        let terminals = &compiled.terminals;
        let is_distinct = |terminal: u32| terminal != BOUNDARY && terminals.is_distinct(terminal);
        // What ends first may have begun before the token.
        let begun_before = places.readings(place).iter().all(|Reading { terminal, state, .. }| {
            is_distinct(*terminal) && !terminals.is_accepting(*terminal, *state)
        });
        let mut found: Vec<TokenId> = Vec::new();
        for token in tokens {
            let mut ends = 0;
            let mut at = place;
            for byte in vocabulary.text(token).unwrap_or_default() {
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
                ends += u32::from(here);
                at = places.step(compiled, at, *byte);
                if at == DEAD {
                    break;
                }
            }
            if at != DEAD && ends > u32::from(begun_before) {
                found.push(token);
            }
        }
        found
    }
}

/// The tokens in which some text of an automaton begins and ends, or comes to where few are left. O(bytes of the vocabulary)
/// steps, and more where a text may begin with every byte.
pub(crate) fn holding(except: &Except, remaining: &Remaining, vocabulary: &Vocabulary) -> Vec<TokenId> {
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
    tokens.map(|(token, _)| token).collect()
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
/// are left. Some may be among them that do not lead on at all. `None` if a text that was used might end in front of any token.
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
