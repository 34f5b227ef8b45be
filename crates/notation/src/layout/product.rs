//! The rules by column and state, as a plain grammar.

use std::{collections::HashMap, sync::Arc};

use unskew_automata::Dfa;
use unskew_grammar::{Expr, ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId};

use super::{
    Layout, State, States,
    columns::{Columns, Indentation},
    empty,
    facts::{Facts, Item},
};
use crate::looks::{Condition, Looks};

/// The column of parts that are the same in all.
const ANY: u32 = 0;

/// A part of a rule in the form that it has in one place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Part {
    /// At a column, from one state to another.
    Outside(ExprId, u32, State, State),
    /// Between brackets.
    Inside(ExprId),
}

/// A rule of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Made {
    Outside(RuleId, u32, State, State),
    Inside(RuleId),
    /// The rest of a repetition: the expression of the repetition, the column, the state, and the state at its end.
    Loop(ExprId, u32, State, State),
    /// A block at a column, to its state at its end.
    Block(usize, u32, State),
    /// A block at any greater column.
    Above(usize, u32, State),
}

/// The next part after an indentation and ignored text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Next {
    /// The end of the output.
    End,
    /// The newline terminal.
    Break,
    /// A text whose first byte shows that the newline terminal has ended.
    Harmless,
    Other,
}

pub(super) struct Product<'g> {
    grammar: &'g Grammar,
    layout: &'g Layout,
    facts: &'g Facts,
    columns: &'g Columns,
    limits: &'g GrammarLimits,
    looks: &'g mut Looks,
    builder: GrammarBuilder,
    parts: HashMap<Part, ExprId>,
    rules: HashMap<Made, RuleId>,
    /// Rules without a body so far.
    open: Vec<Made>,
    /// By column and what is next: the indentation; `None` if it has no text.
    indentations: HashMap<(u32, Next), Option<ExprId>>,
    breaks: Option<ExprId>,
    nothing: Option<RuleId>,
    most: u32,
}

impl<'g> Product<'g> {
    pub(super) fn new(
        grammar: &'g Grammar,
        layout: &'g Layout,
        facts: &'g Facts,
        columns: &'g Columns,
        limits: &'g GrammarLimits,
        looks: &'g mut Looks,
    ) -> Self {
        Self {
            grammar,
            layout,
            facts,
            columns,
            limits,
            looks,
            builder: grammar.extended(limits),
            parts: HashMap::new(),
            rules: HashMap::new(),
            open: vec![],
            indentations: HashMap::new(),
            breaks: None,
            nothing: None,
            most: limits.columns,
        }
    }

    pub(super) fn grammar(mut self) -> Result<Grammar, GrammarError> {
        let start = self.grammar.start();
        let ends = self.facts.exits[self.grammar.body(start).index()][State::Line as usize];
        let whole = self.builder.rule(self.grammar.rule_name(start));
        let mut ways = vec![];
        for end in ends.iter() {
            let rule = self.rule(self.made(start, 0, State::Line, end));
            let call = self.builder.call(rule);
            match end {
                State::Line | State::Ended => ways.push(call),
                // The last newline terminal is before the end of the output, at the first column.
                State::Broken => {
                    if let Some(indentation) = self.indentation(0, Next::End) {
                        ways.push(self.builder.sequence([call, indentation]));
                    }
                }
                State::Opened => {}
            }
        }
        if ways.is_empty() {
            return Err(empty(self.limits));
        }
        let body = self.builder.choice(ways);
        self.builder.define(whole, body);
        while let Some(made) = self.open.pop() {
            let body = self.body(made)?;
            let rule = self.rules[&made];
            self.builder.define(rule, body);
            if self.builder.size() > self.limits.nodes {
                return Err(GrammarError::TooManyNodes { limit: self.limits.nodes });
            }
        }
        self.builder.build(whole)
    }

    fn rule(&mut self, made: Made) -> RuleId {
        let (grammar, builder, open) = (self.grammar, &mut self.builder, &mut self.open);
        *self.rules.entry(made).or_insert_with(|| {
            open.push(made);
            match made {
                Made::Outside(rule, ..) | Made::Inside(rule) => builder.rule_like(grammar, rule),
                Made::Loop(..) => builder.rule("repetition"),
                Made::Block(..) | Made::Above(..) => builder.rule("block"),
            }
        })
    }

    fn call(&mut self, made: Made) -> ExprId {
        let rule = self.rule(made);
        self.builder.call(rule)
    }

    fn outside(&self, expr: ExprId, column: u32, from: State, to: State) -> Part {
        let column = if self.facts.is_by_column(expr, from) { column } else { ANY };
        Part::Outside(expr, column, from, to)
    }

    fn made(&self, rule: RuleId, column: u32, from: State, to: State) -> Made {
        let column = if self.facts.is_by_column(self.grammar.body(rule), from) { column } else { ANY };
        Made::Outside(rule, column, from, to)
    }

    fn rest(&self, repetition: ExprId, column: u32, from: State, to: State) -> Made {
        let column = if self.facts.is_by_column(repetition, from) { column } else { ANY };
        Made::Loop(repetition, column, from, to)
    }

    /// A part without a text.
    fn nothing(&mut self) -> ExprId {
        let builder = &mut self.builder;
        let rule = *self.nothing.get_or_insert_with(|| {
            let rule = builder.rule("nothing");
            let body = builder.call(rule);
            builder.define(rule, body);
            rule
        });
        self.builder.call(rule)
    }

    fn body(&mut self, made: Made) -> Result<ExprId, GrammarError> {
        Ok(match made {
            Made::Outside(rule, column, from, to) => {
                self.whole(self.outside(self.grammar.body(rule), column, from, to))?
            }
            Made::Inside(rule) => self.whole(Part::Inside(self.grammar.body(rule)))?,
            Made::Loop(repetition, column, from, to) => self.rounds(repetition, column, from, to)?,
            Made::Above(_, column, _) if column >= self.most => self.nothing(),
            Made::Above(block, column, to) => {
                let first = self.call(Made::Block(block, column + 1, to));
                let more = self.call(Made::Above(block, column + 1, to));
                self.builder.choice([first, more])
            }
            Made::Block(block, column, to) => self.block(block, column, to)?,
        })
    }

    /// A block: its items, and the indentation if the output ends.
    fn block(&mut self, block: usize, column: u32, to: State) -> Result<ExprId, GrammarError> {
        let facts = self.facts;
        let items = &facts.blocks[block];
        let inner = facts.through(self.grammar, items, State::Opened);
        let mut ways = vec![];
        for state in inner.iter() {
            let indents = match (state, to) {
                (State::Broken, State::Broken) | (State::Line | State::Ended, State::Ended) => false,
                (State::Broken | State::Opened, State::Ended) => true,
                _ => continue,
            };
            let own = self.sequence(items, column, State::Opened, state)?;
            if !indents {
                ways.push(own);
            } else if let Some(indentation) = self.indentation(column, Next::End) {
                ways.push(self.builder.sequence([own, indentation]));
            }
        }
        Ok(if ways.is_empty() { self.nothing() } else { self.builder.choice(ways) })
    }

    /// A part with all that it consists of. Parts precede their whole, and nothing recurses.
    fn whole(&mut self, whole: Part) -> Result<ExprId, GrammarError> {
        let mut open = vec![whole];
        while let Some(part) = open.last().copied() {
            if self.parts.contains_key(&part) {
                open.pop();
                continue;
            }
            let mut missing = vec![];
            match self.compose(part, &mut missing) {
                Some(made) => {
                    self.parts.insert(part, made);
                    open.pop();
                }
                None => open.append(&mut missing),
            }
            if self.builder.size() > self.limits.nodes {
                return Err(GrammarError::TooManyNodes { limit: self.limits.nodes });
            }
        }
        Ok(self.parts[&whole])
    }

    fn known(&self, part: Part, missing: &mut Vec<Part>) -> Option<ExprId> {
        let known = self.parts.get(&part).copied();
        if known.is_none() {
            missing.push(part);
        }
        known
    }

    /// The indentation of a column with the ignored text after it, before what is next; `None` if it has no text there.
    fn indentation(&mut self, column: u32, next: Next) -> Option<ExprId> {
        if let Some(known) = self.indentations.get(&(column, next)) {
            return *known;
        }
        let columns = self.columns;
        let mut ways = vec![];
        for Indentation { text, after } in &columns.indentations[column as usize] {
            let after = after.map(|after| &columns.afters[after]);
            if next != Next::End && after.is_some_and(|after| !after.goes_on) {
                continue;
            }
            let breaks = (next == Next::Break).then(|| self.breaks());
            let condition =
                after.map(|after| &after.texts).filter(|_| !matches!(next, Next::End | Next::Harmless));
            let Some((after, ignored)) = after.and_then(|after| Some((after, after.ignored.as_ref()?)))
            else {
                let condition = after.map(|after| &after.texts);
                let first = self.newline(text, condition);
                ways.push(self.builder.sequence([first, self.layout.ignored].into_iter().chain(breaks)));
                continue;
            };
            if next == Next::Break {
                for way in &after.breaks {
                    let parts = [self.newline(text, None), self.newline(&way.text, way.after.as_ref())];
                    ways.push(self.builder.sequence(parts));
                }
            } else {
                ways.push(self.newline(text, condition));
            }
            for way in ignored {
                let after = way.after.as_ref().filter(|_| next != Next::End);
                let parts = [self.newline(text, None), self.conditional("%ignore", &way.text, after)];
                ways.push(self.builder.sequence(parts.into_iter().chain(breaks)));
            }
        }
        let made = (!ways.is_empty()).then(|| self.builder.choice(ways));
        self.indentations.insert((column, next), made);
        made
    }

    /// A part of the newline terminal.
    fn newline(&mut self, text: &Arc<Dfa>, after: Option<&Arc<Dfa>>) -> ExprId {
        let grammar = self.grammar;
        self.conditional(grammar.terminal_name(self.layout.newline), text, after)
    }

    fn conditional(&mut self, name: &str, text: &Arc<Dfa>, after: Option<&Arc<Dfa>>) -> ExprId {
        let made = self.builder.shared_automaton(name, text);
        if let Some(after) = after {
            let condition = Condition { before: None, after: Some(Arc::clone(after)), at: self.layout.at };
            self.looks.insert(made, condition);
        }
        made
    }

    /// The newline terminal up to its last line feed.
    fn breaks(&mut self) -> ExprId {
        if let Some(made) = self.breaks {
            return made;
        }
        let made = self.newline(&self.columns.breaks, None);
        *self.breaks.insert(made)
    }

    /// `made` of the part `expr`, after the indentation if it is still to come.
    fn indented(&mut self, made: ExprId, expr: ExprId, column: u32, from: State) -> ExprId {
        if matches!(from, State::Line | State::Ended) {
            return made;
        }
        let is_harmless = self.facts.begins_in(expr, &self.columns.harmless);
        let next = if is_harmless { Next::Harmless } else { Next::Other };
        match self.indentation(column, next) {
            Some(indentation) => self.builder.sequence([indentation, made]),
            None => self.nothing(),
        }
    }

    fn compose(&mut self, part: Part, missing: &mut Vec<Part>) -> Option<ExprId> {
        let (expr, column, from, to) = match part {
            Part::Inside(expr) => return self.inside(expr, missing),
            Part::Outside(expr, column, from, to) => (expr, column, from, to),
        };
        let grammar = self.grammar;
        if expr == self.layout.ignored && from != State::Line {
            return Some(self.builder.empty());
        }
        if self.facts.is_flat(expr) {
            if from == to && from != State::Line {
                return Some(self.builder.empty());
            }
            if !self.facts.bracketed[expr.index()] {
                return Some(self.indented(expr, expr, column, from));
            }
            let same = self.outside(expr, ANY, State::Line, State::Line);
            if part != same {
                let known = self.known(same, missing)?;
                return Some(self.indented(known, expr, column, from));
            }
        }
        let is_newline = matches!(grammar.expr(expr), Expr::Terminal(_));
        if matches!(from, State::Broken | State::Opened) && self.facts.begins_with_text(expr) && !is_newline {
            let after = self.known(self.outside(expr, column, State::Line, to), missing)?;
            return Some(self.indented(after, expr, column, from));
        }
        match grammar.expr(expr) {
            Expr::Empty | Expr::Unordered(_) => Some(expr),
            Expr::Terminal(_) if self.facts.is_flat(expr) => Some(expr),
            // The newline terminal.
            Expr::Terminal(_) if from == State::Line => Some(self.breaks()),
            Expr::Terminal(_) => {
                Some(self.indentation(column, Next::Break).unwrap_or_else(|| self.nothing()))
            }
            Expr::Rule(rule) => Some(self.call(self.made(rule, column, from, to))),
            Expr::Choice(parts) => {
                let exits = |part: &&ExprId| self.facts.exits[part.index()][from as usize].has(to);
                let ways: Vec<Part> =
                    parts.iter().filter(exits).map(|part| self.outside(*part, column, from, to)).collect();
                let ways: Vec<ExprId> = ways.into_iter().filter_map(|way| self.known(way, missing)).collect();
                missing.is_empty().then(|| self.builder.choice(ways))
            }
            Expr::Sequence(_) => {
                let items = &self.facts.items[&expr];
                self.items(items, column, from, to, missing)
            }
            Expr::Repeat { item, min, max } => {
                self.repeat(expr, item, (min, max), (column, from, to), missing)
            }
        }
    }

    /// A part between brackets.
    fn inside(&mut self, expr: ExprId, missing: &mut Vec<Part>) -> Option<ExprId> {
        if expr == self.layout.ignored {
            return Some(self.layout.inside);
        }
        match self.grammar.expr(expr) {
            Expr::Empty | Expr::Unordered(_) | Expr::Terminal(_) => Some(expr),
            Expr::Rule(rule) => Some(self.call(Made::Inside(rule))),
            Expr::Sequence(parts) => {
                let made = parts.iter().filter_map(|part| self.known(Part::Inside(*part), missing));
                let made: Vec<ExprId> = made.collect();
                missing.is_empty().then(|| self.builder.sequence(made))
            }
            Expr::Choice(parts) => {
                let parts = parts.iter().filter(|part| self.facts.inside[part.index()]);
                let made: Vec<ExprId> =
                    parts.filter_map(|part| self.known(Part::Inside(*part), missing)).collect();
                missing.is_empty().then(|| self.builder.choice(made))
            }
            Expr::Repeat { item, .. } if !self.facts.inside[item.index()] => Some(self.builder.empty()),
            Expr::Repeat { item, min, max } => {
                let item = self.known(Part::Inside(item), missing)?;
                Some(self.builder.repeat(item, min, max))
            }
        }
    }

    fn sequence(
        &mut self,
        items: &[Item],
        column: u32,
        from: State,
        to: State,
    ) -> Result<ExprId, GrammarError> {
        loop {
            let mut missing = vec![];
            if let Some(made) = self.items(items, column, from, to, &mut missing) {
                return Ok(made);
            }
            for part in missing {
                self.whole(part)?;
            }
        }
    }

    /// A sequence of items from one state to another.
    fn items(
        &mut self,
        items: &[Item],
        column: u32,
        from: State,
        to: State,
        missing: &mut Vec<Part>,
    ) -> Option<ExprId> {
        let facts = self.facts;
        let (mut layers, mut levels) = (vec![States::of(from)], vec![0u32]);
        for (item, at) in items.iter().zip(0..) {
            layers.push(facts.after(self.grammar, *item, levels[at], layers[at]));
            levels.push(facts.level_after(self.grammar, *item, levels[at]));
        }
        let mut rest: HashMap<State, Option<ExprId>> = HashMap::from([(to, None)]);
        for (at, item) in items.iter().enumerate().rev() {
            let mut made = HashMap::new();
            for state in layers[at].iter() {
                let nexts = facts.after(self.grammar, *item, levels[at], States::of(state));
                let mut ways = vec![];
                let mut is_reached = false;
                for next in nexts.iter() {
                    let Some(rest) = rest.get(&next) else { continue };
                    is_reached = true;
                    let first = match *item {
                        Item::Part(expr) if levels[at] > 0 => self.known(Part::Inside(expr), missing),
                        Item::Part(expr) => self.known(self.outside(expr, column, state, next), missing),
                        Item::Block(block) => Some(self.call(Made::Above(block, column, next))),
                    };
                    let Some(first) = first.filter(|_| missing.is_empty()) else { continue };
                    ways.push(self.builder.sequence([first].into_iter().chain(*rest)));
                }
                if is_reached {
                    made.insert(state, missing.is_empty().then(|| self.builder.choice(ways)));
                }
            }
            rest = made;
        }
        if !missing.is_empty() {
            return None;
        }
        Some(rest[&from].unwrap_or_else(|| self.builder.empty()))
    }

    /// The states from which rounds of `item` lead to `to`.
    fn useful(&self, item: ExprId, to: State) -> States {
        let mut useful = States::of(to);
        loop {
            let leads = |from: &State| {
                self.facts.exits[item.index()][*from as usize].iter().any(|next| useful.has(next))
            };
            let more = State::ALL.into_iter().filter(leads).fold(useful, States::with);
            if more == useful {
                return useful;
            }
            useful = more;
        }
    }

    fn repeat(
        &mut self,
        expr: ExprId,
        item: ExprId,
        (min, max): (u32, Option<u32>),
        (column, from, to): (u32, State, State),
        missing: &mut Vec<Part>,
    ) -> Option<ExprId> {
        let facts = self.facts;
        let useful = self.useful(item, to);
        let exits = |state: State| facts.exits[item.index()][state as usize];
        for state in useful.iter() {
            for next in exits(state).iter().filter(|next| useful.has(*next)) {
                self.known(self.outside(item, column, state, next), missing);
            }
        }
        if !missing.is_empty() {
            return None;
        }
        let own = exits(from).iter().filter(|next| useful.has(*next)).fold(States::default(), States::with);
        if from == to && own == States::of(from) {
            let item = self.parts[&self.outside(item, column, from, from)];
            return Some(self.builder.repeat(item, min, max));
        }
        // By state: the rounds that are left; none if `to` is not reached in them.
        let mut rest: HashMap<State, ExprId> = HashMap::new();
        match max {
            None => {
                for state in useful.iter() {
                    let call = self.call(self.rest(expr, column, state, to));
                    rest.insert(state, call);
                }
            }
            Some(_) => {
                let empty = self.builder.empty();
                rest.insert(to, empty);
            }
        }
        for round in (0..max.unwrap_or(min)).rev() {
            let mut made = HashMap::new();
            for state in useful.iter() {
                let mut ways = vec![];
                if round >= min && state == to {
                    ways.push(self.builder.empty());
                }
                for next in exits(state).iter() {
                    if let Some(rest) = rest.get(&next) {
                        let first = self.parts[&self.outside(item, column, state, next)];
                        ways.push(self.builder.sequence([first, *rest]));
                    }
                }
                if !ways.is_empty() {
                    made.insert(state, self.builder.choice(ways));
                }
            }
            rest = made;
        }
        Some(rest[&from])
    }

    /// Any number of rounds from one state to another.
    fn rounds(&mut self, expr: ExprId, column: u32, from: State, to: State) -> Result<ExprId, GrammarError> {
        let Expr::Repeat { item, .. } = self.grammar.expr(expr) else { unreachable!("a repetition") };
        let useful = self.useful(item, to);
        let nexts = self.facts.exits[item.index()][from as usize];
        let mut ways = vec![];
        if from == to {
            ways.push(self.builder.empty());
        }
        let mut same = None;
        for next in nexts.iter().filter(|next| useful.has(*next)) {
            let first = self.whole(self.outside(item, column, from, next))?;
            if next == from {
                same = Some(self.builder.repeat(first, 0, None));
            } else {
                let rest = self.call(self.rest(expr, column, next, to));
                ways.push(self.builder.sequence([first, rest]));
            }
        }
        if ways.is_empty() {
            return Ok(self.nothing());
        }
        let rest = self.builder.choice(ways);
        Ok(self.builder.sequence(same.into_iter().chain([rest])))
    }
}
