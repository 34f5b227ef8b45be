//! Random tokenizers over a few characters, with merges implemented independently, and random regexes.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use unskew_automata::{CanonicalIndex, TokenizerAutomaton, canonical::MergeOrder};
use unskew_core::{Merge, MergeTable, SplitBehavior, SplitPattern, TokenId, Tokenization, Vocabulary};
use unskew_trie::TokenTrie;

use super::random::Random;

/// A tokenizer over a few characters. Its symbols are bytes: characters beyond ASCII are never spelled.
pub(crate) struct Toy {
    pub(crate) texts: Vec<String>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) tokenization: Tokenization,
    pub(crate) index: Arc<CanonicalIndex>,
    order: MergeOrder,
}

impl Toy {
    pub(crate) fn new(random: &mut Random, letters: &str, split: Option<&str>) -> Self {
        let mut texts: Vec<String> = letters.chars().map(String::from).collect();
        let mut ids: HashMap<String, usize> = texts.iter().cloned().zip(0..).collect();
        let mut list: Vec<[usize; 3]> = Vec::new();
        for _ in 0..random.below(16) {
            let (left, right) = (random.below(texts.len()), random.below(texts.len()));
            let text = format!("{}{}", texts[left], texts[right]);
            if text.len() <= 6 && !ids.contains_key(&text) {
                list.push([left, right, texts.len()]);
                ids.insert(text.clone(), texts.len());
                texts.push(text);
            }
        }
        let listing = random.below(3);
        if listing > 0 {
            // All splits of all tokens are merges.
            list.clear();
            for (id, text) in texts.iter().enumerate() {
                for cut in (1..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                    if let (Some(left), Some(right)) = (ids.get(&text[..cut]), ids.get(&text[cut..])) {
                        list.push([*left, *right, id]);
                    }
                }
            }
        }
        if listing > 1 {
            for at in (1..list.len()).rev() {
                list.swap(at, random.below(at + 1));
            }
        }
        let id = TokenId::from_index;
        let merges = list.iter().map(|[left, right, result]| Merge {
            left: id(*left),
            right: id(*right),
            result: id(*result),
        });
        let mut tokenization = Tokenization::default();
        tokenization.merges = MergeTable::new(merges.collect()).unwrap();
        tokenization.whole_pieces = random.below(2) == 0;
        tokenization.splits.extend(split.map(|pattern| SplitPattern::Regex {
            pattern: pattern.to_owned(),
            behavior: SplitBehavior::Isolated,
            invert: false,
        }));
        let order = if random.below(2) == 0 { MergeOrder::LowestRank } else { MergeOrder::Passes };
        Self::of(texts, &HashSet::new(), tokenization, order)
    }

    /// The tokenizer in which the tokens `never` are control tokens, and the texts `more` are tokens too.
    pub(crate) fn changed(&self, never: &HashSet<usize>, more: &[&str]) -> Self {
        let mut texts = self.texts.clone();
        texts.extend(more.iter().map(|text| (*text).to_owned()));
        Self::of(texts, never, self.tokenization.clone(), self.order)
    }

    fn of(texts: Vec<String>, never: &HashSet<usize>, tokenization: Tokenization, order: MergeOrder) -> Self {
        let mut builder = Vocabulary::builder();
        for (id, text) in texts.iter().enumerate() {
            _ = match never.contains(&id) {
                true => builder.control(&format!("<{text}>")),
                false => builder.text(text.as_bytes()),
            };
        }
        builder.control("<end>");
        let vocabulary = Arc::new(builder.build().unwrap());
        let tokenizer = TokenizerAutomaton::with_order(&vocabulary, &tokenization, order).unwrap();
        let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
        let index = CanonicalIndex::new(Arc::new(tokenizer), trie).unwrap();
        Self { texts, vocabulary, tokenization, index: Arc::new(index), order }
    }

    /// The result of the merges on a text.
    pub(crate) fn merged(&self, text: &str) -> Vec<TokenId> {
        let merges = &self.tokenization.merges;
        let symbol = |letter: char| self.texts.iter().position(|text| *text == letter.to_string()).unwrap();
        let mut piece: Vec<TokenId> = text.chars().map(|c| TokenId::from_index(symbol(c))).collect();
        match self.order {
            MergeOrder::LowestRank => {
                while let Some((rank, at)) =
                    (1..piece.len()).filter_map(|at| Some((merges.rank(piece[at - 1], piece[at])?, at))).min()
                {
                    piece[at - 1] = merges.merges()[rank].result;
                    piece.remove(at);
                }
            }
            MergeOrder::Passes => {
                for merge in merges.merges() {
                    let mut at = 1;
                    while at < piece.len() {
                        if (piece[at - 1], piece[at]) == (merge.left, merge.right) {
                            piece[at - 1] = merge.result;
                            piece.remove(at);
                        }
                        at += 1;
                    }
                }
            }
        }
        piece
    }
}

/// A random regex over `letters`.
pub(crate) fn regex(random: &mut Random, letters: &[char], depth: usize) -> String {
    let letter = |random: &mut Random| regex::escape(&letters[random.below(letters.len())].to_string());
    match random.below(if depth == 0 { 2 } else { 8 }) {
        0 => letter(random),
        1 => (0..1 + random.below(4)).map(|_| letter(random)).collect(),
        2 | 3 => format!("{}{}", regex(random, letters, depth - 1), regex(random, letters, depth - 1)),
        4 | 5 => format!("({}|{})", regex(random, letters, depth - 1), regex(random, letters, depth - 1)),
        6 => format!("({}){}", regex(random, letters, depth - 1), random.pick(&["*", "+", "?"])),
        _ => format!("({}){{{},3}}", regex(random, letters, depth - 1), random.below(3)),
    }
}
