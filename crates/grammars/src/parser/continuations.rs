//! Continuations: sets of frames, created and named in groups.
//!
//! A continuation says which texts may follow the end of a rule: a text of the position of one of its frames, and
//! then a text of the continuation of that frame. So continuations are the states of an infinite automaton whose
//! letters are positions. One continuation **covers** another if it simulates it: for each frame of the other it has
//! a frame with the same letter whose continuation covers that frame's continuation. Then every text that the covered
//! continuation allows, the covering one allows too.
//!
//! A frame is left out of a set if the set keeps another frame with the same letter whose continuation covers its
//! own. No text is lost. Proof, by the number of letters: a word that begins with the frame that was left out
//! continues with a word of its continuation, which is one letter shorter and is a word of the covering continuation
//! too; by induction, it still is when that continuation and all that it refers to have left out their covered
//! frames. A word has finitely many letters, and frames are left out one after the other, each for a frame that is
//! still there, so the last frame of a chain is kept.
//!
//! This pays where grammars are ambiguous. The rule `s = s s | "a"` has n ways to cut off the first part of n
//! letters, and each creates a frame; all of them continue alike, so one frame stays. Sets of frames then do not grow
//! with the text for any of the usual rules with operators. They grow where the rest of the text must match the text
//! before in more than one way, as in palindromes.
//!
//! Covering is decided by a search of bounded length, which remembers its answers: along a text each set differs from
//! an earlier one in a frame or two, so that one step is left. A frame is kept if the search does not end. So the
//! work for a set is at most a constant more than its length.
//!
//! Tried instead: to share the frames of long sets, as their union with a few more frames. Sets are then created in
//! less time, but the completion of a rule still looks at all of them, and no parser state ever recurs.

use hashbrown::HashMap;

use super::states::Item;
use crate::ids::{Id, IdRange, Interner, Table, id, number};

id! {
    /// The continuation of a rule: where the parser continues when the rule ends, as a set of frames. In a group
    /// under construction, also a reference to one of its [members](Self::member).
    Continuation
}

/// The continuation that is this member of the group under construction has this bit.
const MEMBER: u32 = 1 << 31;

impl Continuation {
    /// The continuation of the start rule: the output may end.
    pub(crate) const ROOT: Self = Self::of(0);

    /// A member of the group under construction, in the frames of that group.
    pub(crate) fn member(member: u32) -> Self {
        Self::of(MEMBER | member)
    }

    /// The number of the member of the group under construction.
    #[inline]
    fn as_member(self) -> Option<u32> {
        (self.raw() & MEMBER != 0).then_some(self.raw() & !MEMBER)
    }

    /// The continuation once the group that begins with `first` exists.
    #[inline]
    fn in_group(self, first: Self) -> Self {
        self.as_member().map_or(self, |member| Self::of(first.raw() + member))
    }
}

/// Continuations, in the groups in which they were created.
#[derive(Debug)]
pub(crate) struct Continuations {
    /// The frames of all continuations.
    frames: Vec<Item>,
    /// By continuation: the index of its first frame; and the number of all frames.
    first: Vec<u32>,
    /// By continuation: the first continuation of its group.
    group: Table<Continuation, Continuation>,
    interner: Interner<Continuation>,
    covered: Covered,
}

/// A continuation, and another that may cover it.
type Pair = (Continuation, Continuation);

/// Which continuations cover which.
#[derive(Debug, Default)]
struct Covered {
    /// Whether the second of a pair is known to cover the first.
    known: HashMap<Pair, bool>,
    /// Pairs in question: the second covers the first in each of them if it does in all others.
    assumed: Vec<Pair>,
    /// Pairs, with members of the group under construction, in which the second covers the first.
    found: Vec<Pair>,
    /// The most pairs and frames that are looked at for one set, and again after each item that is left out.
    most: usize,
    /// How many pairs and frames may still be looked at.
    left: usize,
    /// How many were looked at.
    looked_at: u64,
}

impl Continuations {
    /// `covered_looks`: see [`Tuning`](crate::tuning::Tuning::covered_looks).
    pub(crate) fn new(covered_looks: usize) -> Self {
        Self {
            frames: Vec::new(),
            first: vec![0],
            group: Table::default(),
            interner: Interner::default(),
            covered: Covered { most: covered_looks, ..Covered::default() },
        }
    }

    /// The number of continuations.
    pub(crate) fn len(&self) -> usize {
        self.group.len()
    }

    /// How many frames were looked at to create continuations and to compare them.
    pub(crate) fn looked_at(&self) -> u64 {
        self.covered.looked_at
    }

    /// The frames of a continuation. None of their positions is the end of its rule.
    #[inline]
    pub(crate) fn frames(&self, continuation: Continuation) -> &[Item] {
        let at = continuation.index();
        &self.frames[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// The continuations that were created together with this one.
    pub(crate) fn group(&self, continuation: Continuation) -> IdRange<Continuation> {
        let first = self.group[continuation];
        let others = &self.group.entries()[first.index()..];
        IdRange::new(first, others.iter().take_while(|other| **other == first).count())
    }

    /// The group of these continuations, each a list of frames that refer to the others as
    /// [members](Continuation::member). Answers the first of the group.
    pub(crate) fn insert(&mut self, members: &mut [Vec<Item>]) -> Continuation {
        for frames in members.iter_mut() {
            frames.sort_unstable();
            frames.dedup();
            self.covered.looked_at += frames.len() as u64;
        }
        if members.iter().any(|frames| may_be_covered(frames)) {
            // All are compared before any of them leaves something out.
            let mut kept = members.to_vec();
            kept.iter_mut().for_each(|frames| self.leave_out(frames, members));
            members.swap_with_slice(&mut kept);
        }
        let next = self.group.next_id();
        let hash = self.hash_members(members);
        let (all, first_of, group) = (&self.frames, &self.first, &self.group);
        let is_in =
            |continuation: Continuation, candidate: Continuation| group.get(continuation) == Some(&candidate);
        let is_same = |candidate: Continuation| {
            members.iter().enumerate().all(|(member, frames)| {
                let at = candidate.index() + member;
                is_in(Continuation::from_index(at), candidate) && {
                    let kept = &all[first_of[at] as usize..first_of[at + 1] as usize];
                    // A frame from outside the candidate that continues in it is no frame of the candidate, though it
                    // looks the same.
                    kept.len() == frames.len()
                        && frames.iter().all(|frame| {
                            !is_in(frame.1, candidate)
                                && kept.binary_search(&in_group(*frame, candidate)).is_ok()
                        })
                }
            }) && !is_in(Continuation::from_index(candidate.index() + members.len()), candidate)
        };
        let first = self.interner.get_or_insert(hash, next, is_same);
        if first == next {
            for frames in members.iter() {
                let begin = self.frames.len();
                self.frames.extend(frames.iter().map(|frame| in_group(*frame, next)));
                self.frames[begin..].sort_unstable();
                self.first.push(number(self.frames.len()));
                self.group.push(next);
            }
        }
        for (covered, covering) in self.covered.found.drain(..) {
            self.covered.known.insert((covered.in_group(first), covering.in_group(first)), true);
        }
        first
    }

    /// Leaves out of `items`, which are in order, those that others cover.
    pub(crate) fn leave_out_covered(&mut self, items: &mut Vec<Item>) {
        if may_be_covered(items) {
            self.leave_out(items, &[]);
        }
    }

    /// Whether the search finds that `covering` covers `covered`; see [`begin_set`](Self::begin_set).
    #[inline]
    pub(crate) fn covers(&mut self, covering: Continuation, covered: Continuation) -> bool {
        covering == covered || self.covers_among(covering, covered, &[])
    }

    /// Allows the work for another set.
    pub(crate) fn begin_set(&mut self) {
        self.covered.left = self.covered.most;
    }

    fn leave_out(&mut self, items: &mut Vec<Item>, members: &[Vec<Item>]) {
        self.begin_set();
        let mut kept: Vec<Item> = Vec::with_capacity(items.len());
        for alike in items.chunk_by(|left, right| left.0 == right.0) {
            let begin = kept.len();
            // The members of the group come first, and then the newest continuations: they cover most.
            for item in alike.iter().rev() {
                let (_, continuation, keys) = *item;
                let mut at = begin;
                let mut is_covered = false;
                while !is_covered && self.covered.left > 0 && at < kept.len() {
                    let (_, other, other_keys) = kept[at];
                    // If two cover each other, the member of the group is kept, else the older one: so the same sets
                    // recur.
                    let is_member = other.as_member().is_some();
                    if other_keys != keys {
                        at += 1;
                    } else if is_member && self.covers_among(other, continuation, members) {
                        is_covered = true;
                    } else if self.covers_among(continuation, other, members) {
                        kept.remove(at);
                    } else if !is_member && self.covers_among(other, continuation, members) {
                        is_covered = true;
                    } else {
                        at += 1;
                    }
                }
                if !is_covered {
                    kept.push(*item);
                }
            }
            kept[begin..].reverse();
        }
        *items = kept;
    }

    /// As [`covers`](Self::covers); either may be a member of the group under construction, whose frames are `members`.
    fn covers_among(&mut self, covering: Continuation, covered: Continuation, members: &[Vec<Item>]) -> bool {
        let left = self.covered.left;
        if left == 0 {
            return false;
        }
        self.covered.assumed.clear();
        let covers = self.simulates(covering, covered, members);
        let Covered { known, assumed, found, .. } = &mut self.covered;
        for pair in assumed.drain(..) {
            match is_created(pair) {
                true => drop(known.insert(pair, true)),
                false => found.push(pair),
            }
        }
        let spent = left - self.covered.left;
        if !covers && spent > self.covered.most / 2 && is_created((covered, covering)) {
            // A long search, which may have been given up, is not repeated.
            self.covered.known.insert((covered, covering), false);
        }
        if covers {
            self.begin_set();
        }
        covers
    }

    /// Whether `covering` covers `covered` if the assumed pairs do, to which this pair is added.
    fn simulates(&mut self, covering: Continuation, covered: Continuation, members: &[Vec<Item>]) -> bool {
        let pair = (covered, covering);
        if covered == covering {
            return true;
        }
        if !self.look() {
            return false;
        }
        if let Some(known) = self.covered.known.get(&pair) {
            return *known;
        }
        if self.covered.assumed.contains(&pair) || self.covered.found.contains(&pair) {
            return true;
        }
        let begin = self.covered.assumed.len();
        self.covered.assumed.push(pair);
        let len = self.frames_of(covered, members).len();
        for index in 0..len {
            let frame = self.frames_of(covered, members)[index];
            if !self.has_covering(covering, frame, members) {
                // The pairs that were assumed since depend on this one.
                self.covered.assumed.truncate(begin);
                if self.covered.left > 0 && is_created(pair) {
                    self.covered.known.insert(pair, false);
                }
                return false;
            }
        }
        true
    }

    /// Whether `covering` has a frame with the letter of `frame` and a continuation that covers that of `frame`.
    fn has_covering(&mut self, covering: Continuation, frame: Item, members: &[Vec<Item>]) -> bool {
        let (position, continuation, keys) = frame;
        if !self.look() {
            return false;
        }
        let frames = self.frames_of(covering, members);
        if frames.binary_search(&frame).is_ok() {
            return true;
        }
        let begin = frames.partition_point(|other| other.0 < position);
        let alike = frames[begin..].iter().take_while(|other| other.0 == position).count();
        for at in begin..begin + alike {
            if !self.look() {
                return false;
            }
            let (_, other, other_keys) = self.frames_of(covering, members)[at];
            if other_keys == keys && self.simulates(other, continuation, members) {
                return true;
            }
        }
        false
    }

    /// Counts a frame that is looked at. Answers false if it was one too many.
    fn look(&mut self) -> bool {
        self.covered.looked_at += 1;
        self.covered.left = self.covered.left.saturating_sub(1);
        self.covered.left > 0
    }

    fn frames_of<'a>(&'a self, continuation: Continuation, members: &'a [Vec<Item>]) -> &'a [Item] {
        match continuation.as_member() {
            None => self.frames(continuation),
            Some(member) => &members[member as usize],
        }
    }

    /// A sum of hashes: the order of frames changes when members get their ids.
    fn hash_members(&self, members: &[Vec<Item>]) -> u64 {
        let mut sum = members.len() as u64;
        for (member, frames) in members.iter().enumerate() {
            for frame in frames {
                sum = sum.wrapping_add(self.interner.hash((member, *frame)));
            }
        }
        sum
    }

    pub(crate) fn memory_usage(&self) -> usize {
        const PAIR: usize = 2 * (size_of::<(Pair, bool)>() + 1);
        self.frames.len() * size_of::<Item>()
            + self.group.len() * (2 * size_of::<u32>() + Interner::<Continuation>::ENTRY)
            + self.covered.known.len() * PAIR
    }
}

/// Whether two of `items`, which are in order, have the same position, so that one may cover the other.
#[inline]
fn may_be_covered(items: &[Item]) -> bool {
    items.array_windows().any(|[left, right]| left.0 == right.0)
}

/// Whether neither is a member of the group under construction.
fn is_created((covered, covering): Pair) -> bool {
    covered.as_member().or(covering.as_member()).is_none()
}

/// A frame as the group that begins with `first` keeps it.
fn in_group((position, continuation, keys): Item, first: Continuation) -> Item {
    (position, continuation.in_group(first), keys)
}
