//! Enumerates all short words of a grammar and all short prefixes of words, by the definition: the least sets
//! of texts that satisfy the rules.

use std::collections::{BTreeMap, BTreeSet};

use unskew_grammar::{Expr, ExprId, Grammar, RuleId, Terminal};

use super::oracle::fits;

type Texts = BTreeSet<Vec<u8>>;

/// The short texts of a rule or an expression.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Short {
    /// The words within the bound on the length.
    pub(crate) words: Texts,
    /// The prefixes of words of any length, within the bound on the length. Empty if and only if there is no word.
    pub(crate) prefixes: Texts,
}

/// The words and prefixes of at most `longest` bytes. For grammars without control tokens, with automata over
/// few bytes.
pub(crate) fn short(grammar: &Grammar, longest: usize) -> Short {
    let mut rules = vec![Short::default(); grammar.rules().len()];
    loop {
        let next: Vec<Short> =
            grammar.rules().map(|rule| short_of(grammar, grammar.body(rule), &rules, longest)).collect();
        if next == rules {
            return rules.swap_remove(grammar.start().index());
        }
        rules = next;
    }
}

fn short_of(grammar: &Grammar, expr: ExprId, rules: &[Short], longest: usize) -> Short {
    let part = |part: &ExprId| short_of(grammar, *part, rules, longest);
    match grammar.expr(expr) {
        Expr::Empty => empty(),
        Expr::Rule(rule) => rules[rule.index()].clone(),
        Expr::Terminal(terminal) => match &super::oracle::plain(grammar.terminal(terminal)) {
            Terminal::Literal(text) => Short {
                words: Texts::from([text.to_vec()])
                    .into_iter()
                    .filter(|text| text.len() <= longest)
                    .collect(),
                prefixes: (0..=text.len().min(longest)).map(|len| text[..len].to_vec()).collect(),
            },
            Terminal::Automaton(dfa) => {
                let mut found = Short::default();
                let mut open = vec![(Vec::new(), dfa.start())];
                while let Some((text, state)) = open.pop() {
                    if text.len() < longest {
                        let nexts = (0..=255).filter_map(|byte| Some((byte, dfa.step(state, byte)?)));
                        open.extend(nexts.map(|(byte, next)| ([&text[..], &[byte]].concat(), next)));
                    }
                    if dfa.is_accepting(state) {
                        found.words.insert(text.clone());
                    }
                    // Every state of a DFA reaches an accepting one.
                    found.prefixes.insert(text);
                }
                found
            }
            other => panic!("no words of {other:?}"),
        },
        Expr::Sequence(parts) => {
            parts.iter().map(part).fold(empty(), |left, right| left.then(&right, longest))
        }
        Expr::Choice(parts) => parts.iter().map(part).fold(Short::default(), Short::or),
        Expr::Repeat { item, min, max } => {
            let item = part(&item);
            let mut exactly = (0..min).fold(empty(), |before, _| before.then(&item, longest));
            let mut all = exactly.clone();
            // More repetitions than bytes yield no new text. One further repetition contributes prefixes that
            // begin at the last byte.
            for _ in 0..max.map_or(longest + 1, |max| (longest + 1).min((max - min) as usize)) {
                exactly = exactly.then(&item, longest);
                all = all.or(exactly.clone());
            }
            all
        }
        Expr::Unordered(group) => {
            // By the definition: every sequence of members and others within the bounds, in every order.
            // Sequences with the same members are merged, regardless of their order. No member is nullable,
            // so longer sequences have no short words, and no prefixes that shorter ones lack.
            let mut all = Short::default();
            let mut lists: BTreeMap<Vec<bool>, Short> =
                BTreeMap::from([(vec![false; group.members.len()], empty())]);
            for count in 0..=u32::try_from(longest + group.members.len()).unwrap() + group.min {
                let mut longer: BTreeMap<Vec<bool>, Short> = BTreeMap::new();
                for (read, texts) in lists {
                    let is_whole =
                        group.members.iter().zip(&read).all(|((_, required), read)| *read || !required)
                            && group.choices.iter().all(|choice| fits(choice, |at| read[at as usize]));
                    if is_whole && count >= group.min && group.max.is_none_or(|max| count <= max) {
                        all = all.or(texts.clone());
                    }
                    let before = match group.separator.filter(|_| count > 0) {
                        Some(separator) => texts.then(&rules[separator.index()], longest),
                        None => texts,
                    };
                    let mut add = |read: Vec<bool>, rule: RuleId| {
                        let texts = before.then(&rules[rule.index()], longest);
                        let known = longer.entry(read).or_default();
                        *known = std::mem::take(known).or(texts);
                    };
                    for (at, (member, _)) in group.members.iter().enumerate().filter(|(at, _)| !read[*at]) {
                        let mut read = read.clone();
                        read[at] = true;
                        add(read, *member);
                    }
                    group.others.iter().for_each(|others| add(read.clone(), *others));
                }
                lists = longer;
                lists.retain(|_, texts| !texts.prefixes.is_empty());
            }
            all
        }
    }
}

fn empty() -> Short {
    Short { words: Texts::from([Vec::new()]), prefixes: Texts::from([Vec::new()]) }
}

impl Short {
    fn or(mut self, other: Self) -> Self {
        self.words.extend(other.words);
        self.prefixes.extend(other.prefixes);
        self
    }

    /// Concatenates this and `next`. If either has no word, the result has none.
    fn then(&self, next: &Self, longest: usize) -> Self {
        if self.prefixes.is_empty() || next.prefixes.is_empty() {
            return Self::default();
        }
        let joined = |right: &Texts| -> Texts {
            let pairs =
                self.words.iter().flat_map(|left| right.iter().map(move |right| [&left[..], right].concat()));
            pairs.filter(|text| text.len() <= longest).collect()
        };
        let mut prefixes = joined(&next.prefixes);
        prefixes.extend(self.prefixes.iter().cloned());
        Self { words: joined(&next.words), prefixes }
    }
}
