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
use unskew_core::{TokenId, Vocabulary};
use unskew_trie::TokenTrie;

use crate::trees::holding::{Holding, Span, SparseTokens, holds_two, spans};
use crate::{
    Except,
    ids::NONE,
    parser::places::{BOUNDARY, Compiled, DEAD, Place, Places, Reading},
};
use crate::{
    terminal::remaining::{MANY, Remaining},
    unique::{distinct::Used, used_ways::Hit},
};

/// What a compiled grammar knows of its terminals whose texts may not come twice.
#[derive(Debug)]
pub(crate) struct Distinct {
    /// Their numbers.
    terminals: Box<[u32]>,
    /// What tokens hold texts of them, once it was asked for.
    holding: OnceLock<Arc<Holding>>,
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
                    let behind =
                        |token: TokenId| &trie.vocabulary().text(token).unwrap_or_default()[rest.len()..];
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
