//! `TagDispatch` and `TokenTagDispatch`: free text, and a rule after each trigger in it.
//!
//! ```text
//! root ::= TagDispatch(("<tool>", call), loop_after_dispatch=true, excludes=("</answer>",))
//! ```
//!
//! Free text is regular, so the construct becomes terminals and rules. For triggers T, excluded texts E and `any`
//! text in UTF-8:
//!
//! - *without*: `any` minus `any (T | E) any`;
//! - *first* t: the texts of `any T` that do not begin with a shorter one, of these those that end in t and in no
//!   longer trigger, minus `any E any`;
//! - the whole: `(first t rule | …)* without`, or without a loop `first t rule | … | without`.
//!
//! Where two triggers end together the longer one counts, as in XGrammar. A trigger that contains another one before
//! its end never fires and is an error. XGrammar lets either fire if one begins with the other, which its
//! documentation does not say.
//!
//! A token is a trigger by its id, so `TokenTagDispatch` is a choice of tokens.

use std::collections::{HashMap, HashSet};

use unskew_automata::Dialect;
use unskew_grammar::{SyntaxError, TokenSet};

use super::{
    Reader,
    calls::{Arguments, Is, Value, id},
};
use crate::syntax::{
    cursor::Cursor,
    tree::{Node, NodeId, Pattern},
};

/// The node of a `TagDispatch` at `at`.
pub(super) fn texts<'t>(
    reader: &mut Reader<'t>,
    mut arguments: Arguments<'t>,
    at: usize,
) -> Result<NodeId, SyntaxError> {
    let cursor = reader.cursor;
    let again = arguments.truth(&cursor, "loop_after_dispatch", true)?;
    let mut excludes = vec![];
    for value in tuple(&cursor, arguments.take("excludes"))? {
        excludes.push(text(&cursor, value)?.1);
    }
    // By trigger: its offset, its text, and its rules.
    let mut triggers: Vec<(usize, String, Vec<NodeId>)> = vec![];
    let mut known: HashMap<String, usize> = HashMap::new();
    for value in arguments.listed {
        let (trigger, rule) = pair(reader, value)?;
        let (at, trigger) = text(&cursor, trigger)?;
        match known.get(&trigger) {
            Some(known) => triggers[*known].2.push(rule),
            None => {
                known.insert(trigger.clone(), triggers.len());
                triggers.push((at, trigger, vec![rule]));
            }
        }
    }
    check(&cursor, &triggers, &excludes)?;
    let mut free = Free { reader, at };
    let begins: Vec<&str> = triggers.iter().map(|(_, text, _)| &**text).collect();
    let ends: Vec<&str> = begins.iter().copied().chain(excludes.iter().map(|text| &**text)).collect();
    let without = free.without(&ends);
    let mut alternatives = vec![];
    let any_first = free.any_first(&begins);
    let excluded = free.containing(&excludes);
    let ends_in: HashMap<&str, Vec<&str>> = suffixes(&begins);
    for (_, trigger, rules) in &triggers {
        let longer = ends_in.get(trigger.as_str()).map_or(&[][..], Vec::as_slice);
        let first = free.first(any_first, trigger, longer, excluded);
        let rules = free.reader.tree.choice(rules, at);
        alternatives.push(free.reader.tree.sequence(&[first, rules], at));
    }
    let tree = &mut reader.tree;
    Ok(match (alternatives.is_empty(), again) {
        (true, _) => without,
        (false, true) => {
            let one = tree.choice(&alternatives, at);
            let any = tree.push(Node::Repeat(one, 0, u32::MAX), at);
            tree.sequence(&[any, without], at)
        }
        (false, false) => {
            alternatives.push(without);
            tree.choice(&alternatives, at)
        }
    })
}

/// The node of a `TokenTagDispatch` at `at`.
pub(super) fn tokens<'t>(
    reader: &mut Reader<'t>,
    mut arguments: Arguments<'t>,
    at: usize,
) -> Result<NodeId, SyntaxError> {
    let cursor = reader.cursor;
    let again = arguments.truth(&cursor, "loop_after_dispatch", true)?;
    let mut excludes = vec![];
    for value in tuple(&cursor, arguments.take("excludes"))? {
        excludes.push(id(&cursor, &value)?);
    }
    let mut triggers = vec![];
    let mut alternatives = vec![];
    for value in arguments.listed {
        let (trigger, rule) = pair(reader, value)?;
        let token = id(&cursor, &trigger)?;
        if excludes.contains(&token) {
            return Err(cursor.invalid(trigger.at, format!("the token {token} is a trigger and excluded")));
        }
        let set = reader.tree.tokens(TokenSet::of_ids([(token, token)]), trigger.at);
        alternatives.push(reader.tree.sequence(&[set, rule], trigger.at));
        triggers.push(token);
    }
    let tree = &mut reader.tree;
    let others = TokenSet::of_ids(triggers.into_iter().chain(excludes).map(|id| (id, id))).complement();
    let others = tree.tokens(others, at);
    if again {
        alternatives.insert(0, others);
        let one = tree.choice(&alternatives, at);
        return Ok(tree.push(Node::Repeat(one, 0, u32::MAX), at));
    }
    let free = tree.push(Node::Repeat(others, 0, u32::MAX), at);
    alternatives.push(tree.literal(b"", at));
    let end = tree.choice(&alternatives, at);
    Ok(tree.sequence(&[free, end], at))
}

/// The values of a tuple; none if it is not given.
fn tuple<'t>(cursor: &Cursor<'_>, value: Option<Value<'t>>) -> Result<Vec<Value<'t>>, SyntaxError> {
    match value {
        None => Ok(vec![]),
        Some(Value { is: Is::Tuple(values), .. }) => Ok(values),
        Some(other) => Err(cursor.invalid(other.at, "`excludes` is a tuple, such as `(\"a\",)` or `(1, 2)`")),
    }
}

/// The trigger and the rule of a pair.
fn pair<'t>(reader: &mut Reader<'t>, value: Value<'t>) -> Result<(Value<'t>, NodeId), SyntaxError> {
    let wanted = "each argument is a pair of a trigger and the name of a rule, such as `(\"<tool>\", call)`";
    let Is::Tuple(pair) = value.is else { return Err(reader.cursor.invalid(value.at, wanted)) };
    let Ok([trigger, Value { is: Is::Name(rule), at }]) = <[Value<'t>; 2]>::try_from(pair) else {
        return Err(reader.cursor.invalid(value.at, wanted));
    };
    let name = reader.tree.intern(rule);
    Ok((trigger, reader.tree.push(Node::Name(name), at)))
}

/// A text with its offset.
fn text(cursor: &Cursor<'_>, value: Value<'_>) -> Result<(usize, String), SyntaxError> {
    match value.is {
        Is::Text(quoted) if !quoted.text.is_empty() => Ok((value.at, quoted.text)),
        _ => Err(cursor.invalid(
            value.at,
            "a trigger, or an excluded text, is a text in double quotes that is not empty",
        )),
    }
}

/// By trigger: the longer triggers that end in it.
fn suffixes<'s>(triggers: &[&'s str]) -> HashMap<&'s str, Vec<&'s str>> {
    let all: HashSet<&str> = triggers.iter().copied().collect();
    let mut ends: HashMap<&str, Vec<&str>> = HashMap::new();
    for trigger in triggers {
        for (at, _) in trigger.char_indices().skip(1).filter(|(at, _)| all.contains(&trigger[*at..])) {
            ends.entry(&trigger[at..]).or_default().push(trigger);
        }
    }
    ends
}

/// Checks that every trigger can be the first one, unless the triggers are very many. An automaton without texts is
/// an error too, and does not say why.
fn check(
    cursor: &Cursor<'_>,
    triggers: &[(usize, String, Vec<NodeId>)],
    excludes: &[String],
) -> Result<(), SyntaxError> {
    /// The comparisons that are made, times the length of the triggers.
    const MOST: usize = 20_000_000;
    let bytes: usize = triggers.iter().map(|(_, text, _)| text.len()).sum();
    if bytes.saturating_mul(triggers.len() + excludes.len()) > MOST {
        return Ok(());
    }
    for (at, trigger, _) in triggers {
        if let Some(excluded) = excludes.iter().find(|excluded| trigger.contains(excluded.as_str())) {
            return Err(cursor
                .invalid(*at, format!("the trigger {trigger:?} contains the excluded text {excluded:?}")));
        }
        let earlier =
            |other: &str| trigger.find(other).is_some_and(|found| found + other.len() < trigger.len());
        if let Some((_, other, _)) = triggers.iter().find(|(_, other, _)| earlier(other)) {
            let message =
                format!("the trigger {trigger:?} never fires, as {other:?} is a part of it and fires before");
            return Err(cursor.invalid(*at, message));
        }
    }
    Ok(())
}

/// Makes the nodes of free text.
struct Free<'r, 't> {
    reader: &'r mut Reader<'t>,
    at: usize,
}

impl Free<'_, '_> {
    fn any(&mut self) -> NodeId {
        let regex = "(?s).*".to_owned();
        self.reader.tree.regex(Pattern { regex, dialect: Dialect::Rust, added: None }, self.at)
    }

    /// One of `texts`.
    fn one_of(&mut self, texts: &[impl AsRef<str>]) -> NodeId {
        let tree = &mut self.reader.tree;
        let texts: Vec<NodeId> =
            texts.iter().map(|text| tree.literal(text.as_ref().as_bytes(), self.at)).collect();
        tree.choice(&texts, self.at)
    }

    /// Any text that ends in one of `texts`.
    fn ending(&mut self, texts: &[&str]) -> NodeId {
        let parts = [self.any(), self.one_of(texts)];
        self.reader.tree.sequence(&parts, self.at)
    }

    /// Any text of which one of `texts` is a part, if there are any.
    fn containing(&mut self, texts: &[impl AsRef<str>]) -> Option<NodeId> {
        if texts.is_empty() {
            return None;
        }
        let parts = [self.any(), self.one_of(texts), self.any()];
        Some(self.reader.tree.sequence(&parts, self.at))
    }

    fn without(&mut self, texts: &[&str]) -> NodeId {
        let any = self.any();
        match self.containing(texts) {
            Some(contains) => self.reader.tree.push(Node::Minus(any, contains), self.at),
            None => any,
        }
    }

    /// The texts that end in one of `triggers` and begin with no shorter one.
    fn any_first(&mut self, triggers: &[&str]) -> NodeId {
        let all = self.ending(triggers);
        self.reader.tree.push(Node::Shortest(all), self.at)
    }

    /// The texts of `any_first` that end in `trigger`, in none of `longer`, and that are not `excluded`.
    fn first(
        &mut self,
        any_first: NodeId,
        trigger: &str,
        longer: &[&str],
        excluded: Option<NodeId>,
    ) -> NodeId {
        let own = self.ending(&[trigger]);
        let mut first = self.reader.tree.push(Node::And(any_first, own), self.at);
        if !longer.is_empty() {
            let longer = self.ending(longer);
            first = self.reader.tree.push(Node::Minus(first, longer), self.at);
        }
        match excluded {
            Some(excluded) => self.reader.tree.push(Node::Minus(first, excluded), self.at),
            None => first,
        }
    }
}
