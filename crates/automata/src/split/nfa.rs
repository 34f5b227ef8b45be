//! Thompson's NFA of a split pattern, with priorities: of two alternatives, the first is tried first.
//!
//! Conditions remain in the NFA as nodes that read nothing; the next character decides whether they hold.
//!
//! Possessive quantifiers need no states of their own. A loop over single characters that gives nothing back ends at
//! the first character that it cannot read, or at its bound. So each exit before the bound gets the condition that
//! the next character is not in the set.

use super::{SplitError, limits::Budget, pattern::Ast};

/// A node; targets are numbers of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// Reads one character of a set.
    Set {
        set: usize,
        next: u32,
    },
    /// Continues if condition `look` holds.
    Look {
        look: usize,
        next: u32,
    },
    /// Continues at the start of the text.
    Start {
        next: u32,
    },
    /// Continues at both nodes; `first` has priority.
    Split {
        first: u32,
        second: u32,
    },
    Match,
}

pub(super) struct Nfa {
    pub(super) nodes: Vec<Node>,
    /// The conditions: the next character is in the set, or, if the flag is set, the text ends.
    pub(super) looks: Vec<(usize, bool)>,
    pub(super) start: u32,
}

/// The NFA of `ast`, the tree of split step `step`.
pub(super) fn compile(ast: &Ast, step: usize, budget: &mut Budget<'_>) -> Result<Nfa, SplitError> {
    let nfa = Nfa { nodes: vec![Node::Match], looks: vec![], start: 0 };
    let mut compiler = Compiler { nfa, step, limit: budget.limits.nfa_states };
    compiler.nfa.start = compiler.part(ast, 0)?;
    budget.spend(compiler.nfa.nodes.len())?;
    Ok(compiler.nfa)
}

struct Compiler {
    nfa: Nfa,
    step: usize,
    limit: usize,
}

impl Compiler {
    fn push(&mut self, node: Node) -> Result<u32, SplitError> {
        if self.nfa.nodes.len() >= self.limit {
            return Err(SplitError::NfaTooLarge { step: self.step, limit: self.limit });
        }
        self.nfa.nodes.push(node);
        Ok(u32::try_from(self.nfa.nodes.len() - 1).expect("fewer than 2^32 nodes"))
    }

    fn look(&mut self, set: usize, end: bool, next: u32) -> Result<u32, SplitError> {
        let known = self.nfa.looks.iter().position(|look| *look == (set, end));
        let look = known.unwrap_or_else(|| {
            self.nfa.looks.push((set, end));
            self.nfa.looks.len() - 1
        });
        self.push(Node::Look { look, next })
    }

    /// Adds nodes that match `ast` and then continue at `next`. Returns the first of them.
    fn part(&mut self, ast: &Ast, next: u32) -> Result<u32, SplitError> {
        match ast {
            Ast::Empty => Ok(next),
            Ast::Set(set) => self.push(Node::Set { set: *set, next }),
            Ast::Look { set, end } => self.look(*set, *end, next),
            Ast::Start => self.push(Node::Start { next }),
            Ast::Concat(parts) => parts.iter().rev().try_fold(next, |next, part| self.part(part, next)),
            Ast::Alternation(parts) => {
                let mut entry = None;
                for part in parts.iter().rev() {
                    let first = self.part(part, next)?;
                    entry = Some(match entry {
                        None => first,
                        Some(second) => self.push(Node::Split { first, second })?,
                    });
                }
                Ok(entry.unwrap_or(next))
            }
            Ast::Repeat { part, min, max, lazy } => {
                let way_out = |more, out| match lazy {
                    false => Node::Split { first: more, second: out },
                    true => Node::Split { first: out, second: more },
                };
                let mut entry = next;
                match max {
                    None => {
                        let split = self.push(Node::Match)?;
                        let more = self.part(part, split)?;
                        self.nfa.nodes[split as usize] = way_out(more, next);
                        entry = split;
                    }
                    Some(max) => {
                        for _ in *min..*max {
                            let more = self.copy(part, entry)?;
                            entry = self.push(way_out(more, next))?;
                        }
                    }
                }
                self.times(part, *min, entry)
            }
            Ast::Possessive { set, others, min, max } => {
                let part = Ast::Set(*set);
                let mut entry = next;
                match max {
                    None => {
                        let split = self.push(Node::Match)?;
                        let first = self.part(&part, split)?;
                        let second = self.look(*others, true, next)?;
                        self.nfa.nodes[split as usize] = Node::Split { first, second };
                        entry = split;
                    }
                    Some(max) => {
                        for _ in *min..*max {
                            let first = self.copy(&part, entry)?;
                            let second = self.look(*others, true, next)?;
                            entry = self.push(Node::Split { first, second })?;
                        }
                    }
                }
                self.times(&part, *min, entry)
            }
        }
    }

    fn times(&mut self, part: &Ast, count: u32, next: u32) -> Result<u32, SplitError> {
        (0..count).try_fold(next, |next, _| self.copy(part, next))
    }

    /// One of many copies. Each has at least one node, even if `part` reads nothing, so that the limit bounds their
    /// number.
    fn copy(&mut self, part: &Ast, next: u32) -> Result<u32, SplitError> {
        let before = self.nfa.nodes.len();
        let entry = self.part(part, next)?;
        if self.nfa.nodes.len() == before {
            return self.push(Node::Split { first: entry, second: entry });
        }
        Ok(entry)
    }
}
