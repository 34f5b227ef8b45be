//! Reports the fate of every construct in the text of a grammar: enforced, an annotation that changes no
//! text, or rejected.
//!
//! Invariant 6 of the workspace is that no construct is ignored silently. This report lets a user check that,
//! construct by construct.

use unskew_grammar::{Fate, FindingKind, Grammar, GrammarError, GrammarLimits, Location};

use crate::{GrammarFormat, GrammarOptions, syntax};

/// A construct and its fate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explained {
    /// The location of the construct, if it is known.
    pub location: Option<Location>,
    /// The construct in words, such as ``rule `value` ``.
    pub construct: String,
    /// The fate of the construct.
    pub fate: Fate,
    /// The reason, in words.
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

/// Returns the fate of every rule, terminal and directive of `text`, in the order of the text. If `text` is
/// no grammar, the result is the first construct that is rejected. Cost: that of [`parse`](crate::parse) and of
/// [`Grammar::analysis`].
///
/// # Example
///
/// ```
/// use unskew_grammar::{Fate, GrammarLimits};
/// use unskew_notation::{GrammarFormat, GrammarOptions, explain};
///
/// let text = "start.2: INT -> number\nINT: /[0-9]+/\nother: INT";
/// let fates = explain(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default());
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
pub fn explain(
    text: &str,
    format: GrammarFormat,
    options: &GrammarOptions,
    limits: &GrammarLimits,
) -> Vec<Explained> {
    let syntax::Read { written, mut fates, .. } = match syntax::read(text, format, options, limits) {
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

/// The fates of the rules that the text defines.
fn rules(grammar: &Grammar) -> Vec<Explained> {
    let analysis = grammar.analysis();
    let mut fates = vec![];
    for rule in grammar.rules() {
        // A rule without a location was added by a front end.
        let Some(location) = grammar.rule_location(rule) else { continue };
        let facts = analysis.rule(rule);
        let (fate, why) = match (facts.productive, facts.reachable) {
            _ if rule == grammar.start() && !facts.productive => {
                (Fate::Rejected, "the start rule has no text".to_owned())
            }
            (false, _) => (Fate::Annotation, "it never ends, so no output uses it".to_owned()),
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
            // The entry of the rule reports these.
            FindingKind::Unreachable | FindingKind::NeverEnds { .. } => continue,
            FindingKind::Cyclic => "a rule that derives itself",
            _ => "a rule",
        };
        fates.push(Explained::new(finding.location, construct, Fate::Annotation, finding.kind.to_string()));
    }
    fates
}
