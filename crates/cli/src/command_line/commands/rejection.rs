//! Where a text leaves a constraint, and what could stand there.

use std::{collections::BTreeSet, io::Write};

use serde::Serialize;

use crate::command_line::error::Result;
use crate::{
    TokenSpace,
    core::{AnyConstraint, AnyScratch, AnyState, Constraint, TokenId, TokenMask},
};

/// How much of the text is shown on each side, in characters.
const BEFORE: usize = 40;
const AFTER: usize = 20;

/// The most characters that are listed.
const LISTED: usize = 16;

/// The place where a text leaves the constraint.
#[derive(Serialize)]
pub(super) struct Rejection {
    /// The bytes of the text that some accepted text begins with.
    offset: usize,
    /// What stands in front of this place, and behind it.
    before: String,
    after: String,
    /// The characters that may come next; of many, a few.
    expected: Vec<String>,
    /// How many there are.
    expected_count: usize,
    /// Whether the output may end here.
    may_end: bool,
}

impl Rejection {
    /// The place in the text of `ids`, whose first `index` tokens lead to `state`. The next one, if there is one, is
    /// not allowed.
    pub(super) fn new(
        tokens: &TokenSpace,
        (constraint, scratch): (&AnyConstraint, &mut AnyScratch),
        state: &AnyState,
        (ids, index): (&[TokenId], usize),
    ) -> Self {
        let vocabulary = tokens.vocabulary();
        let before = vocabulary.decode(&ids[..index]);
        let rest = vocabulary.decode(&ids[index..]);
        let reach = constraint.reach(scratch, state, &rest);
        // A token that names no text is rejected as a whole.
        let of_token = ids.get(index).and_then(|id| vocabulary.text(*id)).map_or(0, <[u8]>::len);
        let read = reach.map_or(0, |reach| reach.len.min(of_token));
        // The state inside of the token, where the vocabulary has the bytes one by one; or else that in front of it.
        let (mut inner, mut inside) = (state.clone(), read);
        let single = |byte: u8| {
            let mut ids = (0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX)).map(TokenId);
            ids.find(|id| vocabulary.text(*id) == Some(&[byte][..]))
        };
        let advances =
            |byte: &u8| single(*byte).is_some_and(|id| constraint.advance(scratch, &mut inner, id).is_ok());
        if rest[..read].iter().all(advances) {
            inside = 0;
        } else {
            inner = state.clone();
        }
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(scratch, &inner, mask.as_mut());
        let mut expected = BTreeSet::new();
        for id in mask.ids() {
            let next = vocabulary.text(id).and_then(|text| text.strip_prefix(&rest[read - inside..read]));
            let text = next.filter(|next| !next.is_empty()).map(|next| match next.utf8_chunks().next() {
                Some(chunk) if !chunk.valid().is_empty() => chunk.valid().chars().take(1).collect(),
                _ => "a character beyond ASCII".to_owned(),
            });
            expected.extend(text);
        }
        let may_end = match reach {
            Some(reach) => read == reach.len && reach.is_accepting,
            None => constraint.is_accepting(state),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = text(&[&*before, &rest[..read]].concat());
        let count = shown.chars().count();
        Self {
            offset: before.len() + read,
            before: shown.chars().skip(count.saturating_sub(BEFORE)).collect(),
            after: text(&rest[read..]).chars().take(AFTER).collect(),
            expected_count: expected.len(),
            expected: expected.into_iter().take(LISTED).collect(),
            may_end,
        }
    }

    /// The place and what was expected, for people.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<()> {
        let Self { offset, before, after, expected, expected_count, may_end } = self;
        let here = match after.is_empty() {
            true => "the text ends".to_owned(),
            false => format!("there is {after:?}"),
        };
        let mut ways: Vec<String> = expected.iter().map(|text| format!("{text:?}")).collect();
        if *expected_count > ways.len() {
            ways.push(format!("{} others", expected_count - ways.len()));
        }
        if *may_end {
            ways.push("the end".to_owned());
        }
        writeln!(out, "    at byte {offset}, after {before:?}, {here}; expected: {}", ways.join(", "))?;
        Ok(())
    }
}
