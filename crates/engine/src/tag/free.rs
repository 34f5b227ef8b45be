//! Free text, up to a trigger and around texts that it may not contain.
//!
//! Both are regular: a text whose first trigger is at its end, and a text without any. They are made by operations on
//! automata and are one terminal each, so a mask knows nothing of them, and a trigger that several tokens spell is
//! found as any text is.
//!
//! With `any` for all texts in UTF-8:
//!
//! - *without* K: `any` minus `any K any`;
//! - *first* t, of triggers T: the texts of `any T` that do not begin with a shorter one, of these those that end in
//!   t and in no longer trigger, minus `any E any` for the excluded texts E.
//!
//! Where two triggers end together the longer one counts, as in the automaton of Aho and Corasick that other engines
//! take. A trigger that begins with a shorter one is never the first: it would never fire, and is refused.

use std::{collections::HashMap, sync::Arc};

use unskew_automata::{
    Dfa, Limits, Pattern, RegexError,
    dfa::{DfaAlgebra, Edge},
};
use unskew_schema::ElementStyle;

/// A trigger: all triggers, the excluded texts, and which of the triggers it is.
type Trigger = (Vec<String>, Vec<String>, usize);

/// Makes automata of free text, each once.
pub(super) struct Free {
    dfas: DfaAlgebra,
    any: Option<Arc<Dfa>>,
    without: HashMap<Vec<String>, Arc<Dfa>>,
    first: HashMap<Trigger, Option<Arc<Dfa>>>,
}

/// All texts, which are in UTF-8.
const ANY: &str = "(?s:.*)";

/// The inside of a string of JSON.
const INSIDE: &str = r#"(?s:[^"\\]|\\.)*"#;

impl Free {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { dfas: DfaAlgebra::new(limits), any: None, without: HashMap::new(), first: HashMap::new() }
    }

    pub(super) fn any(&mut self) -> Result<Arc<Dfa>, RegexError> {
        if self.any.is_none() {
            self.any = Some(Arc::new(self.dfas.pattern(ANY)?));
        }
        Ok(Arc::clone(self.any.as_ref().expect("it is made")))
    }

    /// The texts that match `pattern` as a whole.
    pub(super) fn pattern<'t>(&mut self, pattern: impl Into<Pattern<'t>>) -> Result<Dfa, RegexError> {
        self.dfas.pattern(pattern)
    }

    /// The texts that both accept; `None` if there is none.
    pub(super) fn both(&mut self, left: &Dfa, right: &Dfa) -> Result<Option<Dfa>, RegexError> {
        some(self.dfas.intersection(left, right))
    }

    /// The rests of the texts of `dfa` behind `beginning`; `None` if some text does not begin with it.
    pub(super) fn behind(&mut self, dfa: &Dfa, beginning: &str) -> Result<Option<Dfa>, RegexError> {
        let mut at = dfa.start();
        for byte in beginning.bytes() {
            let is_only = |edge: Edge| edge.bytes == (byte..=byte);
            if dfa.is_accepting(at) || !dfa.edges(at).all(is_only) {
                return Ok(None);
            }
            let Some(next) = dfa.step(at, byte) else { return Ok(None) };
            at = next;
        }
        self.dfas.left_quotient(dfa, at).map(Some)
    }

    /// Texts of which none of `excluded`, all of which have a text, is a part. There is always the empty one.
    pub(super) fn without(&mut self, excluded: &[String]) -> Result<Arc<Dfa>, RegexError> {
        let any = self.any()?;
        let excluded = sorted(excluded);
        if excluded.is_empty() {
            return Ok(any);
        }
        if let Some(known) = self.without.get(&excluded) {
            return Ok(Arc::clone(known));
        }
        let texts = self.dfas.literals(&excluded)?;
        let contains = self.dfas.concatenation([&*any, &texts, &any])?;
        let without = Arc::new(self.dfas.difference(&any, &contains)?);
        self.without.insert(excluded, Arc::clone(&without));
        Ok(without)
    }

    /// JSON, or a part of it that cuts through no string, of which no string has one of `excluded` between its
    /// quotes, as it is written. With a style, also the strings of its elements, and its marks.
    pub(super) fn strings_without(
        &mut self,
        excluded: &[String],
        style: Option<&ElementStyle>,
    ) -> Result<Dfa, RegexError> {
        let any = self.any()?;
        let inside = self.dfas.pattern(INSIDE)?;
        let texts = self.dfas.literals(excluded)?;
        let contains = self.dfas.concatenation([&*any, &texts, &any])?;
        let inside = self.dfas.difference(&inside, &contains)?;
        let (quote, outside) = (self.dfas.literals(["\""])?, self.dfas.pattern("[^\"]*")?);
        let unit = self.dfas.concatenation([&quote, &inside, &quote, &outside])?;
        let units = self.dfas.repetition(&unit, 0, None)?;
        let json = self.dfas.concatenation([&outside, &units])?;
        let Some(style) = style else { return Ok(json) };
        // No JSON begins like the mark of an element, and strings in elements have none of the texts already.
        let marked = self.dfas.pattern("[<>\\]](?s:.*)")?;
        let without = self.without(excluded)?;
        let (_, behind) = style.before.split_once("{name}").unwrap_or_default();
        let behind = style.types.iter().map(|(_, word)| behind.replace("{type}", word));
        let marks = behind.flat_map(|behind| [behind.clone() + style.begin, behind]);
        let marks = marks.chain([style.begin.to_owned()]).filter(|mark| !mark.is_empty());
        let marks = self.dfas.literals(marks)?;
        self.dfas.union([&json, &marked, &*without, &marks])
    }

    /// Texts whose first trigger is `triggers[which]`, at the end, and that contain none of `excluded`; `None` if
    /// there is none.
    pub(super) fn first(
        &mut self,
        triggers: &[String],
        which: usize,
        excluded: &[String],
    ) -> Result<Option<Arc<Dfa>>, RegexError> {
        let key = (triggers.to_vec(), sorted(excluded), which);
        if let Some(known) = self.first.get(&key) {
            return Ok(known.clone());
        }
        let made = self.make_first(triggers, which, &key.1)?.map(Arc::new);
        self.first.insert(key, made.clone());
        Ok(made)
    }

    fn make_first(
        &mut self,
        triggers: &[String],
        which: usize,
        excluded: &[String],
    ) -> Result<Option<Dfa>, RegexError> {
        let any = self.any()?;
        let ending = |dfas: &mut DfaAlgebra, texts: &[&String]| {
            let texts = dfas.literals(texts)?;
            dfas.concatenation([&*any, &texts])
        };
        let all = ending(&mut self.dfas, &triggers.iter().collect::<Vec<_>>())?;
        let mut first = self.dfas.prefix_free(&all)?;
        let trigger = &triggers[which];
        if triggers.len() > 1 {
            let own = ending(&mut self.dfas, &[trigger])?;
            let Some(of_own) = some(self.dfas.intersection(&first, &own))? else { return Ok(None) };
            first = of_own;
        }
        let is_longer = |other: &&String| other.len() > trigger.len() && other.ends_with(trigger.as_str());
        let longer: Vec<&String> = triggers.iter().filter(is_longer).collect();
        if !longer.is_empty() {
            let longer = ending(&mut self.dfas, &longer)?;
            let Some(left) = some(self.dfas.difference(&first, &longer))? else { return Ok(None) };
            first = left;
        }
        if excluded.is_empty() {
            return Ok(Some(first));
        }
        let without = self.without(excluded)?;
        some(self.dfas.intersection(&first, &without))
    }
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// `None` for no text.
fn some(made: Result<Dfa, RegexError>) -> Result<Option<Dfa>, RegexError> {
    match made {
        Ok(dfa) => Ok(Some(dfa)),
        Err(RegexError::MatchesNothing) => Ok(None),
        Err(error) => Err(error),
    }
}
