//! Returns: sets of frames, in groups that are made and named as a whole.
//!
//! A return says which texts may come where a rule ends: those of the position of one of its frames, and then those of the
//! return of that frame. So returns are the states of an automaton without end, whose letters are positions. A return is
//! **covered** by another if it can be simulated there: each of its frames has a frame with the same letter in the other, whose
//! return covers its own. Then every text that may come where the first is returned to may come where the second is.
//!
//! A frame is left out of a set if the set keeps one with the same letter whose return covers its own. No text gets lost by
//! that. Proof, by the number of letters: a word that begins with the frame that is left out goes on with a word of its return,
//! which is a letter shorter and is a word of the covering return too, hence, by induction, also where that one and all that it
//! refers to have left out theirs. A word has finitely many letters, and frames are left out one after the other, each for one
//! that is still there, so that the last one of a chain is kept.
//!
//! Ambiguity is why this pays. The rule `s = s s | "a"` has n ways to cut off the first part of n letters, and each makes a
//! frame; but all of them go on alike, and so one is left. Sets of frames then do not grow with the text for any of the
//! usual rules with operators. They do where what follows must match what came before in more than one way, as in palindromes.
//!
//! Covered is what a search of bounded length finds out, which remembers its answers: along a text each set differs from one before
//! in a frame or two, so that one step is left. What is not found out is kept. So a set takes at most a constant more than its length.
//!
//! Tried instead: to share the frames of long sets, as their union with a few more. Sets are then made in less time, but
//! whoever completes a rule still looks at all of them, and no state of the parser ever comes again.

use hashbrown::HashMap;

use super::engine::{Item, Return};
use crate::ids::Ids;

/// So many pairs and frames are looked at in one set, and again after each item that is left out.
const MOST_LOOKED_AT: usize = 512;

/// A reference inside a group to one of its own returns has this bit.
const INNER: u32 = 1 << 31;

/// How the frames of a group refer to its own return of this number, before it is made.
pub(crate) fn inner(member: u32) -> Return {
    INNER | member
}

/// Returns, in the groups in which they were made.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The frames of all returns.
    frames: Vec<Item>,
    /// By return: where its frames begin; and one more.
    first: Vec<u32>,
    /// By return: the first return of its group.
    group: Vec<Return>,
    ids: Ids,
    /// The most frames that a return has.
    longest: usize,
    covered: Covered,
}

/// Which returns are covered by which.
#[derive(Debug, Default)]
struct Covered {
    /// By a return and another: whether the other is known to cover it.
    known: HashMap<(Return, Return), bool>,
    /// Pairs in question: all of them are covered if each is as long as the others are.
    assumed: Vec<(Return, Return)>,
    /// Pairs that are covered, with returns that are not made yet.
    found: Vec<(Return, Return)>,
    /// How many pairs and frames may still be looked at.
    left: usize,
    /// How many were looked at.
    looked_at: u64,
}

impl Groups {
    pub(crate) fn new() -> Self {
        let (frames, first, group, ids) = (Vec::new(), vec![0], Vec::new(), Ids::default());
        Self { frames, first, group, ids, longest: 0, covered: Covered::default() }
    }

    /// The number of returns.
    pub(crate) fn len(&self) -> usize {
        self.group.len()
    }

    /// The most frames that a return has.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// How many frames were looked at to make sets of them.
    pub(crate) fn looked_at(&self) -> u64 {
        self.covered.looked_at
    }

    /// Where it goes on: no position among them is the end of its rule.
    #[inline]
    pub(crate) fn frames(&self, back: Return) -> &[Item] {
        &self.frames[self.first[back as usize] as usize..self.first[back as usize + 1] as usize]
    }

    /// The returns that were made together with `back`.
    pub(crate) fn group(&self, back: Return) -> std::ops::Range<Return> {
        let first = self.group[back as usize];
        let mut end = first + 1;
        while self.group.get(end as usize) == Some(&first) {
            end += 1;
        }
        first..end
    }

    /// The group of these returns, each a list of frames, of which the `i`-th is `INNER | i` to the others. Answers the
    /// first of them.
    pub(crate) fn insert(&mut self, members: &mut [Vec<Item>]) -> Return {
        for frames in members.iter_mut() {
            frames.sort_unstable();
            frames.dedup();
            self.covered.looked_at += frames.len() as u64;
        }
        if members.iter().any(|frames| may_be_covered(frames)) {
            // All are compared as they are before any of them leaves something out.
            let mut kept = members.to_vec();
            kept.iter_mut().for_each(|frames| self.leave_out(frames, members));
            members.swap_with_slice(&mut kept);
        }
        let next = u32::try_from(self.group.len()).expect("bounded memory");
        let hash = self.hash_members(members);
        let (all, first_of, group) = (&self.frames, &self.first, &self.group);
        let is_same = |candidate: Return| {
            members.iter().enumerate().all(|(member, frames)| {
                let at = candidate as usize + member;
                group.get(at) == Some(&candidate) && {
                    let kept = &all[first_of[at] as usize..first_of[at + 1] as usize];
                    // A frame that returns into the candidate from outside is none of its own, though it looks the same.
                    let is_outside = |back: Return| group.get(back as usize) != Some(&candidate);
                    kept.len() == frames.len()
                        && frames.iter().all(|frame| {
                            is_outside(frame.1) && kept.binary_search(&outer(*frame, candidate)).is_ok()
                        })
                }
            }) && group.get(candidate as usize + members.len()) != Some(&candidate)
        };
        let first = self.ids.get_or_insert(hash, next, is_same);
        if first == next {
            for frames in members.iter() {
                let begin = self.frames.len();
                self.longest = self.longest.max(frames.len());
                self.frames.extend(frames.iter().map(|frame| outer(*frame, next)));
                self.frames[begin..].sort_unstable();
                self.first.push(u32::try_from(self.frames.len()).expect("bounded memory"));
                self.group.push(next);
            }
        }
        for (narrow, wide) in self.covered.found.drain(..) {
            self.covered.known.insert((made(narrow, first), made(wide, first)), true);
        }
        first
    }

    /// Leaves out of `items`, which are in order, those that others cover.
    pub(crate) fn leave_out_covered(&mut self, items: &mut Vec<Item>) {
        if may_be_covered(items) {
            self.leave_out(items, &[]);
        }
    }

    /// Whether it is found out that `wide` covers `narrow`; see [`begin_set`](Self::begin_set).
    #[inline]
    pub(crate) fn covers(&mut self, wide: Return, narrow: Return) -> bool {
        wide == narrow || self.covers_among(wide, narrow, &[])
    }

    /// Allows for another set to be compared.
    pub(crate) fn begin_set(&mut self) {
        self.covered.left = MOST_LOOKED_AT;
    }

    fn leave_out(&mut self, items: &mut Vec<Item>, members: &[Vec<Item>]) {
        self.begin_set();
        let mut kept: Vec<Item> = Vec::with_capacity(items.len());
        for alike in items.chunk_by(|left, right| left.0 == right.0) {
            let begin = kept.len();
            // The returns of the group itself come first, and then those that were made last: they cover most.
            for item in alike.iter().rev() {
                let (_, back, used) = *item;
                let mut at = begin;
                let mut is_covered = false;
                while !is_covered && self.covered.left > 0 && at < kept.len() {
                    let (_, other, other_used) = kept[at];
                    // Of two that cover each other one of the group itself is kept, else the older one: so the same sets come
                    // again.
                    let is_own = other & INNER != 0;
                    if other_used != used {
                        at += 1;
                    } else if is_own && self.covers_among(other, back, members) {
                        is_covered = true;
                    } else if self.covers_among(back, other, members) {
                        kept.remove(at);
                    } else if !is_own && self.covers_among(other, back, members) {
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

    /// As [`covers`](Self::covers), where either may be one of `members`, which are not made yet.
    fn covers_among(&mut self, wide: Return, narrow: Return, members: &[Vec<Item>]) -> bool {
        let left = self.covered.left;
        if left == 0 {
            return false;
        }
        self.covered.assumed.clear();
        let covers = self.simulates(wide, narrow, members);
        let Covered { known, assumed, found, .. } = &mut self.covered;
        for pair in assumed.drain(..) {
            match is_made(pair) {
                true => drop(known.insert(pair, true)),
                false => found.push(pair),
            }
        }
        let spent = left - self.covered.left;
        if !covers && spent > MOST_LOOKED_AT / 2 && is_made((narrow, wide)) {
            // A long search, maybe given up, is not begun again.
            self.covered.known.insert((narrow, wide), false);
        }
        if covers {
            self.begin_set();
        }
        covers
    }

    /// Whether `wide` covers `narrow` as long as the pairs that are assumed do, to which this one is added.
    fn simulates(&mut self, wide: Return, narrow: Return, members: &[Vec<Item>]) -> bool {
        let pair = (narrow, wide);
        if narrow == wide {
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
        let len = self.frames_of(narrow, members).len();
        for index in 0..len {
            let frame = self.frames_of(narrow, members)[index];
            if !self.has_covering(wide, frame, members) {
                // What was assumed since is assumed nowhere else.
                self.covered.assumed.truncate(begin);
                if self.covered.left > 0 && is_made(pair) {
                    self.covered.known.insert(pair, false);
                }
                return false;
            }
        }
        true
    }

    /// Whether `wide` has a frame with the letter of `frame` and a return that covers that of it.
    fn has_covering(&mut self, wide: Return, frame: Item, members: &[Vec<Item>]) -> bool {
        let (position, back, used) = frame;
        if !self.look() {
            return false;
        }
        let frames = self.frames_of(wide, members);
        if frames.binary_search(&frame).is_ok() {
            return true;
        }
        let begin = frames.partition_point(|other| other.0 < position);
        let alike = frames[begin..].iter().take_while(|other| other.0 == position).count();
        for at in begin..begin + alike {
            if !self.look() {
                return false;
            }
            let (_, other, other_used) = self.frames_of(wide, members)[at];
            if other_used == used && self.simulates(other, back, members) {
                return true;
            }
        }
        false
    }

    /// Counts a frame that is looked at; says if that was one too many.
    fn look(&mut self) -> bool {
        self.covered.looked_at += 1;
        self.covered.left = self.covered.left.saturating_sub(1);
        self.covered.left > 0
    }

    fn frames_of<'a>(&'a self, back: Return, members: &'a [Vec<Item>]) -> &'a [Item] {
        if back & INNER == 0 { self.frames(back) } else { &members[(back & !INNER) as usize] }
    }

    /// Frames of a group have no order that survives renaming, so their hashes are added up.
    fn hash_members(&self, members: &[Vec<Item>]) -> u64 {
        let mut sum = members.len() as u64;
        for (member, frames) in members.iter().enumerate() {
            for frame in frames {
                sum = sum.wrapping_add(self.ids.hash((member, *frame)));
            }
        }
        sum
    }

    pub(crate) fn memory_usage(&self) -> usize {
        const PAIR: usize = 2 * (size_of::<((Return, Return), bool)>() + 1);
        self.frames.len() * size_of::<Item>()
            + self.group.len() * (2 * size_of::<u32>() + Ids::ENTRY)
            + self.covered.known.len() * PAIR
    }
}

/// Whether two of `items`, which are in order, have the same position, so that one may cover the other.
#[inline]
fn may_be_covered(items: &[Item]) -> bool {
    items.array_windows().any(|[left, right]| left.0 == right.0)
}

fn is_made((narrow, wide): (Return, Return)) -> bool {
    (narrow | wide) & INNER == 0
}

/// The number of `back` once the group that begins with `first` is made.
fn made(back: Return, first: Return) -> Return {
    if back & INNER != 0 { first + (back & !INNER) } else { back }
}

/// A frame as it is kept, in the group that begins with `first`.
fn outer((position, back, used): Item, first: Return) -> Item {
    (position, made(back, first), used)
}
