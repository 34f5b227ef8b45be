//! The effects of used keys on the prefixes of others, set by set: which prefixes only used keys complete, and where
//! tokens reach used keys.
//!
//! A scope takes thousands of keys, and each mask and each byte would have to look at all of them. So the effects of
//! a key are computed once for each set, from those of the set that is one key smaller, and every set keeps a
//! [version](crate::unique::persistent_map) of them:
//!
//! - *Exhausted prefixes*, where few keys are left: a prefix is exhausted if it is no unused key itself and all its
//!   continuations by one byte are exhausted. A key changes at most as many of them as it has bytes.
//! - *Hits* of a prefix: the used keys and exhausted prefixes that some token reaches from there. They exist where
//!   the last bytes of a key are the first bytes of a token, which is in few places. So a mask looks only at the
//!   prefixes that remove tokens from it.
//!
//! Tried instead: the keys of a set, sorted, side by side with the trie of the vocabulary. Each mask then looks at
//! all keys. A trie with versions still holds all keys that have a token on their way, and most of these are far from
//! their ends.

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_grammar::kit::terminal::remaining::MANY;
use unskew_trie::TokenTrie;

use super::{
    keys::{KeyPrefix, KeySet, KeySets, KeyText, KeyTexts},
    persistent_map::{Map, PersistentMaps},
};
use crate::{
    ids::{Id, Table, id},
    network::terminals::{ScanTerminal, Terminals},
};

id! {
    /// A list of hits.
    HitList
}

/// The effects of all sets.
#[derive(Default, Debug)]
pub(crate) struct KeyEffects {
    maps: PersistentMaps,
    exhausted: HashMap<(ScanTerminal, KeySet), Exhausted>,
    /// By prefix: the [`HitList`].
    hits: HashMap<(ScanTerminal, KeySet), Map>,
    /// Of each list: its last hit, and the list of the others.
    lists: Table<HitList, (Hit, Option<HitList>)>,
    /// How many keys and hits were looked at.
    pub(crate) looks: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Exhausted {
    /// By prefix: how many of its continuations are exhausted, or [`ALL`].
    continuations: Map,
    /// The shortest prefix that the last key of the set exhausted.
    shortest: Option<KeyPrefix>,
}

/// No continuation is left.
const ALL: u32 = u32::MAX;

/// A used key, or an exhausted prefix, on the way of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) at: KeyPrefix,
    /// Whether no unused key begins with it.
    pub(crate) is_last: bool,
}

/// The tables of terminals, keys and sets.
pub(crate) struct KeyTables<'a> {
    pub(crate) terminals: &'a Terminals,
    pub(crate) texts: &'a mut KeyTexts,
    pub(crate) sets: &'a KeySets,
}

impl KeyEffects {
    /// Whether every key of `terminal` that begins with `prefix` is in `set` or left out of the terminal. O(log n)
    /// for n keys of `set`, after the first call for it.
    pub(crate) fn is_exhausted(
        &mut self,
        tables: &mut KeyTables<'_>,
        terminal: ScanTerminal,
        set: KeySet,
        prefix: KeyPrefix,
    ) -> bool {
        let Exhausted { continuations, .. } = self.exhausted(tables, terminal, set);
        self.looks += 1;
        self.maps.get(continuations, prefix.raw()) == Some(ALL)
    }

    /// The hits of tokens after `prefix`, where the keys of `set` were used.
    pub(crate) fn hits(
        &mut self,
        tables: &mut KeyTables<'_>,
        trie: &TokenTrie,
        (terminal, prefix): (ScanTerminal, KeyPrefix),
        set: KeySet,
    ) -> SmallVec<[Hit; 8]> {
        let (mut map, open) = since(tables.sets, &self.hits, terminal, set, None);
        for (set, key) in open {
            map = self.add_hits(tables, trie, map, (terminal, set), key);
            self.hits.insert((terminal, set), map);
        }
        let mut hits = SmallVec::new();
        let mut list = self.maps.get(map, prefix.raw()).map(HitList::of);
        while let Some(at) = list {
            let (hit, others) = self.lists[at];
            hits.push(hit);
            list = others;
        }
        self.looks += 1 + hits.len() as u64;
        hits
    }

    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 32;
        self.maps.memory_usage()
            + (self.exhausted.len() + self.hits.len()) * ENTRY
            + self.lists.len() * 2 * size_of::<(Hit, Option<HitList>)>()
    }

    fn exhausted(&mut self, tables: &mut KeyTables<'_>, terminal: ScanTerminal, set: KeySet) -> Exhausted {
        let (mut exhausted, open) = since(tables.sets, &self.exhausted, terminal, set, Exhausted::default());
        for (set, key) in open {
            exhausted = self.with_key(tables, exhausted.continuations, terminal, key);
            self.exhausted.insert((terminal, set), exhausted);
        }
        exhausted
    }

    fn with_key(
        &mut self,
        tables: &mut KeyTables<'_>,
        mut continuations: Map,
        terminal: ScanTerminal,
        key: KeyText,
    ) -> Exhausted {
        self.looks += 1;
        let mut shortest = None;
        let Some((difference, remaining)) = tables.terminals.remaining(terminal) else {
            return Exhausted { continuations, shortest };
        };
        let mut next = prefix_of(tables, terminal, key);
        while let Some(at) = next {
            let state = tables.texts.state(at);
            if remaining.of(difference.state(state)) == MANY {
                break;
            }
            let bytes = tables.terminals.next_bytes(terminal, state).iter();
            let all = bytes.filter(|byte| difference.step(state, *byte).is_some()).count()
                + usize::from(difference.is_accepting(state));
            let gone = self.maps.get(continuations, at.raw()).map_or(1, |gone| gone.saturating_add(1));
            let is_last = gone as usize >= all;
            continuations = self.maps.with(continuations, at.raw(), if is_last { ALL } else { gone });
            if !is_last {
                break;
            }
            shortest = Some(at);
            next = tables.texts.last(at).0;
        }
        Exhausted { continuations, shortest }
    }

    /// `map` with the hits of `key`, the last key of `set`.
    fn add_hits(
        &mut self,
        tables: &mut KeyTables<'_>,
        trie: &TokenTrie,
        mut map: Map,
        (terminal, set): (ScanTerminal, KeySet),
        key: KeyText,
    ) -> Map {
        self.looks += 1;
        let Some(end) = prefix_of(tables, terminal, key) else { return map };
        let remaining = tables.terminals.remaining(terminal);
        let is_scarce = remaining.is_some_and(|(_, remaining)| remaining.is_scarce);
        let shortest = if is_scarce { self.exhausted(tables, terminal, set).shortest } else { None };
        match shortest {
            Some(shortest) if shortest != end => {
                // From shorter prefixes tokens reach the shortest exhausted one first. The key itself is hit only
                // from longer ones, which are read where another set was used as well.
                map = self.add_hit(tables.texts, trie, map, Hit { at: end, is_last: true }, Some(shortest));
                self.add_hit(tables.texts, trie, map, Hit { at: shortest, is_last: true }, None)
            }
            _ => {
                let is_final = || tables.terminals.is_final(terminal, tables.texts.state(end));
                let is_last = shortest.is_some() || is_final();
                self.add_hit(tables.texts, trie, map, Hit { at: end, is_last }, None)
            }
        }
    }

    /// `map` with `hit` at all of its prefixes from which some token reaches it, but for those shorter than `first`.
    fn add_hit(
        &mut self,
        texts: &KeyTexts,
        trie: &TokenTrie,
        mut map: Map,
        hit: Hit,
        first: Option<KeyPrefix>,
    ) -> Map {
        let (mut rest, mut from): (Vec<u8>, Vec<Option<KeyPrefix>>) = (Vec::new(), Vec::new());
        let end = first.and_then(|first| texts.last(first).0);
        for (at, byte) in texts.since(end, hit.at).take(trie.longest()) {
            rest.push(byte);
            from.push(texts.last(at).0);
        }
        rest.reverse();
        for (prefix, len) in from.into_iter().zip(1..) {
            if let Some(prefix) = prefix
                && Some(prefix) != end
                && !trie.beginning_with(&rest[rest.len() - len..]).is_empty()
            {
                let others = self.maps.get(map, prefix.raw()).map(HitList::of);
                let list = self.lists.push((hit, others));
                map = self.maps.with(map, prefix.raw(), list.raw());
            }
        }
        map
    }
}

/// A key as a prefix of keys of `terminal`, if it is one of its keys.
fn prefix_of(tables: &mut KeyTables<'_>, terminal: ScanTerminal, key: KeyText) -> Option<KeyPrefix> {
    let bytes = tables.texts.of(key).clone();
    let prefix = tables.texts.prefix(tables.terminals, terminal, None, &bytes)?;
    tables.terminals.is_accepting(terminal, tables.texts.state(prefix)).then_some(prefix)
}

/// The known effects of the largest known subset of `set`; and the sets from there to `set`, each with its last key.
fn since<T: Copy>(
    sets: &KeySets,
    known: &HashMap<(ScanTerminal, KeySet), T>,
    terminal: ScanTerminal,
    set: KeySet,
    nothing: T,
) -> (T, impl Iterator<Item = (KeySet, KeyText)> + use<T>) {
    let mut open: SmallVec<[(KeySet, KeyText); 4]> = SmallVec::new();
    let mut at = set;
    let found = loop {
        if let Some(found) = known.get(&(terminal, at)) {
            break *found;
        }
        let Some((others, key)) = sets.last(at) else { break nothing };
        open.push((at, key));
        at = others;
    };
    (found, open.into_iter().rev())
}
