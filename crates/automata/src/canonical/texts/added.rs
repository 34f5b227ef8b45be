//! The texts in which an encoder finds exactly the added tokens that were written as tokens.
//!
//! The library searches for added tokens before all other steps, and for `normalized` ones after the normaliser. Of
//! several matches it takes the leftmost, and of these the longest. Then it continues after the match. So a sequence
//! is canonical if this search finds in its text exactly the added tokens of the sequence. That is a regular
//! property. The automaton reads bytes of text and added tokens. Its state consists of the partially read tokens
//! that would be found if they were completed:
//!
//! - A byte of text may start any token. If it completes a token, that token would be found, so the text is refused.
//! - An added token completes itself. Longer tokens may begin with it and continue after it. These would be found
//!   instead. Tokens that begin inside it are never found, since the search continues after it. Tokens that began
//!   before it would be found if they were completed.
//!
//! The search for tokens that are not normalized runs over the whole text, in which normalized tokens are text. The
//! search for normalized tokens runs over the parts between tokens that are not normalized.
//!
//! Tried instead: an Aho-Corasick automaton that restarts after each added token. It is equivalent if no two tokens
//! overlap, and tokenizers with runs of blanks as added tokens had to be refused.

use std::{collections::HashMap, marker::PhantomData, sync::LazyLock};

use smallvec::SmallVec;

use crate::{
    canonical::CanonicalError,
    dfa::ByteClasses,
    dfa::table::DEAD,
    ids::{FormState, Id, TextState},
};

/// The most states that the automaton may have.
const STATE_LIMIT: usize = 1 << 18;

/// The most work of the construction: partially read tokens over all states, and steps of the search for continuing
/// tokens.
const WORK_LIMIT: usize = 1 << 26;

/// The most entries of [`TextDfa::otherwise`].
const OTHERWISE_LIMIT: usize = 1 << 22;

/// An automaton over bytes and added tokens in which every state accepts. A text is refused by a missing transition.
/// `S` is the type of its states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextDfa<S> {
    pub(crate) classes: ByteClasses,
    /// States times classes. An entry is a state or [`DEAD`].
    next: Vec<u32>,
    /// By number of an added token that is text: the state after it from the start, where no other token is
    /// partially read.
    after: Vec<u32>,
    /// The state after an added token if it differs from `after`: state, number and target, in ascending order.
    otherwise: Vec<[u32; 3]>,
    states: PhantomData<fn(S) -> S>,
}

/// A string that the encoder searches for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Matched {
    pub(crate) content: Vec<u8>,
    /// Whether the search is after the normaliser.
    pub(crate) normalized: bool,
    /// The number of its token among the added tokens that are text.
    pub(crate) text: Option<usize>,
}

impl<S: Id> TextDfa<S> {
    /// Accepts every text without added tokens.
    pub(crate) fn any() -> Self {
        Self::from_table(ByteClasses::from_begins(&[false; 256]), vec![0])
    }

    /// The automaton with these transitions, states times classes, and without added tokens. The start is state 0.
    pub(crate) fn from_table(classes: ByteClasses, next: Vec<u32>) -> Self {
        Self { classes, next, after: vec![], otherwise: vec![], states: PhantomData }
    }

    /// The state before any text.
    #[inline]
    pub(crate) fn start(&self) -> S {
        S::of(0)
    }

    /// The number of states.
    pub(crate) fn len(&self) -> usize {
        self.next.len() / self.classes.len()
    }

    /// All states, in ascending order.
    pub(crate) fn states(&self) -> impl Iterator<Item = S> + use<S> {
        (0..self.len()).map(S::from_index)
    }

    /// Whether every text is accepted, and no added token is read.
    pub(crate) fn is_any(&self) -> bool {
        self.next.len() == 1
    }

    /// By class: the state after a byte of it.
    #[inline]
    pub(crate) fn row(&self, state: S) -> impl ExactSizeIterator<Item = Option<S>> {
        let begin = state.index() * self.classes.len();
        self.next[begin..begin + self.classes.len()].iter().map(|next| S::of_entry(*next))
    }

    #[inline]
    pub(crate) fn step(&self, state: S, byte: u8) -> Option<S> {
        S::of_entry(self.next[state.index() * self.classes.len() + usize::from(self.classes.get(byte))])
    }

    /// The state after the added token with this number.
    pub(crate) fn step_added(&self, state: S, number: usize) -> Option<S> {
        let key = [state.raw(), u32::try_from(number).unwrap_or(u32::MAX)];
        S::of_entry(match self.otherwise.binary_search_by(|known| known[..2].cmp(&key)) {
            Ok(at) => self.otherwise[at][2],
            Err(_) => self.after[number],
        })
    }

    /// By number: whether the added token is read in every state, and leads to a state that satisfies `is_fine`.
    pub(crate) fn always_read(&self, is_fine: impl Fn(S) -> bool) -> Vec<bool> {
        let is_read = |entry: u32| S::of_entry(entry).is_some_and(&is_fine);
        let mut always: Vec<bool> = self.after.iter().map(|entry| is_read(*entry)).collect();
        for [_, number, entry] in &self.otherwise {
            always[*number as usize] &= is_read(*entry);
        }
        always
    }

    /// In bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.next[..]) + size_of_val(&self.after[..]) + size_of_val(&self.otherwise[..])
    }
}

impl TextDfa<FormState> {
    /// [`any`](Self::any), built once.
    pub(crate) fn all() -> &'static Self {
        static ALL: LazyLock<TextDfa<FormState>> = LazyLock::new(TextDfa::any);
        &ALL
    }
}

impl TextDfa<TextState> {
    /// The automaton of the sequences in which a search for `matched` finds exactly their added tokens. `texts` are
    /// the contents of the tokens that are text, by number.
    pub(crate) fn new(matched: &[Matched], texts: &[&[u8]]) -> Result<Self, CanonicalError> {
        Self::counted(matched, texts, &mut 0)
    }

    /// As [`new`](Self::new). Adds the work of the construction to `steps`.
    fn counted(matched: &[Matched], texts: &[&[u8]], steps: &mut usize) -> Result<Self, CanonicalError> {
        if matched.is_empty() {
            return Ok(Self::any());
        }
        let too_many = || CanonicalError::TooManyTextStates { limit: STATE_LIMIT };
        let search = |normalized: bool| {
            let contents = matched.iter().filter(|one| one.normalized == normalized);
            Trie::new(contents.map(|one| (&one.content[..], one.text))).ok_or_else(too_many)
        };
        let searches = [search(false)?, search(true)?];
        // Consecutive bytes share a class if no content contains one of them.
        let mut begins = [false; 256];
        for byte in matched.iter().flat_map(|one| &one.content) {
            begins[usize::from(*byte)] = true;
            begins[usize::from(byte.saturating_add(1))] = true;
        }
        let classes = ByteClasses::from_begins(&begins);
        let mut is_normalized = vec![false; texts.len()];
        for one in matched {
            one.text.into_iter().for_each(|number| is_normalized[number] = one.normalized);
        }
        let mut builder = Builder { searches, ids: HashMap::new(), states: Vec::new(), work: 0 };
        let start = builder.id(Search::default()).ok_or_else(too_many)?;
        let mut next = Vec::new();
        let (mut after, mut otherwise) = (vec![DEAD; texts.len()], Vec::new());
        let mut at = 0;
        while let Some(state) = builder.states.get(at).cloned() {
            let row = next.len();
            next.resize(row + classes.len(), start);
            for byte in builder.bytes(&state) {
                next[row + usize::from(classes.get(byte))] = match builder.read(&state, byte) {
                    Some(target) => builder.id(target).ok_or_else(too_many)?,
                    None => DEAD,
                };
            }
            let write = |builder: &mut Builder, number: usize| match builder.write(
                &state,
                texts[number],
                is_normalized[number],
            ) {
                Some(target) => builder.id(target).ok_or_else(too_many),
                None => Ok(DEAD),
            };
            if at == 0 {
                for (number, target) in after.iter_mut().enumerate() {
                    *target = write(&mut builder, number)?;
                }
            } else {
                // A token through which no partially read token continues leads to the same state as from the start.
                let mut numbers = builder.continued_through(&state).ok_or_else(too_many)?;
                numbers.sort_unstable();
                for number in numbers {
                    let target = write(&mut builder, number)?;
                    if target != after[number] {
                        let [at, number] = [at, number].map(|number| u32::try_from(number).expect("limited"));
                        otherwise.push([at, number, target]);
                    }
                }
                if otherwise.len() > OTHERWISE_LIMIT {
                    return Err(too_many());
                }
            }
            at += 1;
        }
        *steps += builder.work;
        Ok(Self { after, otherwise, ..Self::from_table(classes, next) })
    }
}

/// The partially read tokens of both searches: nodes of their tries, in ascending order.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Search {
    partial: [Vec<u32>; 2],
}

struct Builder {
    /// The tokens that are not normalized, and the normalized ones.
    searches: [Trie; 2],
    ids: HashMap<Search, u32>,
    states: Vec<Search>,
    work: usize,
}

impl Builder {
    /// The number of a state. `None` if the limits are exceeded.
    fn id(&mut self, state: Search) -> Option<u32> {
        if let Some(id) = self.ids.get(&state) {
            return Some(*id);
        }
        self.work += state.partial.iter().map(Vec::len).sum::<usize>();
        let id = u32::try_from(self.states.len()).ok()?;
        if self.states.len() >= STATE_LIMIT || self.work > WORK_LIMIT {
            return None;
        }
        self.states.push(state.clone());
        self.ids.insert(state, id);
        Some(id)
    }

    /// The bytes that do not lead to the start, since a token begins or continues with them. In ascending order.
    fn bytes(&self, state: &Search) -> Vec<u8> {
        let of = |(trie, partial): (&Trie, &Vec<u32>)| {
            let nodes = partial.iter().copied().chain([0]);
            let bytes = nodes.flat_map(|node| trie.children[node as usize].iter().map(|(byte, _)| *byte));
            bytes.collect::<SmallVec<[u8; 16]>>()
        };
        let mut bytes: Vec<u8> = self.searches.iter().zip(&state.partial).flat_map(of).collect();
        bytes.sort_unstable();
        bytes.dedup();
        bytes
    }

    /// The state after a byte of text. `None` if the byte completes a token.
    fn read(&self, state: &Search, byte: u8) -> Option<Search> {
        let [raw, normalized] = [0, 1].map(|search| self.searches[search].read(&state.partial[search], byte));
        Some(Search { partial: [raw?, normalized?] })
    }

    /// The state after an added token. `None` if another token is found.
    fn write(&self, state: &Search, content: &[u8], is_normalized: bool) -> Option<Search> {
        let [raw, normalized] = &self.searches;
        if !is_normalized {
            // The other search restarts after it.
            return Some(Search { partial: [raw.write(&state.partial[0], content)?, vec![]] });
        }
        let first =
            content.iter().try_fold(state.partial[0].clone(), |partial, byte| raw.read(&partial, *byte))?;
        Some(Search { partial: [first, normalized.write(&state.partial[1], content)?] })
    }

    /// The numbers of the added tokens through which some partially read token continues, or in which it is
    /// completed. `None` if the work limit is exceeded.
    fn continued_through(&mut self, state: &Search) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        // A node of the trie of added tokens, and the partially read tokens that continue to it; `None` after one of
        // these is completed.
        for written in [0, 1] {
            // A token that is not normalized ends the search for normalized ones.
            let searches = &self.searches;
            let of = |search: usize| match search <= written {
                true => state.partial[search].clone(),
                false => Vec::new(),
            };
            let mut open: Vec<(u32, Option<[Vec<u32>; 2]>)> = vec![(0, Some([of(0), of(1)]))];
            while let Some((node, partial)) = open.pop() {
                self.work += 1;
                if self.work > WORK_LIMIT {
                    return None;
                }
                found.extend(&searches[written].numbers[node as usize]);
                for (byte, child) in &searches[written].children[node as usize] {
                    let next = partial.as_ref().and_then(|[raw, normalized]| {
                        Some([
                            searches[0].continue_with(raw, *byte)?,
                            searches[1].continue_with(normalized, *byte)?,
                        ])
                    });
                    if next.as_ref().is_none_or(|partial| partial.iter().any(|nodes| !nodes.is_empty())) {
                        open.push((*child, next));
                    }
                }
            }
        }
        Some(found)
    }
}

/// The trie of the tokens of a search.
struct Trie {
    /// By node: bytes and nodes, in ascending order. Node 0 is the root.
    children: Vec<Vec<(u8, u32)>>,
    is_token: Vec<bool>,
    /// By node: the numbers of the tokens that end here and are text.
    numbers: Vec<SmallVec<[usize; 1]>>,
}

impl Trie {
    /// `None` if the trie has more inner nodes than an automaton may have states.
    fn new<'a>(contents: impl Iterator<Item = (&'a [u8], Option<usize>)>) -> Option<Self> {
        let mut trie = Self { children: vec![vec![]], is_token: vec![false], numbers: vec![SmallVec::new()] };
        let mut inner = 1;
        for (content, number) in contents {
            let mut at = 0;
            for byte in content {
                let place = trie.children[at].binary_search_by_key(byte, |(byte, _)| *byte);
                at = match place {
                    Ok(place) => trie.children[at][place].1 as usize,
                    Err(place) => {
                        let node = trie.children.len();
                        inner += usize::from(trie.children[at].is_empty());
                        if inner > STATE_LIMIT {
                            return None;
                        }
                        trie.children[at].insert(place, (*byte, u32::try_from(node).expect("limited")));
                        trie.children.push(vec![]);
                        trie.is_token.push(false);
                        trie.numbers.push(SmallVec::new());
                        node
                    }
                };
            }
            trie.is_token[at] = true;
            trie.numbers[at].extend(number);
        }
        Some(trie)
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let children = &self.children[node as usize];
        let at = children.binary_search_by_key(&byte, |(byte, _)| *byte).ok()?;
        Some(children[at].1)
    }

    /// The nodes after `byte`. `None` if that completes a token.
    fn continue_with(&self, partial: &[u32], byte: u8) -> Option<Vec<u32>> {
        let next: Vec<u32> = partial.iter().filter_map(|node| self.child(*node, byte)).collect();
        next.iter().all(|node| !self.is_token[*node as usize]).then_some(next)
    }

    /// As [`continue_with`](Self::continue_with), where any token may begin with `byte` too.
    fn read(&self, partial: &[u32], byte: u8) -> Option<Vec<u32>> {
        let mut next = self.continue_with(partial, byte)?;
        if let Some(node) = self.child(0, byte) {
            if self.is_token[node as usize] {
                return None;
            }
            next.push(node);
        }
        next.sort_unstable();
        next.dedup();
        Some(next)
    }

    /// The nodes after an added token with this content. Longer tokens may begin with it.
    fn write(&self, partial: &[u32], content: &[u8]) -> Option<Vec<u32>> {
        let mut own = 0;
        let mut others = partial.to_vec();
        for byte in content {
            others = self.continue_with(&others, *byte)?;
            own = self.child(own, *byte)?;
        }
        others.push(own);
        others.sort_unstable();
        others.dedup();
        // Nodes without children cannot continue.
        others.retain(|node| !self.children[*node as usize].is_empty());
        Some(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The automaton of `count` tokens, and the work of its construction.
    fn many(count: usize) -> (TextDfa<TextState>, usize) {
        let contents: Vec<Vec<u8>> =
            (0..count).map(|number| format!("<|x_{number}|>").into_bytes()).collect();
        let matched = |(number, content): (usize, &Vec<u8>)| Matched {
            content: content.clone(),
            normalized: number % 2 == 0,
            text: Some(number),
        };
        let matched: Vec<Matched> = contents.iter().enumerate().map(matched).collect();
        let texts: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
        let mut steps = 0;
        let automaton = TextDfa::counted(&matched, &texts, &mut steps).unwrap();
        (automaton, steps)
    }

    #[test]
    fn many_tokens_take_steps_in_proportion() {
        let ((few, few_steps), (more, more_steps)) = (many(5_000), many(100_000));
        assert!(more_steps < 30 * few_steps && more_steps < 3_000_000, "{few_steps} {more_steps}");
        assert!(more.next.len() < 30 * few.next.len());
        assert_eq!((more.after.len(), more.otherwise.len()), (100_000, 0));
        let run = |text: &str| text.bytes().try_fold(more.start(), |state, byte| more.step(state, byte));
        assert!(run("<|x_99999|").is_some() && run("<|x_100000|>").is_some());
        assert!(run("<<|x_9|>").is_none() && run("<|x_99999|>").is_none());
    }

    /// Every token begins inside every other one. The table would contain all pairs, so it is refused.
    #[test]
    fn tokens_that_all_overlap_are_refused() {
        let letters = b'0'..=b'Z';
        let pairs = letters.clone().flat_map(|one| letters.clone().map(move |two| [one, two]));
        let contents: Vec<[u8; 3]> =
            pairs.flat_map(|[one, two]| letters.clone().map(move |three| [one, two, three])).collect();
        let matched = contents.iter().enumerate().map(|(number, content)| Matched {
            content: content.to_vec(),
            normalized: false,
            text: Some(number),
        });
        let matched: Vec<Matched> = matched.collect();
        let texts: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
        let error = TextDfa::new(&matched, &texts).unwrap_err();
        assert!(matches!(error, CanonicalError::TooManyTextStates { .. }), "{error}");
    }
}
