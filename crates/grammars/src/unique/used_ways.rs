//! What texts that were used do to the beginnings of others, set by set: where a text goes on to used ones alone, and where tokens meet
//! them.
//!
//! A scope takes thousands of texts, and each mask and each byte would have to look at all of them. So what a text changes is worked out
//! once for each set, from the set that is one text smaller, and every set keeps a [version](crate::unique::versions) of it:
//!
//! - *Exhausted beginnings*, where few texts are left: one that may not end unused and behind whose every byte another one is exhausted.
//!   A text changes no more of them than it has bytes.
//! - *Hits*: from a beginning, the used texts and exhausted beginnings that some token comes to. They lie where the last bytes of a text
//!   are the first ones of a token, which is in few places. So a mask looks at nothing but what takes tokens out of it.
//!
//! Tried instead: the texts of a set, sorted, side by side with the trie of the vocabulary. That is all of them at each mask; kept as a
//! trie, with every version, it is still all that have a token on their way, though most of these are far from their ends.

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_trie::TokenTrie;

use super::{
    distinct::{Begun, Text, Texts, Used, UsedTexts},
    versions::{EMPTY, Map, Versions},
};
use crate::{ids::NONE, network::terminals::Terminals, terminal::remaining::MANY};

/// What is known of all sets.
#[derive(Default, Debug)]
pub(crate) struct UsedWays {
    versions: Versions,
    exhausted: HashMap<(u32, Used), Exhausted>,
    hits: HashMap<(u32, Used), Map>,
    /// Of each list: its last hit, and the list of the others or [`NONE`].
    lists: Vec<(Hit, u32)>,
    /// How many texts and hits were looked at.
    pub(crate) looks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Exhausted {
    /// By beginning: how many of its ways are, or [`ALL`].
    ways: Map,
    /// The shortest beginning of the last text that was exhausted with it; or [`NONE`].
    shortest: Begun,
}

/// No way is left.
const ALL: u32 = u32::MAX;

/// A text that was used, or an exhausted beginning, on the way of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) at: Begun,
    /// Whether no text that was not used goes on behind it.
    pub(crate) is_last: bool,
}

/// What the sets are made of.
pub(crate) struct Of<'a> {
    pub(crate) terminals: &'a Terminals,
    pub(crate) texts: &'a mut Texts,
    pub(crate) sets: &'a UsedTexts,
}

impl UsedWays {
    /// Whether a text of `terminal` that begins with `begun` was used or left out in any case. O(log n) for n texts of `used`, once they
    /// were met.
    pub(crate) fn is_exhausted(&mut self, of: &mut Of<'_>, terminal: u32, used: Used, begun: Begun) -> bool {
        let Exhausted { ways, .. } = self.exhausted(of, terminal, used);
        self.looks += 1;
        self.versions.get(ways, begun) == Some(ALL)
    }

    /// The hits of tokens behind `begun`, where the texts of `used` were.
    pub(crate) fn hits(
        &mut self,
        of: &mut Of<'_>,
        trie: &TokenTrie,
        (terminal, begun): (u32, Begun),
        used: Used,
    ) -> SmallVec<[Hit; 8]> {
        let (mut map, open) = since(of.sets, &self.hits, terminal, used, EMPTY);
        for (set, text) in open {
            map = self.add_hits(of, trie, map, (terminal, set), text);
            self.hits.insert((terminal, set), map);
        }
        let mut hits = SmallVec::new();
        let mut list = self.versions.get(map, begun);
        while let Some((hit, others)) = list.and_then(|list| self.lists.get(list as usize)) {
            hits.push(*hit);
            list = Some(*others);
        }
        self.looks += 1 + hits.len() as u64;
        hits
    }

    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 32;
        self.versions.memory_usage()
            + (self.exhausted.len() + self.hits.len()) * ENTRY
            + self.lists.len() * 2 * size_of::<(Hit, u32)>()
    }

    fn exhausted(&mut self, of: &mut Of<'_>, terminal: u32, used: Used) -> Exhausted {
        let none = Exhausted { ways: EMPTY, shortest: NONE };
        let (mut exhausted, open) = since(of.sets, &self.exhausted, terminal, used, none);
        for (set, text) in open {
            exhausted = self.with_text(of, exhausted.ways, terminal, text);
            self.exhausted.insert((terminal, set), exhausted);
        }
        exhausted
    }

    fn with_text(&mut self, of: &mut Of<'_>, mut ways: Map, terminal: u32, text: Text) -> Exhausted {
        self.looks += 1;
        let mut shortest = NONE;
        let Some((except, remaining)) = of.terminals.remaining(terminal) else {
            return Exhausted { ways, shortest };
        };
        let mut at = begun(of, terminal, text);
        while at != NONE {
            let state = of.texts.state(at);
            if remaining.of(except.state(state)) == MANY {
                break;
            }
            let next = of.terminals.next_bytes(terminal, state).iter();
            let all = next.filter(|byte| except.step(state, *byte) != NONE).count()
                + usize::from(except.is_accepting(state));
            let gone = self.versions.get(ways, at).map_or(1, |gone| gone.saturating_add(1));
            let is_last = gone as usize >= all;
            ways = self.versions.with(ways, at, if is_last { ALL } else { gone });
            if !is_last {
                break;
            }
            shortest = at;
            at = of.texts.last(at).0;
        }
        Exhausted { ways, shortest }
    }

    /// `map` with the hits that `text` makes, the last one of `set`.
    fn add_hits(
        &mut self,
        of: &mut Of<'_>,
        trie: &TokenTrie,
        mut map: Map,
        (terminal, set): (u32, Used),
        text: Text,
    ) -> Map {
        self.looks += 1;
        let end = begun(of, terminal, text);
        if end == NONE {
            return map;
        }
        let is_scarce = of.terminals.remaining(terminal).is_some_and(|(_, remaining)| remaining.is_scarce);
        let shortest = if is_scarce { self.exhausted(of, terminal, set).shortest } else { NONE };
        if shortest == NONE || shortest == end {
            let is_last = shortest == end || of.terminals.is_final(terminal, of.texts.state(end));
            return self.add_hit(of.texts, trie, map, Hit { at: end, is_last }, NONE);
        }
        // In front of it the shortest is met first. Behind it no text begins but where another set was used as well.
        map = self.add_hit(of.texts, trie, map, Hit { at: end, is_last: true }, shortest);
        self.add_hit(of.texts, trie, map, Hit { at: shortest, is_last: true }, NONE)
    }

    /// `map` with `hit` at all beginnings of it that some token goes on from to it, but for those shorter than `first`.
    fn add_hit(&mut self, texts: &Texts, trie: &TokenTrie, mut map: Map, hit: Hit, first: Begun) -> Map {
        let (mut rest, mut from): (Vec<u8>, Vec<Begun>) = (Vec::new(), Vec::new());
        let end = if first == NONE { NONE } else { texts.last(first).0 };
        for (at, byte) in texts.since(end, hit.at).take(trie.longest()) {
            rest.push(byte);
            from.push(texts.last(at).0);
        }
        rest.reverse();
        for (begun, len) in from.into_iter().zip(1..) {
            if begun != end && !trie.beginning_with(&rest[rest.len() - len..]).is_empty() {
                let list = u32::try_from(self.lists.len()).expect("bounded memory");
                self.lists.push((hit, self.versions.get(map, begun).unwrap_or(NONE)));
                map = self.versions.with(map, begun, list);
            }
        }
        map
    }
}

/// The beginning that a whole text is, if it is one of `terminal`; else [`NONE`].
fn begun(of: &mut Of<'_>, terminal: u32, text: Text) -> Begun {
    let bytes = of.texts.of(text).clone();
    let begun = of.texts.begun(of.terminals, terminal, NONE, &bytes);
    let is_text = begun != NONE && of.terminals.is_accepting(terminal, of.texts.state(begun));
    if is_text { begun } else { NONE }
}

/// What is known of the largest set inside `used` of which anything is; and the sets from there to `used`, each with its last text.
fn since<T: Copy>(
    sets: &UsedTexts,
    known: &HashMap<(u32, Used), T>,
    terminal: u32,
    used: Used,
    nothing: T,
) -> (T, impl Iterator<Item = (Used, Text)> + use<T>) {
    let mut open: SmallVec<[(Used, Text); 4]> = SmallVec::new();
    let mut at = used;
    let found = loop {
        if let Some(found) = known.get(&(terminal, at)) {
            break *found;
        }
        let Some((others, text)) = sets.last(at) else { break nothing };
        open.push((at, text));
        at = others;
    };
    (found, open.into_iter().rev())
}
