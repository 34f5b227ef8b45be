//! One split step as a deterministic automaton over marked text.
//!
//! A symbol is a character (its atom) and whether a mark is before it. A symbol decides two questions at once: with
//! the mark, the piece so far ends exactly here; without it, the piece does not end here. Both are questions about
//! the *first* match in order of priority, so a state keeps its threads in that order:
//!
//! - The threads of the present piece. If one of them has matched, the piece ends here unless a thread of higher
//!   priority matches later. So without a mark only the threads of higher priority continue, and one of them must
//!   match. With a mark they must not match, and become
//! - obligations: threads that must never match. If one matches, the piece that ended was not the first match.
//! - Text between two matches is a piece too, a gap. It is a thread of lowest priority, and no match may begin at any
//!   position in it. Its *killers* are threads that begin at each of these positions: if one matches, the piece is
//!   not a gap. When the gap ends, its killers become obligations, and the next piece must be a match.
//!
//! Threads are stored before their conditions are evaluated, since look-ahead needs the next character.
//!
//! Some behaviours join pieces: `MergedWithNext` joins a match and the text after it. For these, the first automaton
//! has two kinds of marks, before a match and before text between matches. Then the marks inside of joined pieces are
//! removed, and the subset construction makes the result deterministic.
//!
//! Apart from that, no step guesses, so the automaton is deterministic at once, and the lists stay short:
//!
//! | pattern | states | after merging equal states |
//! |---|--:|--:|
//! | GPT-2 | 27 | 15 |
//! | GPT-4o | 99 | 30 |
//!
//! Considered instead: for each thread the set of texts in which all threads of higher priority fail, as products of
//! complements. That is one product for each alternative, and most of their states would be merged again.

use std::collections::HashMap;

use super::{
    SplitError,
    limits::Budget,
    marked::{Ends, Marked},
    nfa::{Nfa, Node},
};
use crate::dfa::{atoms::Atoms, explore::Numbered, table::DEAD};

/// The treatment of the matches of a pattern, and of the texts between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pieces {
    /// Matches and the texts between them are pieces.
    Both,
    /// Matches are pieces, and there is no text between them.
    Matches,
    /// No match occurs: the text is one piece.
    Between,
    /// Both are pieces, but a piece of the first kind and a following piece of the second kind are joined.
    Joined(Kind, Kind),
}

/// A match, or the text between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Match,
    Between,
}

/// The mark before the next character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    None,
    /// A piece ends; the next one is of any kind.
    Any,
    /// A piece ends, and one of this kind begins.
    Kind(Kind),
}

/// The facts about the next character. Atoms with the same `look` satisfy the same conditions.
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
    /// By class of `look_of`, with the end of the text last, and by condition: whether it holds.
    holds: Vec<Vec<bool>>,
    /// By node: the number of its latest visit.
    seen: Vec<u32>,
    visit: u32,
    stack: Vec<u32>,
    budget: &'a mut Budget<'l>,
}

/// A state of the construction. Threads are numbers of nodes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct State {
    /// No character was read yet.
    at_start: bool,
    /// In order of priority.
    threads: Vec<u32>,
    /// The killers, sorted; `None` if the piece cannot be a gap.
    gap: Option<Vec<u32>>,
    /// Sorted.
    obligations: Vec<u32>,
}

/// An automaton with several kinds of marks. Its first states are its starts.
#[derive(Default)]
struct Explored {
    starts: usize,
    /// The number of kinds of marks.
    marks: usize,
    accepting: Vec<bool>,
    /// By state: the targets without a mark by atom, then the targets with each kind of mark.
    next: Vec<u32>,
}

impl Explored {
    fn targets(&self, state: u32, mark: usize, atoms: usize) -> &[u32] {
        &self.next[(state as usize * (1 + self.marks) + mark) * atoms..][..atoms]
    }

    /// The same automaton with at most one kind of mark, and one start.
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

    /// The automaton with one kind of mark: before a match or other text, except between two pieces that `joins`
    /// joins.
    fn joined(
        &self,
        joins: impl Fn(u32, Kind) -> bool,
        atoms: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Marked, SplitError> {
        let start: Vec<u32> = (0u32..).take(self.starts).collect();
        let mut marked = Marked::new(atoms);
        let mut found = Numbered::from_iter([start]);
        while let Some(state) = found.get_index(marked.len()).cloned() {
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
                    let number = budget.number(&mut found, next)?;
                    *marked.next_mut(row, mark, atom) = number;
                }
            }
        }
        Ok(marked)
    }
}

/// The threads of a state before one class of next characters: nodes that read a character.
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

    /// All states that `starts` reach, over characters without a mark and with each of `marks`, and the kinds of
    /// their pieces. A kind has no meaning if the marks do not tell kinds apart.
    fn explored(
        &mut self,
        starts: Vec<State>,
        marks: &[Mark],
        gaps: bool,
    ) -> Result<(Explored, Vec<Kind>), SplitError> {
        let mut explored = Explored { starts: starts.len(), marks: marks.len(), ..Explored::default() };
        let mut found = Numbered::from_iter(starts);
        while let Some(state) = found.get_index(explored.accepting.len()).cloned() {
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
                        let number = self.budget.number(&mut found, next)?;
                        explored.next[begin + atom] = number;
                    }
                }
            }
        }
        let kind = |state: &State| if state.gap.is_some() { Kind::Between } else { Kind::Match };
        Ok((explored, found.iter().map(kind).collect()))
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

    /// The threads that read the next character, after the decision that the piece ends before it or does not. `None`
    /// if the decision is wrong.
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
            // At the end of the first match the piece ends, or continues only as a longer match.
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
        // After the text between two matches comes a match.
        let (threads, gap) = match mark {
            Mark::Kind(Kind::Match) => (begins, None),
            Mark::Kind(Kind::Between) if !was_match => return Ok(None),
            Mark::Kind(Kind::Between) => (vec![], Some(begins)),
            Mark::None | Mark::Any => (begins, (was_match && gaps).then(Vec::new)),
        };
        Ok(Some(State { at_start: false, threads, gap, obligations }))
    }

    /// The state after `ready` has read a character of `atom`. `None` if no match is possible.
    fn advance(&mut self, ready: &State, atom: usize) -> Result<Option<State>, SplitError> {
        // A thread that must not match need not be followed as one that may.
        self.visit += 1;
        let mut obligations = self.read(&ready.obligations, atom)?;
        let threads = self.read(&ready.threads, atom)?;
        // If a thread of the piece matches, the gap is excluded in any case.
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

    /// The targets of the `nodes` that read `atom`, without those that this visit has seen.
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

    /// The nodes that read a character and are reachable from `threads`, in order of priority, up to the first match.
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
