//! All items of a set, in order: one walk over the columns, which visits each token once.

use unskew_core::TokenId;

use super::{ItemSet, column::Ends};

/// The items of a set, in order.
#[derive(Debug)]
pub struct Items<'a> {
    pub(super) set: &'a ItemSet,
    /// The number of items so far.
    pub(super) next: u32,
    /// The next place of each column.
    pub(super) places: Vec<u32>,
}

impl Iterator for Items<'_> {
    type Item = Vec<TokenId>;

    fn next(&mut self) -> Option<Vec<TokenId>> {
        let layout = &self.set.layout;
        if self.next >= layout.items {
            return None;
        }
        self.next += 1;
        let mut tokens = Vec::new();
        if self.next == 1 && layout.has_empty {
            return Some(tokens);
        }
        for ((depth, column), place) in (0..).zip(&layout.columns).zip(&mut self.places) {
            if *place >= column.len {
                break;
            }
            tokens.push(TokenId(self.set.token_at(depth, *place)));
            let (_, ends) = Ends::new(column.ends.of(&self.set.bytes)).at(*place);
            *place += 1;
            if ends {
                break;
            }
        }
        Some(tokens)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.set.layout.items - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Items<'_> {}
