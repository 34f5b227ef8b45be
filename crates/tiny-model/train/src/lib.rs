//! The training text of the tiny model: an endless, reproducible stream of short documents.
//!
//! The documents are of the kinds that constrained decoding is about (JSON, dates, e-mail addresses,
//! s-expressions) among plain English, and their facts come from fixed tables drawn from Zipf-like, so that
//! the model learns sharp preferences: a sampler that skews them shows at once.
//!
//! The program of this package (feature `train`) trains the models. The corpus needs no tensor library.

mod dates;
mod documents;
mod facts;
mod rng;
mod scene;
#[cfg(test)]
mod tests;
mod text;

use documents::{letters, lists, logs, maths, prose, records};
use facts::people::People;
use rng::Dice;
use scene::{Scene, Writer};

/// The fewest bytes of a document.
const MIN_BYTES: usize = 20;

/// The most bytes of a document.
const MAX_BYTES: usize = 350;

/// In how many of a hundred documents the people and cities have letters outside ASCII.
const ACCENTED_PERCENT: u64 = 6;

/// The kinds of document, each with its name and its weight in the mixture.
const KINDS: &[(u64, (&str, Writer))] = &[
    (34, ("json", records::record)),
    (13, ("person", prose::person)),
    (4, ("place", prose::place)),
    (4, ("product", prose::product)),
    (6, ("story", prose::story)),
    (6, ("log", logs::log)),
    (5, ("note", letters::note)),
    (7, ("questions", letters::questions)),
    (5, ("arithmetic", maths::arithmetic)),
    (3, ("expressions", maths::expressions)),
    (3, ("titles", lists::titles)),
    (3, ("key values", lists::key_values)),
    (3, ("csv", lists::csv)),
    (2, ("markdown", lists::markdown)),
    (3, ("contacts", lists::contacts)),
];

/// Documents number 0.. of the stream of a seed; document `i` depends only on the seed and `i`.
#[derive(Debug)]
pub struct Corpus {
    seed: u64,
    people: People,
}

impl Corpus {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, people: People::new() }
    }

    /// Document number `index`: 20 to 350 bytes, without a line end at its end.
    pub fn document(&self, index: u64) -> String {
        self.named_document(index).1
    }

    /// The documents in order, from number 0, without end.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        (0..).map(|index| self.document(index))
    }

    /// Document number `index` after the name of its kind.
    fn named_document(&self, index: u64) -> (&'static str, String) {
        let mut dice = Dice::new(self.seed, index);
        let accented = dice.chance(ACCENTED_PERCENT);
        let (kind, write) = *dice.weighted(KINDS);
        let mut scene = Scene::new(dice, &self.people, accented);
        loop {
            let document = write(&mut scene);
            if (MIN_BYTES..=MAX_BYTES).contains(&document.len()) {
                return (kind, document);
            }
        }
    }
}
