//! The fate of everything that stands in the text of a grammar: enforced, passed over because it changes no text, or
//! refused. Nothing is dropped in silence, and this says so construct by construct.

use std::fmt;

use crate::{FindingKind, Grammar, GrammarError, GrammarFormat, GrammarLimits, Location, syntax};

/// What becomes of a construct.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Fate {
    /// Outputs follow it exactly.
    Enforced,
    /// Outputs follow it, and some values that it allows are none.
    Narrowed,
    /// It changes no text, or no output comes to it.
    Annotation,
    /// It makes the grammar unusable.
    Rejected,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforced => "enforced",
            Self::Narrowed => "narrowed",
            Self::Annotation => "annotation",
            Self::Rejected => "rejected",
        })
    }
}

/// A construct and its fate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explained {
    /// Where it stands, if that can be said.
    pub location: Option<Location>,
    /// What it is, such as ``rule `value` ``.
    pub construct: String,
    /// What becomes of it.
    pub fate: Fate,
    /// Why, in words.
    pub why: String,
}

impl Explained {
    pub(crate) fn new(
        location: Option<Location>,
        construct: impl Into<String>,
        fate: Fate,
        why: impl Into<String>,
    ) -> Self {
        Self { location, construct: construct.into(), fate, why: why.into() }
    }
}

/// The fate of every rule, terminal and directive of `text`, in the order of the text. Of a text that is no grammar, the
/// one construct that is refused first.
///
/// # Example
///
/// ```
/// use unskew_grammars::{Fate, GrammarFormat, GrammarLimits, explain};
///
/// let text = "start.2: INT -> number\nINT: /[0-9]+/\nother: INT";
/// let fates = explain(text, GrammarFormat::Lark, &GrammarLimits::default());
/// let fates: Vec<_> = fates.iter().map(|one| (one.construct.as_str(), one.fate)).collect();
/// assert_eq!(
///     fates,
///     [
///         ("rule `start`", Fate::Enforced),
///         ("a priority", Fate::Annotation),
///         ("an alias", Fate::Annotation),
///         ("terminal `INT`", Fate::Enforced),
///         ("rule `other`", Fate::Annotation),
///     ]
/// );
/// ```
pub fn explain(text: &str, format: GrammarFormat, limits: &GrammarLimits) -> Vec<Explained> {
    let syntax::Read { written, mut fates, .. } = match syntax::read(text, format, limits) {
        Ok(read) => read,
        Err(error) => return vec![refused(&error)],
    };
    fates.extend(rules(&written));
    fates.sort_by_key(|fate| fate.location);
    fates
}

fn refused(error: &GrammarError) -> Explained {
    let construct = match error {
        GrammarError::Terminal { name, .. } => format!("terminal `{name}`"),
        GrammarError::Syntax(_) => "syntax".to_owned(),
        _ => "grammar".to_owned(),
    };
    Explained::new(error.location(), construct, Fate::Rejected, error.to_string())
}

/// The fates of rules that stand in the text.
fn rules(grammar: &Grammar) -> Vec<Explained> {
    let analysis = grammar.analysis();
    let mut fates = vec![];
    for rule in grammar.rules() {
        // A rule without a place is one that a front end has added.
        let Some(location) = grammar.rule_place(rule) else { continue };
        let facts = analysis.rule(rule);
        let (fate, why) = match (facts.productive, facts.reachable) {
            _ if rule == grammar.start() && !facts.productive => {
                (Fate::Rejected, "it has no text, and whole outputs are made of it".to_owned())
            }
            (false, _) => (Fate::Annotation, "it never ends, so no output comes to it".to_owned()),
            (_, false) => (Fate::Annotation, "no output uses it".to_owned()),
            _ => {
                let kind = if facts.recursive { "recursive" } else { "not recursive" };
                (Fate::Enforced, format!("{} places, {kind}", facts.places))
            }
        };
        let construct = format!("rule `{}`", grammar.rule_name(rule));
        fates.push(Explained::new(Some(location), construct, fate, why));
    }
    for finding in analysis.findings() {
        let construct = match finding.kind {
            FindingKind::DeadAlternatives { .. } | FindingKind::RepeatedAlternatives { .. } => "alternatives",
            FindingKind::Cyclic => "a rule that stands for itself",
            // The rule itself says so.
            FindingKind::Unreachable | FindingKind::NeverEnds { .. } => continue,
        };
        fates.push(Explained::new(finding.location, construct, Fate::Annotation, finding.kind.to_string()));
    }
    fates
}
