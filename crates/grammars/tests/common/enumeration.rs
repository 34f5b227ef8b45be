//! All short words of a grammar, by the definition: the least sets of texts that satisfy the rules.

use std::collections::BTreeSet;

use unskew_grammars::{Expr, ExprId, Grammar, Terminal};

type Words = BTreeSet<Vec<u8>>;

/// The words of at most `longest` bytes. For grammars without control tokens, and automata over few bytes.
pub(crate) fn words(grammar: &Grammar, longest: usize) -> Words {
    let mut rules: Vec<Words> = vec![Words::new(); grammar.rules().len()];
    loop {
        let next: Vec<Words> =
            grammar.rules().map(|rule| words_of(grammar, grammar.body(rule), &rules, longest)).collect();
        if next == rules {
            return rules.swap_remove(grammar.start().index());
        }
        rules = next;
    }
}

fn words_of(grammar: &Grammar, expr: ExprId, rules: &[Words], longest: usize) -> Words {
    let part = |part: &ExprId| words_of(grammar, *part, rules, longest);
    match grammar.expr(expr) {
        Expr::Empty => empty(),
        Expr::Rule(rule) => rules[rule.index()].clone(),
        Expr::Terminal(terminal) => match grammar.terminal(terminal) {
            Terminal::Literal(text) => {
                Words::from([text.to_vec()]).into_iter().filter(|text| text.len() <= longest).collect()
            }
            Terminal::Automaton(dfa) => {
                let mut found = Words::new();
                let mut open = vec![(Vec::new(), dfa.start())];
                while let Some((text, state)) = open.pop() {
                    if text.len() < longest {
                        let nexts = (0..=255).filter_map(|byte| Some((byte, dfa.step(state, byte)?)));
                        open.extend(nexts.map(|(byte, next)| ([&text[..], &[byte]].concat(), next)));
                    }
                    if dfa.is_accepting(state) {
                        found.insert(text);
                    }
                }
                found
            }
            other => panic!("no words of {other:?}"),
        },
        Expr::Sequence(parts) => {
            parts.iter().map(part).fold(empty(), |left, right| joined(&left, &right, longest))
        }
        Expr::Choice(parts) => parts.iter().flat_map(part).collect(),
        Expr::Repeat { item, min, max } => {
            let item = part(&item);
            let mut exactly = (0..min).fold(empty(), |words, _| joined(&words, &item, longest));
            let mut all = exactly.clone();
            // Beyond as many as there are bytes, more of them yields nothing new.
            let more = max.map_or(longest, |max| longest.min((max - min) as usize));
            for _ in 0..more {
                exactly = joined(&exactly, &item, longest);
                all.extend(exactly.iter().cloned());
            }
            all
        }
        other => panic!("no words of {other:?}"),
    }
}

fn empty() -> Words {
    Words::from([Vec::new()])
}

fn joined(left: &Words, right: &Words, longest: usize) -> Words {
    let pairs = left.iter().flat_map(|left| right.iter().map(move |right| [&left[..], right].concat()));
    pairs.filter(|text| text.len() <= longest).collect()
}
