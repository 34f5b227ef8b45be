//! The neighbours of a part of a grammar on one side: bytes, or the terminals with which the text there begins.
//!
//! After a part they are its FOLLOW set, which is made of FIRST sets (Aho, Sethi, Ullman, "Compilers", 1986, section
//! 4.4); before it, the same of the grammar read backwards. All callers of a rule are taken together. Each set of bytes
//! is a node, each inclusion an edge, and bytes are passed along the edges until nothing is new: O(n) for n
//! expressions, because the number of bytes is bounded.

use hashbrown::HashSet;

use unskew_core::{id, ids::Table};
use unskew_trie::ByteSet;

use crate::{
    data::{Expr, ExprId, Grammar},
    fixpoint::productive,
};

/// A side of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The bytes before the part.
    Before,
    /// The bytes after the part.
    After,
}

/// By expression: the nearest bytes of the texts that may stand beside it, if the start rule reaches it. `bytes` has
/// those of terminals, and of expressions that are to count as terminals, where they stand beside something. A part
/// for which `empty` holds may have no byte.
pub fn near(
    grammar: &Grammar,
    side: Side,
    empty: &[bool],
    bytes: impl Fn(ExprId) -> Option<ByteSet>,
) -> Vec<ByteSet> {
    let productive = productive(grammar);
    let (sets, ends) = (Inclusions::default(), vec![None; grammar.expressions()]);
    let mut finder = Finder { grammar, side, empty, productive, sets, ends, open: Vec::new() };
    finder.ends(grammar.body(grammar.start()));
    while let Some(expr) = finder.open.pop() {
        let ends = finder.ends(expr);
        match bytes(expr) {
            Some(bytes) => finder.sets.bytes[ends.own] = bytes,
            None => finder.look(expr, ends),
        }
    }
    let sets = finder.sets.settle();
    finder.ends.iter().map(|ends| ends.map_or_else(ByteSet::default, |ends| sets[ends.near])).collect()
}

/// The facts about expressions that walks over beginnings ask.
#[derive(Clone, Copy, Debug)]
pub struct Begins<'a> {
    /// The grammar.
    pub grammar: &'a Grammar,
    /// Whether an expression has a text.
    pub productive: &'a [bool],
    /// Whether the empty text is one.
    pub nullable: &'a [bool],
}

impl<'a> Begins<'a> {
    /// The parts with which a text of a sequence may begin, and whether all may be empty.
    pub fn of_sequence(self, parts: &'a [ExprId]) -> (&'a [ExprId], bool) {
        let empty = parts.iter().take_while(|part| self.nullable[part.index()]).count();
        (&parts[..parts.len().min(empty + 1)], empty == parts.len())
    }

    /// The terminals and the groups with which texts of `from` may begin, and how many expressions were looked at.
    pub fn leaves(self, from: impl IntoIterator<Item = ExprId>) -> (Vec<ExprId>, usize) {
        let mut seen: HashSet<ExprId> = HashSet::new();
        let mut open: Vec<ExprId> = from.into_iter().filter(|part| seen.insert(*part)).collect();
        let mut leaves = vec![];
        while let Some(expr) = open.pop() {
            if !self.productive[expr.index()] {
                continue;
            }
            let mut inside = |parts: &[ExprId]| {
                open.extend(parts.iter().copied().filter(|part| seen.insert(*part)));
            };
            match self.grammar.expr(expr) {
                Expr::Empty => {}
                Expr::Terminal(_) | Expr::Unordered(_) => leaves.push(expr),
                Expr::Rule(rule) => inside(&[self.grammar.body(rule)]),
                Expr::Sequence(parts) => inside(self.of_sequence(parts).0),
                Expr::Choice(parts) => inside(parts),
                Expr::Repeat { item, .. } => inside(&[item]),
            }
        }
        (leaves, seen.len())
    }
}

id! {
    /// A set of bytes.
    SetId
}

/// Sets of bytes, and the inclusions between them.
#[derive(Default)]
struct Inclusions {
    bytes: Table<SetId, ByteSet>,
    /// By set: the sets that include it.
    wholes: Table<SetId, Vec<SetId>>,
}

impl Inclusions {
    fn add(&mut self) -> SetId {
        self.wholes.push(Vec::new());
        self.bytes.push(ByteSet::default())
    }

    fn include(&mut self, part: SetId, whole: SetId) {
        self.wholes[part].push(whole);
    }

    /// The least sets that satisfy all inclusions.
    fn settle(mut self) -> Table<SetId, ByteSet> {
        let mut open: Vec<SetId> = self.bytes.iter().map(|(set, _)| set).collect();
        while let Some(part) = open.pop() {
            let more = self.bytes[part];
            for whole in &self.wholes[part] {
                let bytes = &mut self.bytes[*whole];
                let before = *bytes;
                bytes.union(&more);
                if *bytes != before {
                    open.push(*whole);
                }
            }
        }
        self.bytes
    }
}

/// The sets of an expression.
#[derive(Clone, Copy)]
struct Ends {
    /// The bytes with which it stands beside something: its FIRST set.
    own: SetId,
    /// The bytes that stand beside it: its FOLLOW set.
    near: SetId,
}

/// Finds the sets of the expressions that the start rule reaches.
struct Finder<'g> {
    grammar: &'g Grammar,
    side: Side,
    empty: &'g [bool],
    productive: Vec<bool>,
    sets: Inclusions,
    /// By expression, if it is reached.
    ends: Vec<Option<Ends>>,
    open: Vec<ExprId>,
}

impl Finder<'_> {
    /// The sets of `expr`, which is reached.
    fn ends(&mut self, expr: ExprId) -> Ends {
        if let Some(ends) = self.ends[expr.index()] {
            return ends;
        }
        let ends = Ends { own: self.sets.add(), near: self.sets.add() };
        self.ends[expr.index()] = Some(ends);
        self.open.push(expr);
        ends
    }

    /// A text of `part` is a text of `whole`.
    fn stands_for(&mut self, part: ExprId, whole: Ends) {
        if self.productive[part.index()] {
            let part = self.ends(part);
            self.sets.include(part.own, whole.own);
            self.sets.include(whole.near, part.near);
        }
    }

    /// Adds the inclusions between the sets of `expr` and those of its parts.
    fn look(&mut self, expr: ExprId, ends: Ends) {
        let grammar = self.grammar;
        match grammar.expr(expr) {
            Expr::Empty | Expr::Terminal(_) => {}
            Expr::Rule(rule) => self.stands_for(grammar.body(rule), ends),
            Expr::Choice(parts) => parts.iter().for_each(|part| self.stands_for(*part, ends)),
            Expr::Repeat { item, max, .. } => {
                self.stands_for(item, ends);
                if let Some(item) = self.ends[item.index()].filter(|_| max != Some(1)) {
                    self.sets.include(item.own, item.near);
                }
            }
            Expr::Sequence(parts) => {
                let mut parts = parts.to_vec();
                if self.side == Side::Before {
                    parts.reverse();
                }
                for part in &parts {
                    let own = self.ends(*part).own;
                    self.sets.include(own, ends.own);
                    if !self.empty[part.index()] {
                        break;
                    }
                }
                let mut beside = ends.near;
                for part in parts.iter().rev() {
                    let Ends { own, near } = self.ends(*part);
                    self.sets.include(beside, near);
                    let here = self.sets.add();
                    self.sets.include(own, here);
                    if self.empty[part.index()] {
                        self.sets.include(beside, here);
                    }
                    beside = here;
                }
            }
            Expr::Unordered(group) => {
                let rules = group.members.iter().map(|(rule, _)| *rule).chain(group.others);
                for rule in rules.clone() {
                    self.stands_for(grammar.body(rule), ends);
                }
                // Beside a member stands the separator, or, if there is none, another member.
                let between = self.sets.add();
                let separator = group.separator.map(|rule| grammar.body(rule));
                if separator.is_none_or(|separator| self.empty[separator.index()]) {
                    self.sets.include(ends.own, between);
                }
                if let Some(separator) = separator.filter(|separator| self.productive[separator.index()]) {
                    let Ends { own, near } = self.ends(separator);
                    self.sets.include(own, between);
                    self.sets.include(ends.own, near);
                }
                for rule in rules {
                    let body = grammar.body(rule);
                    if let Some(member) = self.ends[body.index()] {
                        self.sets.include(between, member.near);
                        if self.empty[body.index()] {
                            // An empty member leaves its neighbours beside the others.
                            self.sets.bytes[between] = (0..=255).collect();
                            self.sets.include(between, ends.own);
                        }
                    }
                }
            }
        }
    }
}
