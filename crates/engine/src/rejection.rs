//! Where a text leaves a constraint, and what could stand there.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use unskew_core::{Constraint, TokenId, TokenMask};

use crate::Compiled;

/// How much of the text is shown on each side, in characters.
const BEFORE: usize = 40;
const AFTER: usize = 20;

/// The most characters that are listed.
const LISTED: usize = 16;

/// The place where the text of some tokens leaves a constraint.
///
/// Its [`Display`](fmt::Display) is a line for people: `at byte 1, after "1", there is "x"; expected: "0", "1", the
/// end`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Rejection {
    /// The bytes of the text that some accepted text begins with.
    pub offset: usize,
    /// The text in front of this place.
    pub before: String,
    /// The text behind this place.
    pub after: String,
    /// The characters that may come next; of many, a few.
    pub expected: Vec<String>,
    /// How many there are.
    pub expected_count: usize,
    /// Whether the output may end here.
    pub may_end: bool,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        write!(f, "at byte {offset}, after {before:?}, {here}; expected: {}", ways.join(", "))
    }
}

impl Compiled {
    /// Where the text of these tokens leaves the constraint; `None` if it is accepted as a whole. A last id that ends
    /// the output may be given.
    ///
    /// Cost: a step for each token, and a mask.
    pub fn rejection(&self, ids: &[TokenId]) -> Option<Rejection> {
        let vocabulary = self.tokens.vocabulary();
        let ids = match ids {
            [output @ .., last] if vocabulary.is_end_of_sequence(*last) => output,
            _ => ids,
        };
        let (mut scratch, mut state) = (self.scratch(), self.start());
        let rejected = ids.iter().position(|id| self.advance(&mut scratch, &mut state, *id).is_err());
        if rejected.is_none() && self.is_accepting(&state) {
            return None;
        }
        let index = rejected.unwrap_or(ids.len());
        let before = vocabulary.decode(&ids[..index]);
        let rest = vocabulary.decode(&ids[index..]);
        let reach = self.reach(&mut scratch, &state, &rest);
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
            |byte: &u8| single(*byte).is_some_and(|id| self.advance(&mut scratch, &mut inner, id).is_ok());
        if rest[..read].iter().all(advances) {
            inside = 0;
        } else {
            inner = state.clone();
        }
        let mut mask = TokenMask::new(self.vocab_len());
        self.fill_mask(&mut scratch, &inner, mask.as_mut());
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
            None => self.is_accepting(&state),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = text(&[&*before, &rest[..read]].concat());
        let count = shown.chars().count();
        Some(Rejection {
            offset: before.len() + read,
            before: shown.chars().skip(count.saturating_sub(BEFORE)).collect(),
            after: text(&rest[read..]).chars().take(AFTER).collect(),
            expected_count: expected.len(),
            expected: expected.into_iter().take(LISTED).collect(),
            may_end,
        })
    }
}
