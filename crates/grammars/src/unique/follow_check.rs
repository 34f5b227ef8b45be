//! The check that the byte after a key shows its end.
//!
//! The key makes a difference to the end of its scope. If it may end at several points, each of them leaves another
//! set of used keys, and no two of these sets are one state: `abcd`, cut into keys of `[a-z]+`, has eight. To decide
//! whether a text can be cut into parts of which no two are equal is NP-complete (Condon, Manuch, Thachuk,
//! "Complexity of a collision-aware string partition problem and its relation to oligo design for gene synthesis",
//! 2008), so no way of keeping these sets helps. Hence a grammar is refused if a key may end before a byte that it
//! may also read. Names in quotes never do, nor numbers before a comma.
//!
//! The bytes after a key are found as FOLLOW sets (Aho, Sethi, Ullman, "Compilers", 1986, section 4.4). All callers
//! of a rule are taken together, so a rule may be refused because of the followers of another call. Each set of bytes
//! is a node, each inclusion an edge, and bytes are passed along the edges until nothing is new: O(n) for n
//! expressions, because the number of bytes is bounded.
//!
//! Tried instead: a limit on the number of sets by which the hypotheses of a text may differ. Beyond it a token is
//! refused that is in the mask, or the mask would have to read every token; and by then a text of a dozen letters has
//! taken seconds.

use hashbrown::HashMap;
use unskew_trie::ByteSet;

use crate::{
    GrammarError,
    grammar::{
        data::{Expr, ExprId, Grammar, Terminal, TerminalId},
        fixpoint::productive_and_nullable,
    },
    ids::{Table, id},
    network::terminals::first_bytes,
    terminal::extending::extending,
};

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

/// The FIRST and the FOLLOW set of an expression.
#[derive(Clone, Copy)]
struct Ends {
    first: SetId,
    follow: SetId,
}

/// Finds the sets of the expressions that the start rule reaches.
struct Finder<'g> {
    grammar: &'g Grammar,
    nullable: Vec<bool>,
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
        let ends = Ends { first: self.sets.add(), follow: self.sets.add() };
        self.ends[expr.index()] = Some(ends);
        self.open.push(expr);
        ends
    }

    /// A text of `part` is a text of `whole`.
    fn stands_for(&mut self, part: ExprId, whole: Ends) {
        if self.productive[part.index()] {
            let part = self.ends(part);
            self.sets.include(part.first, whole.first);
            self.sets.include(whole.follow, part.follow);
        }
    }

    /// Adds the inclusions between the sets of `expr` and those of its parts.
    fn look(&mut self, expr: ExprId, ends: Ends) {
        let grammar = self.grammar;
        match grammar.expr(expr) {
            Expr::Empty => {}
            Expr::Terminal(terminal) => {
                self.sets.bytes[ends.first] = first_bytes(grammar.terminal(terminal));
            }
            Expr::Rule(rule) => self.stands_for(grammar.body(rule), ends),
            Expr::Choice(parts) => parts.iter().for_each(|part| self.stands_for(*part, ends)),
            Expr::Repeat { item, max, .. } => {
                self.stands_for(item, ends);
                if let Some(item) = self.ends[item.index()].filter(|_| max != Some(1)) {
                    self.sets.include(item.first, item.follow);
                }
            }
            Expr::Sequence(parts) => {
                for part in parts {
                    let first = self.ends(*part).first;
                    self.sets.include(first, ends.first);
                    if !self.nullable[part.index()] {
                        break;
                    }
                }
                let mut behind = ends.follow;
                for part in parts.iter().rev() {
                    let Ends { first, follow } = self.ends(*part);
                    self.sets.include(behind, follow);
                    let here = self.sets.add();
                    self.sets.include(first, here);
                    if self.nullable[part.index()] {
                        self.sets.include(behind, here);
                    }
                    behind = here;
                }
            }
            Expr::Unordered(group) => {
                let rules = group.members.iter().map(|(rule, _)| *rule).chain(group.others);
                for rule in rules.clone() {
                    self.stands_for(grammar.body(rule), ends);
                }
                // After a member comes the separator, or, if there is none, another member.
                let between = self.sets.add();
                let separator = group.separator.map(|rule| grammar.body(rule));
                if separator.is_none_or(|separator| self.nullable[separator.index()]) {
                    self.sets.include(ends.first, between);
                }
                if let Some(separator) = separator.filter(|separator| self.productive[separator.index()]) {
                    let Ends { first, follow } = self.ends(separator);
                    self.sets.include(first, between);
                    self.sets.include(ends.first, follow);
                }
                for rule in rules {
                    if let Some(member) = self.ends[grammar.body(rule).index()] {
                        self.sets.include(between, member.follow);
                    }
                }
            }
        }
    }
}

/// Checks that the byte after each key shows its end.
///
/// # Errors
///
/// [`GrammarError::AmbiguousEnd`].
pub(crate) fn check(grammar: &Grammar) -> Result<(), GrammarError> {
    // By terminal: the bytes that a key may read where it may also end.
    let mut going_on: HashMap<TerminalId, ByteSet> = HashMap::new();
    for terminal in grammar.terminals() {
        if let Terminal::Distinct(difference) = grammar.terminal(terminal) {
            going_on.insert(terminal, extending(difference.base()));
        }
    }
    going_on.retain(|_, bytes| !bytes.is_empty());
    if going_on.is_empty() {
        return Ok(());
    }
    let (productive, nullable) = productive_and_nullable(grammar);
    let mut finder = Finder {
        grammar,
        nullable,
        productive,
        sets: Inclusions::default(),
        ends: vec![None; grammar.expressions()],
        open: Vec::new(),
    };
    finder.ends(grammar.body(grammar.start()));
    while let Some(expr) = finder.open.pop() {
        let ends = finder.ends(expr);
        finder.look(expr, ends);
    }
    let sets = finder.sets.settle();
    for expr in grammar.expression_ids() {
        let (Expr::Terminal(terminal), Some(ends)) = (grammar.expr(expr), finder.ends[expr.index()]) else {
            continue;
        };
        let Some(going_on) = going_on.get(&terminal) else { continue };
        let both = sets[ends.follow].and(going_on);
        if let Some(byte) = both.iter().next() {
            return Err(GrammarError::AmbiguousEnd {
                name: grammar.terminal_name(terminal).to_owned(),
                byte,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unskew_automata::{Dfa, Limits};

    use super::*;
    use crate::{GrammarBuilder, GrammarLimits};

    /// The byte for which a grammar is refused, if it is. `body` builds its start rule from a terminal of keys of
    /// this pattern.
    fn said(pattern: &str, body: impl FnOnce(&mut GrammarBuilder, ExprId) -> ExprId) -> Option<u8> {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let dfa = Arc::new(Dfa::from_pattern(pattern, &Limits::default()).unwrap());
        let text = builder.distinct("text", &dfa, [""; 0], None).unwrap();
        let start = builder.rule("start");
        let body = body(&mut builder, text);
        builder.define(start, body);
        match check(&builder.build(start).unwrap()) {
            Ok(()) => None,
            Err(GrammarError::AmbiguousEnd { name, byte }) => {
                assert_eq!(name, "text");
                Some(byte)
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn many(builder: &mut GrammarBuilder, text: ExprId) -> ExprId {
        builder.repeat(text, 0, None)
    }

    #[test]
    fn what_goes_on_may_not_follow() {
        for (pattern, expected) in
            [("[b-z]+", Some(b'b')), ("[a-z]+;", None), ("a[b-z]*", None), ("[ab]+c", None)]
        {
            assert_eq!(said(pattern, many), expected, "{pattern}");
        }
        // No byte follows.
        assert_eq!(said("[a-z]+", |_, text| text), None);
        assert_eq!(said("[a-z]+", GrammarBuilder::optional), None);
    }

    #[test]
    fn separators_tell_ends_apart() {
        let list = |separator: &'static str| {
            said("[a-z]+", move |builder, text| {
                let separator = builder.literal(separator);
                let more = builder.sequence([separator, text]);
                let more = builder.repeat(more, 0, None);
                builder.sequence([text, more])
            })
        };
        assert_eq!(list(", "), None);
        assert_eq!(list("x"), Some(b'x'));
    }

    #[test]
    fn what_may_be_empty_is_looked_through() {
        let behind = |pattern: &'static str, last: &'static str| {
            said("[a-z]+", move |builder, text| {
                let space = builder.regex("space", pattern).unwrap();
                let last = builder.literal(last);
                let rule = builder.rule("rule");
                let body = builder.sequence([text, space]);
                builder.define(rule, body);
                let call = builder.call(rule);
                builder.sequence([call, space, last])
            })
        };
        assert_eq!(behind(" *", "q"), Some(b'q'));
        assert_eq!(behind(" +", "q"), None);
        assert_eq!(behind(" *", "."), None);
    }

    #[test]
    fn members_in_any_order_follow_each_other() {
        let group = |separator: Option<&'static str>| {
            said("[a-z]+", move |builder, text| {
                let other = builder.literal("b");
                let separator = separator.map(|separator| builder.literal(separator));
                builder.unordered([(text, true), (other, false)], None, separator, 0, None)
            })
        };
        assert_eq!(group(None), Some(b'a'));
        assert_eq!(group(Some(",")), None);
        assert_eq!(group(Some("d,")), Some(b'd'));
    }
}
