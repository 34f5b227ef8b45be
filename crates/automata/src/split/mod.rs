//! Where a tokenizer splits text, as one deterministic automaton over *marked text*: text with a mark at each boundary
//! between two pieces.
//!
//! The token sequences that an encoder writes are those whose pieces lie where its pre-tokenizer splits. That is a
//! property of the whole text (a space belongs to what follows, unless nothing does), so an engine that walks over
//! tokens needs an automaton that follows all open questions at once. This one accepts a text exactly when it carries
//! the marks that the pre-tokenizer sets, and no others.
//!
//! ```text
//! pattern --pattern--> tree --nfa--> NFA with priorities --determinize--> Marked --marked: steps in sequence, smallest-->
//!     Marked --bytes, with the decision tree of utf8--> SplitDfa
//! ```
//!
//! Everything up to the last stage runs over *atoms* (`chars`), classes of characters that no pattern tells apart.
//!
//! The meaning is that of the `tokenizers` library with `fancy-regex`: matches are found from left to right, at each
//! place the first one in the order of backtracking; a step splits each piece of the step before as if it were a text.
//! What has no exact automaton here is a [`SplitError`].
//!
//! Not done instead: recognising the patterns in use by their text and writing an automaton for each by hand. That is
//! short until the first model with a pattern of its own, and nothing but a test per pattern would say it is exact. Nor
//! splitting while tokens are chosen, with the engine itself: it answers for whole texts, and what is needed is whether
//! *some* continuation of a prefix puts the marks right.

mod bytes;
mod chars;
mod determinize;
mod error;
mod limits;
mod marked;
mod nfa;
mod pattern;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod tests;
mod utf8;

use unskew_core::{SplitBehavior, SplitPattern};

use crate::ByteClasses;
pub use error::SplitError;
pub use limits::SplitLimits;

use self::{
    chars::{Atoms, CharSet, Sets},
    limits::Budget,
    marked::Marked,
    nfa::{Nfa, Node},
    pattern::Ast,
    utf8::Tree,
};

/// A deterministic automaton over bytes and marks. It accepts exactly the texts (valid UTF-8) that carry a mark at
/// each boundary between two pieces and nowhere else: none at the start, none at the end.
///
/// Every state is reachable and reaches an accepting one, no two are equal, and they are numbered breadth-first; so
/// two automata of one language are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitDfa {
    /// The coarsest classes.
    pub(crate) classes: ByteClasses,
    /// `next[state * classes.len() + class]` is a state or [`DEAD`](crate::table::DEAD).
    pub(crate) next: Vec<u32>,
    /// Empty, or of the same shape: the same automaton read through the fallback tokens of bytes. At a boundary of
    /// characters a transition begins a character without a token of its own; inside of such a character there are no
    /// other transitions.
    pub(crate) fallback: Vec<u32>,
    /// By state: the state in which a boundary has just been marked here, or [`DEAD`](crate::table::DEAD).
    pub(crate) mark: Vec<u32>,
    /// By state: whether the text may end here.
    pub(crate) accepting: Vec<bool>,
    pub(crate) start: u32,
}

/// What else the automaton has to know of a tokenizer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SplitOptions<'a> {
    /// Characters that no text may contain.
    pub(crate) forbidden: &'a [char],
    /// For models whose symbols are characters: those that have a token of their own, sorted. `None` where symbols are
    /// bytes.
    pub(crate) known: Option<&'a [char]>,
}

/// A step that splits: at the matches of its pattern. Text that no match covers makes pieces too, or may not occur.
struct Step {
    ast: Ast,
    gaps: bool,
    /// Its number, from 1.
    number: usize,
}

impl SplitDfa {
    /// The automaton of these tables, if they have the same shape and lead to no state that there is not.
    pub(crate) fn from_parts(
        classes: ByteClasses,
        next: Vec<u32>,
        fallback: Vec<u32>,
        mark: Vec<u32>,
        accepting: Vec<bool>,
        start: u32,
    ) -> Option<Self> {
        let states = accepting.len();
        let size = states.checked_mul(classes.len())?;
        let has_shape = next.len() == size
            && (fallback.is_empty() || fallback.len() == size)
            && mark.len() == states
            && (start as usize) < states;
        let leads_to_states =
            [&next, &fallback, &mark].into_iter().all(|table| crate::table::leads_to_states(table, states));
        (has_shape && leads_to_states).then_some(Self { classes, next, fallback, mark, accepting, start })
    }

    /// The automaton of the steps `splits`, in order.
    ///
    /// # Errors
    ///
    /// [`SplitError`] where a step has no exact automaton here, or a limit is passed.
    pub(crate) fn new(
        splits: &[SplitPattern],
        options: &SplitOptions<'_>,
        limits: &SplitLimits,
    ) -> Result<Self, SplitError> {
        let mut budget = Budget::new(limits);
        let mut sets = Sets::default();
        let mut steps: Vec<(Step, Nfa)> = Vec::new();
        for (index, split) in splits.iter().enumerate() {
            if let Some(step) = step(split, index + 1, &mut sets, &mut budget)? {
                let nfa = nfa::compile(&step.ast, step.number, &mut budget)?;
                steps.push((step, nfa));
            }
        }

        // Characters that may not occur are told apart from the start, so that nothing seems possible through them.
        let forbidden = sets.add(CharSet::from_chars(options.forbidden));
        let mut used = vec![false; sets.len()];
        used[forbidden] = true;
        for (_, nfa) in &steps {
            for node in &nfa.nodes {
                if let Node::Set { set, .. } = node {
                    used[*set] = true;
                }
            }
            for (set, _) in &nfa.looks {
                used[*set] = true;
            }
        }
        let empty = CharSet::default();
        let mut used: Vec<&CharSet> =
            (0..sets.len()).map(|set| if used[set] { sets.get(set) } else { &empty }).collect();
        budget.spend(used.iter().map(|set| 4 * set.ranges()).sum())?;
        let atoms = Atoms::new(&used);

        let mut marked = Marked::whole(atoms.count);
        for (at, (step, nfa)) in steps.iter().enumerate() {
            let mut next = determinize::determinize(nfa, step.gaps, &atoms, step.number, &mut budget)?;
            next.forbid(&atoms.members[forbidden]);
            let next = next.reduced(&mut budget)?;
            marked = if at == 0 { next } else { marked.then(&next, &mut budget)?.reduced(&mut budget)? };
        }
        if steps.is_empty() {
            marked.forbid(&atoms.members[forbidden]);
        }

        // Whether a character has a token of its own changes nothing above.
        let known = options.known.map(CharSet::from_chars);
        let fine = match &known {
            None => None,
            Some(known) => {
                used.push(known);
                budget.spend(used.iter().map(|set| 4 * set.ranges()).sum())?;
                Some(Atoms::new(&used))
            }
        };
        let fine = fine.as_ref().unwrap_or(&atoms);
        let mut coarse = vec![None; fine.count];
        let mut runs = atoms.runs.iter().peekable();
        for (low, _, atom) in &fine.runs {
            while runs.next_if(|run| run.1 < *low).is_some() {}
            coarse[*atom as usize] = runs.peek().map(|run| run.2 as usize);
        }
        let unknown: Option<Vec<bool>> =
            known.as_ref().map(|_| fine.members[used.len() - 1].iter().map(|known| !known).collect());
        let tree = Tree::new(fine, &mut budget)?;
        bytes::expand(&marked, &tree, &coarse, unknown.as_deref(), &mut budget)
    }
}

/// The step `split`; `None` where it never splits.
fn step(
    split: &SplitPattern,
    number: usize,
    sets: &mut Sets,
    budget: &mut Budget<'_>,
) -> Result<Option<Step>, SplitError> {
    let refused = |reason: &str| SplitError::UnsupportedStep { step: number, reason: reason.to_owned() };
    let (ast, behavior, invert) = match split {
        SplitPattern::Regex { pattern, behavior, invert } => {
            (pattern::parse(pattern, number, sets, budget)?, *behavior, *invert)
        }
        SplitPattern::Literal { text, behavior, invert } => {
            (pattern::literal(text, number, sets, budget)?, *behavior, *invert)
        }
        // Texts are spelled with spaces here, whatever a space is replaced by.
        SplitPattern::Metaspace { split: true, .. } => {
            (pattern::literal(" ", number, sets, budget)?, SplitBehavior::MergedWithNext, false)
        }
        SplitPattern::PrefixSpace | SplitPattern::Metaspace { split: false, .. } => return Ok(None),
        SplitPattern::Other(name) => return Err(refused(&format!("`{name}` is not expressed as a pattern"))),
        _ => return Err(refused("it is of a kind that is not known here")),
    };
    let set = match ast {
        Ast::Set(set) => Some(set),
        _ => None,
    };
    let others = |sets: &mut Sets| set.map(|set| sets.add(sets.get(set).complement()));
    let (ast, gaps) = match (behavior, invert) {
        // Pieces are the same whether a match or what lies between two is called one.
        (SplitBehavior::Isolated, _) => (ast, true),
        (SplitBehavior::Removed, true) => (ast, false),
        (SplitBehavior::Removed, false) => {
            return Err(refused("it removes what its pattern matches, so that tokens do not spell the text"));
        }
        (SplitBehavior::Contiguous, _) => {
            if ast.width() != (1, Some(1)) {
                return Err(refused(
                    "`Contiguous` is supported only for a pattern that matches exactly one character",
                ));
            }
            (Ast::Repeat { part: Box::new(ast), min: 1, max: None, lazy: false }, true)
        }
        // `[^C]*C|[^C]+` and `C[^C]*|[^C]+`. Inverted, each is the other.
        (SplitBehavior::MergedWithPrevious | SplitBehavior::MergedWithNext, _) => {
            let (Some(set), Some(others)) = (set, others(sets)) else {
                return Err(refused(
                    "`MergedWithPrevious` and `MergedWithNext` are supported only for a pattern that is one set of \
                     characters",
                ));
            };
            let run = |min| Ast::Repeat { part: Box::new(Ast::Set(others)), min, max: None, lazy: false };
            let previous = (behavior == SplitBehavior::MergedWithPrevious) != invert;
            let merged = if previous { vec![run(0), Ast::Set(set)] } else { vec![Ast::Set(set), run(0)] };
            (Ast::Alternation(vec![Ast::Concat(merged), run(1)]), true)
        }
    };
    Ok(Some(Step { ast, gaps, number }))
}
