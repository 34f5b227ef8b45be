//! One split step as a deterministic automaton over marked text.
//!
//! A symbol is a character (its atom) and whether a mark stands in front of it. Reading one decides two things at once:
//! with the mark, that the piece so far ends exactly here; without it, that it does not. Both are questions about the
//! *first* match in order of priority, so a state keeps its threads in that order:
//!
//! - The threads of the present piece. Where one of them has matched, the piece ends there unless a thread in front of
//!   it matches later. So without a mark only the threads in front go on, and one of them has to match; with a mark
//!   they must not, and become
//! - obligations: threads that must never match. If one does, the text belongs to no piece that ended.
//! - Text between two matches is a piece as well, a gap. It is a thread behind all others; and at each position in it no
//!   match may begin. Of that its *killers* take care, threads that begin there: where one matches, the gap is no
//!   option any more. When the gap ends they become obligations, and the next piece has to be a match.
//!
//! Threads are kept as they are before their conditions are looked at, since look-ahead needs the next character.
//! Where pieces are put together, as `MergedWithNext` does with a match and the text behind it, an automaton is made first in
//! which each mark says whether a match follows, or text between matches. Then the marks between what belongs together are
//! taken away, and the subset construction makes the rest deterministic.
//!
//! Nothing is guessed otherwise, so the automaton is deterministic as it comes out, and the lists stay short: 27 states for
//! the pattern of GPT-2, 99 for that of GPT-4o, and 15 and 30 once equal ones are merged. The other way to put
//! it is by sets of texts, for each thread the texts in which all threads in front of it fail, as products of
//! complements; that is one product for each alternative, and most of their states would be merged again.

use std::collections::HashMap;

use super::{
    SplitError,
    chars::Atoms,
    limits::{Budget, Numbered},
    marked::{Ends, Marked},
    nfa::{Nfa, Node},
};
use crate::dfa::table::DEAD;

/// What becomes of the matches of a pattern, and of the text between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pieces {
    /// Each is a piece.
    Both,
    /// Matches are pieces, and there is nothing between them.
    Matches,
    /// No match occurs: the text is one piece.
    Between,
    /// Both are pieces, but a piece of the first kind and one of the second kind behind it are one.
    Joined(Kind, Kind),
}

/// A match, or the text between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Match,
    Between,
}

/// Which mark stands in front of the next character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    None,
    /// A piece ends, of whatever kind the next one is.
    Any,
    /// A piece ends, and one of this kind begins.
    Kind(Kind),
}

/// What is known about the next character: the atoms with the same `look` make the same conditions hold.
#[derive(Clone, Copy)]
struct Next {
    look: usize,
    at_start: bool,
}

struct Determinizer<'a, 'l> {
    nfa: &'a Nfa,
    atoms: &'a Atoms,
    /// By atom: its class with respect to conditions.
    look_of: Vec<usize>,
    /// By such a class, the end of the text last: by condition, whether it holds.
    holds: Vec<Vec<bool>>,
    /// By node: when it was last visited.
    seen: Vec<u32>,
    visit: u32,
    stack: Vec<u32>,
    budget: &'a mut Budget<'l>,
}

/// A state on the way: threads as numbers of nodes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct State {
    /// Nothing has been read yet.
    at_start: bool,
    /// In order of priority.
    threads: Vec<u32>,
    /// The killers, sorted; `None` where the piece cannot be a gap.
    gap: Option<Vec<u32>>,
    /// Sorted.
    obligations: Vec<u32>,
}

/// An automaton with several kinds of marks, and several starts: its first states.
#[derive(Default)]
struct Explored {
    starts: usize,
    /// How many kinds of marks there are.
    marks: usize,
    accepting: Vec<bool>,
    /// By state: the targets without a mark by atom, then those with each kind of mark.
    next: Vec<u32>,
}

impl Explored {
    fn targets(&self, state: u32, mark: usize, atoms: usize) -> &[u32] {
        &self.next[(state as usize * (1 + self.marks) + mark) * atoms..][..atoms]
    }

    /// The same with at most one kind of mark, and one start.
    fn marked(&self, atoms: usize) -> Marked {
        let mut marked = Marked::new(atoms);
        for (state, accepts) in (0u32..).zip(&self.accepting) {
            let row = marked.push(if *accepts { Ends::ANYHOW } else { Ends::NEVER });
            for mark in 0..=self.marks {
                for (atom, target) in self.targets(state, mark, atoms).iter().enumerate() {
                    *marked.next_mut(row, mark > 0, atom) = *target;
                }
            }
        }
        marked
    }

    /// With a mark in front of a match or of other text, by the kind that follows, but for marks between two that `joins` puts
    /// together.
    fn joined(
        &self,
        joins: impl Fn(u32, Kind) -> bool,
        atoms: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Marked, SplitError> {
        let start: Vec<u32> = (0u32..).take(self.starts).collect();
        let mut marked = Marked::new(atoms);
        let mut found = Numbered::new([start]);
        while let Some(state) = found.states.get(marked.len()).cloned() {
            let accepts = state.iter().any(|state| self.accepting[*state as usize]);
            let row = marked.push(if accepts { Ends::ANYHOW } else { Ends::NEVER });
            for mark in [false, true] {
                for atom in 0..atoms {
                    budget.spend(1 + state.len())?;
                    let mut next: Vec<u32> = Vec::new();
                    for from in state.iter().copied() {
                        if !mark {
                            next.push(self.targets(from, 0, atoms)[atom]);
                        }
                        for (number, kind) in [(1, Kind::Match), (2, Kind::Between)] {
                            if joins(from, kind) != mark {
                                next.push(self.targets(from, number, atoms)[atom]);
                            }
                        }
                    }
                    next.retain(|target| *target != DEAD);
                    if next.is_empty() {
                        continue;
                    }
                    next.sort_unstable();
                    next.dedup();
                    let number = found.number(next, budget)?;
                    *marked.next_mut(row, mark, atom) = number;
                }
            }
        }
        Ok(marked)
    }
}

/// The threads of a state at one class of next characters: nodes that read a character.
#[derive(Default)]
struct Ready {
    threads: Vec<u32>,
    matched: bool,
}

/// The automaton of the step with pattern `nfa`.
pub(super) fn determinize(
    nfa: &Nfa,
    pieces: Pieces,
    atoms: &Atoms,
    step: usize,
    budget: &mut Budget<'_>,
) -> Result<Marked, SplitError> {
    let mut signatures: HashMap<Vec<bool>, usize> = HashMap::new();
    let mut holds: Vec<Vec<bool>> = Vec::new();
    let look_of = (0..atoms.count)
        .map(|atom| {
            let signature: Vec<bool> = nfa.looks.iter().map(|(set, _)| atoms.members[*set][atom]).collect();
            *signatures.entry(signature.clone()).or_insert_with(|| {
                holds.push(signature);
                holds.len() - 1
            })
        })
        .collect();
    budget.spend(atoms.count * nfa.looks.len())?;
    holds.push(nfa.looks.iter().map(|(_, end)| *end).collect());
    let determinizer = Determinizer {
        nfa,
        atoms,
        look_of,
        holds,
        seen: vec![0; nfa.nodes.len()],
        visit: 0,
        stack: vec![],
        budget,
    };
    determinizer.run(pieces, step)
}

impl Determinizer<'_, '_> {
    fn run(mut self, pieces: Pieces, step: usize) -> Result<Marked, SplitError> {
        for look in 0..self.holds.len() {
            for at_start in [false, true] {
                if self.ready(&[self.nfa.start], Next { look, at_start })?.matched {
                    return Err(SplitError::MatchesEmpty { step });
                }
            }
        }
        let start = |threads: &[u32], gap: Option<Vec<u32>>| State {
            at_start: true,
            threads: threads.to_vec(),
            gap,
            obligations: vec![],
        };
        let matching = [self.nfa.start];
        match pieces {
            Pieces::Both => {
                let (explored, _) =
                    self.explored(vec![start(&matching, Some(vec![]))], &[Mark::Any], true)?;
                Ok(explored.marked(self.atoms.count))
            }
            Pieces::Matches => {
                let (explored, _) = self.explored(vec![start(&matching, None)], &[Mark::Any], false)?;
                Ok(explored.marked(self.atoms.count))
            }
            Pieces::Between => {
                let (explored, _) = self.explored(vec![start(&[], Some(matching.to_vec()))], &[], true)?;
                Ok(explored.marked(self.atoms.count))
            }
            Pieces::Joined(first, second) => {
                let starts = vec![start(&matching, None), start(&[], Some(matching.to_vec()))];
                let marks = [Mark::Kind(Kind::Match), Mark::Kind(Kind::Between)];
                let (explored, kinds) = self.explored(starts, &marks, true)?;
                let joins = |at: u32, next: Kind| kinds[at as usize] == first && next == second;
                explored.joined(joins, self.atoms.count, self.budget)
            }
        }
    }

    /// All states that `starts` lead to, over characters without a mark and with each of `marks`, and the kinds of their pieces
    /// (which say nothing where a mark does not).
    fn explored(
        &mut self,
        starts: Vec<State>,
        marks: &[Mark],
        gaps: bool,
    ) -> Result<(Explored, Vec<Kind>), SplitError> {
        let mut explored = Explored { starts: starts.len(), marks: marks.len(), ..Explored::default() };
        let mut found = Numbered::new(starts);
        while let Some(state) = found.states.get(explored.accepting.len()).cloned() {
            explored.accepting.push(self.accepts(&state)?);
            self.budget.spend(2 * self.atoms.count)?;
            for mark in [Mark::None].iter().chain(marks) {
                let begin = explored.next.len();
                explored.next.resize(begin + self.atoms.count, DEAD);
                for look in 0..self.holds.len() - 1 {
                    let Some(ready) = self.decide(&state, *mark, look, gaps)? else { continue };
                    for atom in 0..self.atoms.count {
                        if self.look_of[atom] != look {
                            continue;
                        }
                        let Some(next) = self.advance(&ready, atom)? else { continue };
                        let number = found.number(next, self.budget)?;
                        explored.next[begin + atom] = number;
                    }
                }
            }
        }
        let kind = |state: &State| if state.gap.is_some() { Kind::Between } else { Kind::Match };
        Ok((explored, found.states.iter().map(kind).collect()))
    }

    /// Whether the text may end in `state`.
    fn accepts(&mut self, state: &State) -> Result<bool, SplitError> {
        if state.at_start {
            return Ok(true);
        }
        let end = Next { look: self.holds.len() - 1, at_start: false };
        if self.ready(&state.obligations, end)?.matched {
            return Ok(false);
        }
        if self.ready(&state.threads, end)?.matched {
            return Ok(true);
        }
        match &state.gap {
            Some(killers) => Ok(!self.ready(killers, end)?.matched),
            None => Ok(false),
        }
    }

    /// The threads that read the next character, once it is decided whether the piece ends in front of it. `None`
    /// where the decision is wrong.
    fn decide(
        &mut self,
        state: &State,
        mark: Mark,
        look: usize,
        gaps: bool,
    ) -> Result<Option<State>, SplitError> {
        let next = Next { look, at_start: state.at_start };
        let is_marked = mark != Mark::None;
        if is_marked && state.at_start {
            return Ok(None);
        }
        let obligations = self.ready(&state.obligations, next)?;
        if obligations.matched {
            return Ok(None);
        }
        let mut obligations = obligations.threads;
        let piece = self.ready(&state.threads, next)?;
        let killers = match &state.gap {
            // Where the first match ends, the piece ends, or goes on only as a longer match.
            Some(killers) if !piece.matched => {
                let mut killers = killers.clone();
                if !is_marked && !state.at_start {
                    killers.push(self.nfa.start);
                }
                let killers = self.ready(&killers, next)?;
                (!killers.matched).then_some(killers.threads)
            }
            _ => None,
        };
        if !is_marked {
            return Ok(Some(State { at_start: false, threads: piece.threads, gap: killers, obligations }));
        }
        obligations.extend(piece.threads);
        let was_match = piece.matched;
        match killers {
            _ if was_match => {}
            Some(killers) => obligations.extend(killers),
            None => return Ok(None),
        }
        let begins = self.ready(&[self.nfa.start], next)?.threads;
        // Behind the text between two matches comes a match.
        let (threads, gap) = match mark {
            Mark::Kind(Kind::Match) => (begins, None),
            Mark::Kind(Kind::Between) if !was_match => return Ok(None),
            Mark::Kind(Kind::Between) => (vec![], Some(begins)),
            Mark::None | Mark::Any => (begins, (was_match && gaps).then(Vec::new)),
        };
        Ok(Some(State { at_start: false, threads, gap, obligations }))
    }

    /// The state after `ready` has read a character of `atom`. `None` where no match is possible.
    fn advance(&mut self, ready: &State, atom: usize) -> Result<Option<State>, SplitError> {
        // A thread that must not match need not be followed as one that may.
        self.visit += 1;
        let mut obligations = self.read(&ready.obligations, atom)?;
        let threads = self.read(&ready.threads, atom)?;
        // Where a thread of the piece matches, the gap is no option in any case.
        let killers = match &ready.gap {
            Some(killers) => Some(self.read(killers, atom)?),
            None => None,
        };
        if threads.is_empty() && killers.is_none() {
            return Ok(None);
        }
        obligations.sort_unstable();
        let gap = killers.map(|mut killers| {
            killers.sort_unstable();
            killers
        });
        Ok(Some(State { at_start: false, threads, gap, obligations }))
    }

    /// The targets of those of `nodes` that read `atom`, without those seen during this visit.
    fn read(&mut self, nodes: &[u32], atom: usize) -> Result<Vec<u32>, SplitError> {
        let mut targets = Vec::new();
        for node in nodes {
            let Node::Set { set, next } = self.nfa.nodes[*node as usize] else { continue };
            let seen = &mut self.seen[next as usize];
            if self.atoms.members[set][atom] && *seen != self.visit {
                *seen = self.visit;
                targets.push(next);
            }
        }
        self.budget.spend(nodes.len() + 1)?;
        Ok(targets)
    }

    /// What reads a character, reached from `threads` in order of priority, up to the first match.
    fn ready(&mut self, threads: &[u32], next: Next) -> Result<Ready, SplitError> {
        self.visit += 1;
        let mut ready = Ready::default();
        let mut steps = 1;
        'threads: for thread in threads {
            self.stack.push(*thread);
            while let Some(node) = self.stack.pop() {
                steps += 1;
                if std::mem::replace(&mut self.seen[node as usize], self.visit) == self.visit {
                    continue;
                }
                match self.nfa.nodes[node as usize] {
                    Node::Set { .. } => ready.threads.push(node),
                    Node::Look { look, next: target } if self.holds[next.look][look] => {
                        self.stack.push(target);
                    }
                    Node::Start { next: target } if next.at_start => self.stack.push(target),
                    Node::Look { .. } | Node::Start { .. } => {}
                    Node::Split { first, second } => self.stack.extend([second, first]),
                    Node::Match => {
                        ready.matched = true;
                        self.stack.clear();
                        break 'threads;
                    }
                }
            }
        }
        self.budget.spend(steps)?;
        Ok(ready)
    }
}
