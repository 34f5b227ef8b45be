//! Facts about the parts of rules: their terminals, how they nest, and the states in which they can be left.

use std::collections::HashMap;

use unskew_grammar::{
    Expr, ExprId, Grammar, RuleId, Terminal, TerminalId,
    kit::{
        fixpoint::{containing, productive_and_nullable, settle, wholes},
        terminal::reading::first_bytes,
    },
};
use unskew_trie::ByteSet;

use super::{Layout, State, States};

/// The role of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Newline,
    Indent,
    Dedent,
    Open,
    Close,
    Other,
}

/// A part of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Item {
    Part(ExprId),
    /// A block: an index of [`Facts::blocks`].
    Block(usize),
}

/// A rule that does not nest.
pub(super) struct Unbalanced {
    pub(super) rule: String,
    pub(super) what: &'static str,
}

const BRACKETS: &str = "closes a bracket in another place than it opens it";
const BLOCKS: &str = "ends a block in another place than it begins it";

pub(super) struct Facts {
    pub(super) nullable: Vec<bool>,
    /// By expression: whether newlines or blocks are in it, or in a rule that it calls.
    pub(super) laid_out: Vec<bool>,
    /// The same of brackets.
    pub(super) bracketed: Vec<bool>,
    /// By expression: whether it has a text between brackets.
    pub(super) inside: Vec<bool>,
    /// The parts of sequences, in which brackets and blocks are balanced. Those of sequences with one side alone are
    /// in the sequence around them.
    pub(super) items: HashMap<ExprId, Vec<Item>>,
    pub(super) blocks: Vec<Vec<Item>>,
    /// By expression and state: the states in which it can be left, at a column that is not the greatest.
    pub(super) exits: Vec<[States; 4]>,
    /// By expression and state: whether its texts depend on the column, there and in the states that it leads to.
    by_column: Vec<[bool; 4]>,
    /// By expression: whether a block may be the first of it.
    opens: Vec<bool>,
    /// By expression: the first bytes of its texts; `None` if a part without an automaton may be its first.
    firsts: Vec<Option<ByteSet>>,
    productive: Vec<bool>,
    roles: Vec<Role>,
    ignored: ExprId,
}

impl Facts {
    pub(super) fn new(grammar: &Grammar, layout: &Layout) -> Result<Self, Unbalanced> {
        let roles: Vec<Role> = grammar.terminals().map(|terminal| role(grammar, layout, terminal)).collect();
        let (productive, nullable) = productive_and_nullable(grammar);
        let wholes = wholes(grammar);
        let with = |is: fn(Role) -> bool| {
            let is_one = |expr: &ExprId| match grammar.expr(*expr) {
                Expr::Terminal(terminal) => is(roles[terminal.index()]),
                _ => false,
            };
            containing(&wholes, grammar.expression_ids().filter(is_one))
        };
        let mut facts = Self {
            nullable,
            laid_out: with(|role| matches!(role, Role::Newline | Role::Indent | Role::Dedent)),
            bracketed: with(|role| matches!(role, Role::Open | Role::Close)),
            inside: vec![],
            items: HashMap::new(),
            blocks: vec![],
            exits: vec![[States::default(); 4]; grammar.expressions()],
            by_column: vec![[false; 4]; grammar.expressions()],
            opens: vec![false; grammar.expressions()],
            firsts: vec![Some(ByteSet::default()); grammar.expressions()],
            productive,
            roles,
            ignored: layout.ignored,
        };
        facts.balance(grammar)?;
        let mut users = wholes;
        facts.find_inside(grammar, &users);
        facts.find_opens(grammar, &users);
        facts.find_firsts(grammar, &users);
        facts.add_users_of_items(&mut users);
        facts.find_exits(grammar, &users);
        facts.find_columns(grammar, &users);
        Ok(facts)
    }

    /// Whether the texts of `expr` from this state depend on the column. A simple statement depends on it before the
    /// statement alone.
    pub(super) fn is_by_column(&self, expr: ExprId, from: State) -> bool {
        self.by_column[expr.index()][from as usize]
    }

    /// Whether `expr` begins with a terminal that has a text, so that an indentation may be written before it.
    pub(super) fn begins_with_text(&self, expr: ExprId) -> bool {
        !self.nullable[expr.index()] && !self.opens[expr.index()]
    }

    pub(super) fn role(&self, terminal: TerminalId) -> Role {
        self.roles[terminal.index()]
    }

    pub(super) fn role_of(&self, grammar: &Grammar, item: Item) -> Role {
        match item {
            Item::Part(expr) => match grammar.expr(expr) {
                Expr::Terminal(terminal) => self.role(terminal),
                _ => Role::Other,
            },
            Item::Block(_) => Role::Other,
        }
    }

    /// Divides the sequences, and checks that all rules are balanced.
    fn balance(&mut self, grammar: &Grammar) -> Result<(), Unbalanced> {
        // By expression: how many more brackets are opened than closed, and blocks. Rules are balanced.
        let mut depths: Vec<[i32; 2]> = Vec::with_capacity(grammar.expressions());
        let mut wrong: Vec<Option<&'static str>> = Vec::with_capacity(grammar.expressions());
        for expr in grammar.expression_ids() {
            let mut bad = None;
            let depth = match grammar.expr(expr) {
                Expr::Terminal(terminal) => match self.role(terminal) {
                    Role::Open => [1, 0],
                    Role::Close => [-1, 0],
                    Role::Indent => [0, 1],
                    Role::Dedent => [0, -1],
                    Role::Newline | Role::Other => [0, 0],
                },
                Expr::Sequence(parts) => {
                    let mut depth = [0, 0];
                    for part in parts {
                        bad = bad.or(wrong[part.index()]);
                        let own = depths[part.index()];
                        depth = [depth[0] + own[0], depth[1] + own[1]];
                    }
                    depth
                }
                Expr::Choice(parts) => {
                    let depth = depths[parts[0].index()];
                    for part in parts {
                        bad = bad.or(wrong[part.index()]).or(differs(depth, depths[part.index()]));
                    }
                    // Another alternative opens something as well: the sequence around it cannot be divided.
                    bad.or(differs(depth, [0, 0])).map_or(depth, |what| {
                        bad = Some(what);
                        [0, 0]
                    })
                }
                Expr::Repeat { item, .. } => {
                    bad = wrong[item.index()].or(differs(depths[item.index()], [0, 0]));
                    [0, 0]
                }
                Expr::Empty | Expr::Rule(_) | Expr::Unordered(_) => [0, 0],
            };
            depths.push(depth);
            wrong.push(bad);
        }
        for rule in grammar.rules() {
            let body = grammar.body(rule);
            let bad = wrong[body.index()].or(differs(depths[body.index()], [0, 0]));
            if let Some(what) = bad {
                return Err(Unbalanced { rule: grammar.rule_name(rule).to_owned(), what });
            }
        }
        let owners = owners(grammar);
        for expr in grammar.expression_ids() {
            if depths[expr.index()] == [0, 0]
                && let Expr::Sequence(parts) = grammar.expr(expr)
            {
                let mut flat = vec![];
                let mut open: Vec<ExprId> = parts.iter().rev().copied().collect();
                while let Some(part) = open.pop() {
                    match grammar.expr(part) {
                        Expr::Sequence(parts) if depths[part.index()] != [0, 0] => {
                            open.extend(parts.iter().rev().copied());
                        }
                        _ => flat.push(part),
                    }
                }
                let name = || owners.get(&expr).map_or("", |rule| grammar.rule_name(*rule)).to_owned();
                let items = self.divide(grammar, &flat);
                let items = items.map_err(|what| Unbalanced { rule: name(), what })?;
                self.items.insert(expr, items);
            }
        }
        Ok(())
    }

    /// The items of a sequence: what is between a beginning and an end of a block is one.
    fn divide(&mut self, grammar: &Grammar, parts: &[ExprId]) -> Result<Vec<Item>, &'static str> {
        let mut open: Vec<(Vec<Item>, u32)> = vec![];
        let (mut items, mut level) = (vec![], 0u32);
        for part in parts {
            match self.role_of(grammar, Item::Part(*part)) {
                // There are no blocks between brackets, so such a sequence has no text.
                Role::Indent => open.push((std::mem::take(&mut items), std::mem::take(&mut level))),
                Role::Dedent if level > 0 => return Err(BRACKETS),
                Role::Dedent => {
                    let (mut around, before) = open.pop().ok_or(BLOCKS)?;
                    self.blocks.push(std::mem::take(&mut items));
                    around.push(Item::Block(self.blocks.len() - 1));
                    (items, level) = (around, before);
                }
                role => {
                    match role {
                        Role::Open => level += 1,
                        Role::Close => level = level.checked_sub(1).ok_or(BRACKETS)?,
                        _ => {}
                    }
                    items.push(Item::Part(*part));
                }
            }
        }
        if open.is_empty() { Ok(items) } else { Err(BLOCKS) }
    }

    fn find_inside(&mut self, grammar: &Grammar, users: &[Vec<ExprId>]) {
        self.inside = vec![false; grammar.expressions()];
        settle(grammar, users, |expr| {
            let has = |part: &ExprId| self.inside[part.index()];
            let made = match grammar.expr(expr) {
                _ if !self.productive[expr.index()] => false,
                _ if expr == self.ignored => true,
                Expr::Empty | Expr::Unordered(_) => true,
                Expr::Terminal(terminal) => {
                    !matches!(self.role(terminal), Role::Newline | Role::Indent | Role::Dedent)
                }
                Expr::Rule(rule) => has(&grammar.body(rule)),
                Expr::Sequence(parts) => parts.iter().all(has),
                Expr::Choice(parts) => parts.iter().any(has),
                Expr::Repeat { item, min, .. } => min == 0 || has(&item),
            };
            made != std::mem::replace(&mut self.inside[expr.index()], made)
        });
    }

    /// A sequence depends on all of its items, those in blocks and in sequences that it is divided with.
    fn add_users_of_items(&self, users: &mut [Vec<ExprId>]) {
        for (expr, items) in &self.items {
            let mut open: Vec<&Item> = items.iter().collect();
            while let Some(item) = open.pop() {
                match item {
                    Item::Part(part) => users[part.index()].push(*expr),
                    Item::Block(block) => open.extend(&self.blocks[*block]),
                }
            }
        }
    }

    fn find_exits(&mut self, grammar: &Grammar, users: &[Vec<ExprId>]) {
        settle(grammar, users, |expr| {
            let mut changed = false;
            for from in State::ALL {
                let made = self.leave(grammar, expr, from);
                changed |= made != self.exits[expr.index()][from as usize];
                self.exits[expr.index()][from as usize] = made;
            }
            changed
        });
    }

    fn find_columns(&mut self, grammar: &Grammar, users: &[Vec<ExprId>]) {
        settle(grammar, users, |expr| {
            let mut changed = false;
            for from in State::ALL {
                let made = self.uses_column(grammar, expr, from);
                changed |= made != self.by_column[expr.index()][from as usize];
                self.by_column[expr.index()][from as usize] = made;
            }
            changed
        });
    }

    fn uses_column(&self, grammar: &Grammar, expr: ExprId, from: State) -> bool {
        let is_broken = matches!(from, State::Broken | State::Opened);
        if expr == self.ignored || self.is_flat(expr) {
            return is_broken && expr != self.ignored;
        }
        let any = |parts: &[ExprId]| parts.iter().any(|part| self.is_by_column(*part, from));
        match grammar.expr(expr) {
            Expr::Empty | Expr::Unordered(_) => unreachable!("it is flat"),
            Expr::Terminal(_) => is_broken,
            Expr::Rule(rule) => any(&[grammar.body(rule)]),
            Expr::Choice(parts) => any(parts),
            Expr::Sequence(_) => {
                let (mut at, mut level) = (States::of(from), 0u32);
                for item in self.items.get(&expr).into_iter().flatten() {
                    let uses = match *item {
                        Item::Part(expr) => {
                            level == 0 && at.iter().any(|state| self.is_by_column(expr, state))
                        }
                        Item::Block(_) => true,
                    };
                    if uses {
                        return true;
                    }
                    at = self.after(grammar, *item, level, at);
                    level = self.level_after(grammar, *item, level);
                }
                false
            }
            Expr::Repeat { item, .. } => {
                let mut at = States::of(from);
                loop {
                    if at.iter().any(|state| self.is_by_column(item, state)) {
                        return true;
                    }
                    let next = at.iter().map(|state| self.exits[item.index()][state as usize]);
                    let more = next.fold(at, States::union);
                    if more == at {
                        return false;
                    }
                    at = more;
                }
            }
        }
    }

    /// Whether `expr` has no empty text, and begins with one of `bytes`.
    pub(super) fn begins_in(&self, expr: ExprId, bytes: &ByteSet) -> bool {
        let within = |first: ByteSet| first.iter().all(|byte| bytes.contains(byte));
        !self.nullable[expr.index()] && self.firsts[expr.index()].is_some_and(within)
    }

    fn find_firsts(&mut self, grammar: &Grammar, users: &[Vec<ExprId>]) {
        let first: Vec<Option<ByteSet>> = grammar
            .terminals()
            .map(|terminal| match grammar.terminal(terminal) {
                Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) => None,
                Terminal::TokenBudget(_) | Terminal::Difference(_) | Terminal::Distinct(_) => None,
                made => Some(first_bytes(made)),
            })
            .collect();
        settle(grammar, users, |expr| {
            let made = {
                let of = |part: &ExprId| self.firsts[part.index()];
                let all = |parts: &[ExprId]| {
                    parts.iter().map(of).try_fold(ByteSet::default(), |mut all, more| {
                        all.union(&more?);
                        Some(all)
                    })
                };
                match grammar.expr(expr) {
                    Expr::Empty => Some(ByteSet::default()),
                    Expr::Unordered(_) => None,
                    Expr::Terminal(terminal) => first[terminal.index()],
                    Expr::Rule(rule) => of(&grammar.body(rule)),
                    Expr::Choice(parts) => all(parts),
                    Expr::Repeat { item, .. } => of(&item),
                    Expr::Sequence(parts) => {
                        let last = parts.iter().position(|part| !self.nullable[part.index()]);
                        all(&parts[..last.map_or(parts.len(), |last| last + 1)])
                    }
                }
            };
            made != std::mem::replace(&mut self.firsts[expr.index()], made)
        });
    }

    fn find_opens(&mut self, grammar: &Grammar, users: &[Vec<ExprId>]) {
        settle(grammar, users, |expr| {
            let has = |part: &ExprId| self.opens[part.index()];
            let made = match grammar.expr(expr) {
                _ if self.is_flat(expr) => false,
                Expr::Empty | Expr::Unordered(_) => false,
                Expr::Terminal(terminal) => self.role(terminal) == Role::Indent,
                Expr::Rule(rule) => has(&grammar.body(rule)),
                Expr::Choice(parts) => parts.iter().any(has),
                Expr::Repeat { item, .. } => has(&item),
                Expr::Sequence(parts) => {
                    let last = parts.iter().position(|part| !self.nullable[part.index()]);
                    parts[..last.map_or(parts.len(), |last| last + 1)].iter().any(has)
                }
            };
            made != std::mem::replace(&mut self.opens[expr.index()], made)
        });
    }

    /// Whether the part is one text to the layout: without newlines, blocks and brackets that make a difference.
    pub(super) fn is_flat(&self, expr: ExprId) -> bool {
        !self.laid_out[expr.index()]
    }

    fn leave(&self, grammar: &Grammar, expr: ExprId, from: State) -> States {
        if !self.productive[expr.index()] {
            return States::default();
        }
        if expr == self.ignored && from != State::Line {
            // It is written after the indentation.
            return States::of(from);
        }
        if expr == self.ignored || self.is_flat(expr) {
            let is_empty = matches!(grammar.expr(expr), Expr::Empty);
            let here = if self.nullable[expr.index()] { States::of(from) } else { States::default() };
            let has_text = from != State::Ended && !is_empty && self.flat_has_text(grammar, expr);
            return if has_text { here.with(State::Line) } else { here };
        }
        match grammar.expr(expr) {
            Expr::Empty | Expr::Unordered(_) => unreachable!("it is flat"),
            // Indentations are in blocks, and were taken out of sequences.
            Expr::Terminal(terminal) => match (self.role(terminal), from) {
                (Role::Newline, State::Line | State::Broken | State::Opened) => States::of(State::Broken),
                _ => States::default(),
            },
            Expr::Rule(rule) => self.exits[grammar.body(rule).index()][from as usize],
            Expr::Sequence(_) => match self.items.get(&expr) {
                Some(items) => self.through(grammar, items, from),
                None => States::default(),
            },
            Expr::Choice(parts) => parts
                .iter()
                .map(|part| self.exits[part.index()][from as usize])
                .fold(States::default(), States::union),
            Expr::Repeat { item, min, max } => {
                let (mut at, mut found) = (States::of(from), States::default());
                let mut seen = vec![];
                for round in 0.. {
                    if round >= min {
                        found = found.union(at);
                    }
                    // From known states on, more rounds lead to known states.
                    if max == Some(round) || (round >= min && seen.contains(&at)) {
                        break;
                    }
                    seen.push(at);
                    let next = at.iter().map(|state| self.exits[item.index()][state as usize]);
                    at = next.fold(States::default(), States::union);
                    if at == States::default() {
                        break;
                    }
                }
                found
            }
        }
    }

    /// Whether a part without newlines and blocks has a text: brackets in it need a text inside.
    fn flat_has_text(&self, grammar: &Grammar, expr: ExprId) -> bool {
        match grammar.expr(expr) {
            Expr::Sequence(_) => self.productive[expr.index()],
            _ => true,
        }
    }

    /// The states after a sequence of items from `from`.
    pub(super) fn through(&self, grammar: &Grammar, items: &[Item], from: State) -> States {
        let (mut at, mut level) = (States::of(from), 0u32);
        for item in items {
            at = self.after(grammar, *item, level, at);
            level = self.level_after(grammar, *item, level);
        }
        at
    }

    pub(super) fn level_after(&self, grammar: &Grammar, item: Item, level: u32) -> u32 {
        match self.role_of(grammar, item) {
            Role::Open => level + 1,
            Role::Close => level.saturating_sub(1),
            _ => level,
        }
    }

    /// The states after an item at a level of brackets, from any of `at`.
    pub(super) fn after(&self, grammar: &Grammar, item: Item, level: u32, at: States) -> States {
        let each = |from: State| match item {
            Item::Part(expr) if level > 0 => {
                if from == State::Line && self.inside[expr.index()] {
                    States::of(State::Line)
                } else {
                    States::default()
                }
            }
            Item::Part(expr) => self.exits[expr.index()][from as usize],
            Item::Block(block) if level == 0 && from == State::Broken => {
                let inner = self.through(grammar, &self.blocks[block], State::Opened);
                let mut found = States::default();
                for state in inner.iter() {
                    found = match state {
                        State::Broken => found.with(State::Broken).with(State::Ended),
                        State::Line | State::Opened | State::Ended => found.with(State::Ended),
                    };
                }
                found
            }
            Item::Block(_) => States::default(),
        };
        at.iter().map(each).fold(States::default(), States::union)
    }
}

fn role(grammar: &Grammar, layout: &Layout, terminal: TerminalId) -> Role {
    if terminal == layout.newline {
        return Role::Newline;
    }
    if terminal == layout.indent {
        return Role::Indent;
    }
    if terminal == layout.dedent {
        return Role::Dedent;
    }
    match grammar.terminal(terminal) {
        Terminal::Literal(text) if layout.open.contains(text) => Role::Open,
        Terminal::Literal(text) if layout.close.contains(text) => Role::Close,
        _ => Role::Other,
    }
}

fn differs(one: [i32; 2], other: [i32; 2]) -> Option<&'static str> {
    match (one[0] == other[0], one[1] == other[1]) {
        (false, _) => Some(BRACKETS),
        (true, false) => Some(BLOCKS),
        (true, true) => None,
    }
}

/// By sequence: a rule that has it in its body.
fn owners(grammar: &Grammar) -> HashMap<ExprId, RuleId> {
    let mut owners = HashMap::new();
    for rule in grammar.rules() {
        let mut open = vec![grammar.body(rule)];
        while let Some(expr) = open.pop() {
            if owners.contains_key(&expr) {
                continue;
            }
            owners.insert(expr, rule);
            match grammar.expr(expr) {
                Expr::Sequence(parts) | Expr::Choice(parts) => open.extend(parts.iter().copied()),
                Expr::Repeat { item, .. } => open.push(item),
                _ => {}
            }
        }
    }
    owners
}
