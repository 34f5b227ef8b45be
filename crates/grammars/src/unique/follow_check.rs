//! The check that the byte after a key shows its end.
//!
//! The key makes a difference to the end of its scope. If it may end at several points, each of them leaves another
//! set of used keys, and no two of these sets are one state: `abcd`, cut into keys of `[a-z]+`, has eight. To decide
//! whether a text can be cut into parts of which no two are equal is NP-complete (Condon, Manuch, Thachuk,
//! "Complexity of a collision-aware string partition problem and its relation to oligo design for gene synthesis",
//! 2008), so no way of keeping these sets helps. Hence a grammar is refused if a key may end before a byte that it
//! may also read. Names in quotes never do, nor numbers before a comma.
//!
//! The bytes after a key are those [near](unskew_grammar::kit::near) it. All callers of a rule are taken together, so a
//! rule may be refused because of the followers of another call.
//!
//! Tried instead: a limit on the number of sets by which the hypotheses of a text may differ. Beyond it a token is
//! refused that is in the mask, or the mask would have to read every token; and by then a text of a dozen letters has
//! taken seconds.

use hashbrown::HashMap;
use unskew_grammar::{
    Expr, Grammar, GrammarError, Terminal, TerminalId,
    kit::{
        fixpoint::productive_and_nullable,
        near::{Side, near},
        terminal::reading::first_bytes,
    },
};
use unskew_trie::ByteSet;

use crate::network::extending::extending;

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
    let (_, nullable) = productive_and_nullable(grammar);
    let after = near(grammar, Side::After, &nullable, |expr| match grammar.expr(expr) {
        Expr::Terminal(terminal) => Some(first_bytes(grammar.terminal(terminal))),
        _ => None,
    });
    for expr in grammar.expression_ids() {
        let Expr::Terminal(terminal) = grammar.expr(expr) else { continue };
        let Some(going_on) = going_on.get(&terminal) else { continue };
        let both = after[expr.index()].and(going_on);
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
    use unskew_grammar::{ExprId, GrammarBuilder, GrammarLimits};

    use super::*;

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
