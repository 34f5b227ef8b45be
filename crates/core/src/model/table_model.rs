//! A language model given as an explicit table: the oracle of every sampler test, and the model of audits of exact
//! probabilities.
//!
//! The table has a row of next-token probabilities for each listed context (the ids so far), and one default row for
//! all others.

use std::{collections::HashMap, sync::Arc};

use crate::{Extension, LanguageModel, Logits, Rows, TokenId, Vocabulary};

/// The most by which the sum of a row may differ from one.
const TOLERANCE: f64 = 1e-6;

/// A language model given as a table. Ids `0..n` are text tokens, id `n` is the end of the sequence.
///
/// # Example
///
/// The model that draws `0` or `1` until it stops, and prefers `0` after `0 0`:
///
/// ```
/// use unskew_core::{TableModel, TokenId};
///
/// let zero = TokenId(0);
/// let contexts = [(vec![zero, zero], vec![0.9, 0.05, 0.05])];
/// let model = TableModel::new(["0", "1"], vec![0.45, 0.45, 0.10], contexts)?;
/// assert_eq!(model.row(&[zero, zero]), [0.9, 0.05, 0.05]);
/// assert_eq!(model.row(&[zero]), [0.45, 0.45, 0.10]);
///
/// let error = TableModel::new(["0", "1"], vec![0.45, 0.45, 0.20], []).unwrap_err();
/// assert_eq!(error.to_string(), "the row `default` sums to 1.1, not to 1 within 1e-6");
/// # Ok::<(), unskew_core::TableModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableModel {
    vocabulary: Arc<Vocabulary>,
    default: Vec<f64>,
    contexts: HashMap<Vec<TokenId>, Vec<f64>>,
}

/// The reasons why a table is no language model, or could not be evaluated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableModelError {
    /// A row that does not sum to one.
    #[error("the row {row} sums to {sum}, not to 1 within 1e-6")]
    Sum {
        /// The row, by its context.
        row: String,
        /// The sum of its entries.
        sum: f64,
    },
    /// An entry that is not a probability.
    #[error("the row {row} gives token {token} the probability {value}, which is not between 0 and 1")]
    NotAProbability {
        /// The row, by its context.
        row: String,
        /// The token.
        token: usize,
        /// The entry.
        value: f64,
    },
    /// A row with too few or too many entries.
    #[error("the row {row} has {len} entries; with the end of the sequence there are {vocab_len} tokens")]
    RowLength {
        /// The row, by its context.
        row: String,
        /// Its number of entries.
        len: usize,
        /// The number of tokens, the end of the sequence included.
        vocab_len: usize,
    },
    /// A context that is given twice.
    #[error("the context {row} is given twice")]
    DuplicateContext {
        /// The context.
        row: String,
    },
    /// A context with an id that is not a text token's.
    #[error("the context {row} holds {id}; ids in a context are numbers below {limit}, joined by one space")]
    Context {
        /// The context.
        row: String,
        /// The id that is not a text token's.
        id: String,
        /// The number of text tokens.
        limit: usize,
    },
    /// An `eos` that is not the id after the last token.
    #[error("`eos` is {eos}, but with {tokens} tokens it must be {tokens}: the id after the last one")]
    EndOfSequence {
        /// The value of `eos`.
        eos: u64,
        /// The number of text tokens.
        tokens: usize,
    },
    /// The tokens are too many or too long.
    #[error(transparent)]
    Vocabulary(#[from] crate::VocabularyError),
    /// The JSON form could not be read.
    #[error("not a table model in JSON: {0}")]
    Json(String),
    /// An appended token that the model does not have, or the end of the sequence.
    #[error("token {token} cannot be appended: the table's text tokens are the ids below {limit}")]
    Token {
        /// The token.
        token: TokenId,
        /// The number of text tokens.
        limit: usize,
    },
}

impl TableModel {
    /// A model over `tokens`, with one row for each listed context and `default` for all others. A row holds the
    /// probabilities of all tokens, the end of the sequence last.
    ///
    /// # Errors
    ///
    /// [`TableModelError`] names the first row that is not a distribution over the tokens.
    pub fn new<T: AsRef<[u8]>>(
        tokens: impl IntoIterator<Item = T>,
        default: Vec<f64>,
        contexts: impl IntoIterator<Item = (Vec<TokenId>, Vec<f64>)>,
    ) -> Result<Self, TableModelError> {
        let mut builder = Vocabulary::builder();
        for token in tokens {
            builder.text(token.as_ref());
        }
        let eos = builder.control("<end>");
        builder.end_of_sequence(eos);
        let vocabulary = Arc::new(builder.build()?);
        let text_tokens = vocabulary.len() - 1;

        check_row("`default`", &default, vocabulary.len())?;
        let mut rows = HashMap::new();
        for (context, row) in contexts {
            let name = context_name(&context);
            if let Some(id) = context.iter().find(|id| id.index() >= text_tokens) {
                return Err(TableModelError::Context { row: name, id: id.to_string(), limit: text_tokens });
            }
            check_row(&name, &row, vocabulary.len())?;
            if rows.insert(context, row).is_some() {
                return Err(TableModelError::DuplicateContext { row: name });
            }
        }
        Ok(Self { vocabulary, default, contexts: rows })
    }

    /// The model that draws every token, the end of the sequence among them, with the same probability.
    ///
    /// # Panics
    ///
    /// If the tokens together are 4 GiB long.
    pub fn uniform<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) -> Self {
        let tokens = tokens.into_iter();
        let vocab_len = tokens.len() + 1;
        #[allow(clippy::cast_precision_loss, reason = "a vocabulary is far below 2^52")]
        let row = vec![1.0 / vocab_len as f64; vocab_len];
        Self::new(tokens, row, []).expect("the uniform distribution is one")
    }

    /// The model of a JSON text:
    /// `{"tokens": ["0", "1"], "eos": 2, "default": [0.45, 0.45, 0.1], "contexts": {"0 0": [0.9, 0.05, 0.05]}}`.
    ///
    /// # Errors
    ///
    /// [`TableModelError`], with line and column where the text is no such JSON.
    #[cfg(feature = "json")]
    pub fn from_json(text: &[u8]) -> Result<Self, TableModelError> {
        json::read(text)
    }

    /// The tokens: the text tokens in order, and the end of the sequence last.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The next-token probabilities after `context`.
    pub fn row(&self, context: &[TokenId]) -> &[f64] {
        self.contexts.get(context).unwrap_or(&self.default)
    }
}

fn context_name(context: &[TokenId]) -> String {
    let ids: Vec<_> = context.iter().map(TokenId::to_string).collect();
    format!("{:?}", ids.join(" "))
}

fn check_row(name: &str, row: &[f64], vocab_len: usize) -> Result<(), TableModelError> {
    if row.len() != vocab_len {
        return Err(TableModelError::RowLength { row: name.to_owned(), len: row.len(), vocab_len });
    }
    if let Some((token, value)) =
        row.iter().enumerate().find(|(_, value)| !(0.0..=1.0 + TOLERANCE).contains(*value))
    {
        return Err(TableModelError::NotAProbability { row: name.to_owned(), token, value: *value });
    }
    let sum: f64 = row.iter().sum();
    if (sum - 1.0).abs() > TOLERANCE {
        // Nine digits show the mistake without the noise of the last bits.
        let sum = (sum * 1e9).round() / 1e9;
        return Err(TableModelError::Sum { row: name.to_owned(), sum });
    }
    Ok(())
}

impl LanguageModel for TableModel {
    type Sequence = Vec<TokenId>;
    type Error = TableModelError;

    fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }

    fn context_len(&self) -> Option<usize> {
        None
    }

    fn start(&mut self) -> Vec<TokenId> {
        Vec::new()
    }

    fn len(&self, sequence: &Vec<TokenId>) -> usize {
        sequence.len()
    }

    fn fork(&mut self, sequence: &Vec<TokenId>) -> Vec<TokenId> {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Vec<TokenId>, len: usize) {
        assert!(len <= sequence.len(), "cannot truncate a sequence of {} tokens to {len}", sequence.len());
        sequence.truncate(len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Vec<TokenId>>],
        logits: &mut Logits,
    ) -> Result<(), TableModelError> {
        let vocab_len = self.vocab_len();
        let limit = vocab_len - 1;
        let mut appended = batch.iter().flat_map(|item| item.tokens);
        if let Some(token) = appended.find(|token| token.index() >= limit) {
            return Err(TableModelError::Token { token: *token, limit });
        }
        let rows = batch.iter().map(|item| item.rows.count(item.tokens.len())).sum();
        let mut out = logits.reset(rows, vocab_len).chunks_exact_mut(vocab_len);
        let mut write = |row: &[f64]| {
            let out = out.next().expect("as many rows as were counted");
            for (logit, probability) in out.iter_mut().zip(row) {
                #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
                let log = probability.ln() as f32;
                *logit = log;
            }
        };
        for item in batch {
            let first = match item.rows {
                Rows::All => 0,
                Rows::From(first) => first,
                Rows::Last => usize::MAX,
            };
            for (index, token) in item.tokens.iter().enumerate() {
                item.sequence.push(*token);
                if index >= first {
                    write(self.row(item.sequence));
                }
            }
            if item.rows == Rows::Last {
                write(self.row(item.sequence));
            }
        }
        Ok(())
    }
}

#[cfg(feature = "json")]
mod json {
    use std::fmt;

    use serde::{
        Deserialize,
        de::{Deserializer, MapAccess, Visitor},
    };

    use super::{TableModel, TableModelError};
    use crate::TokenId;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        tokens: Vec<String>,
        eos: u64,
        default: Vec<f64>,
        #[serde(default)]
        contexts: Contexts,
    }

    /// The contexts in the order of the file: a map would silently keep only the last of two rows for one context.
    #[derive(Default)]
    struct Contexts(Vec<(String, Vec<f64>)>);

    impl<'de> Deserialize<'de> for Contexts {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Entries;
            impl<'de> Visitor<'de> for Entries {
                type Value = Contexts;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a map from ids joined by spaces to rows of probabilities")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Contexts, A::Error> {
                    let mut entries = Vec::new();
                    while let Some(entry) = map.next_entry()? {
                        entries.push(entry);
                    }
                    Ok(Contexts(entries))
                }
            }
            deserializer.deserialize_map(Entries)
        }
    }

    pub(super) fn read(text: &[u8]) -> Result<TableModel, TableModelError> {
        let table: Table =
            serde_json::from_slice(text).map_err(|error| TableModelError::Json(error.to_string()))?;
        let limit = table.tokens.len();
        if table.eos != limit as u64 {
            return Err(TableModelError::EndOfSequence { eos: table.eos, tokens: limit });
        }
        let contexts = table
            .contexts
            .0
            .into_iter()
            .map(|(key, row)| Ok((context(&key, limit)?, row)))
            .collect::<Result<Vec<_>, TableModelError>>()?;
        TableModel::new(table.tokens, table.default, contexts)
    }

    /// The ids of a key: decimal numbers joined by single spaces, no sign, no leading zero.
    fn context(key: &str, limit: usize) -> Result<Vec<TokenId>, TableModelError> {
        if key.is_empty() {
            return Ok(Vec::new());
        }
        key.split(' ')
            .map(|id| match id.parse::<u32>() {
                Ok(value) if value.to_string() == id => Ok(TokenId(value)),
                _ => Err(TableModelError::Context { row: format!("{key:?}"), id: format!("{id:?}"), limit }),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_sequence_has_a_row_too() {
        let mut model = TableModel::new(["a"], vec![0.5, 0.5], [(vec![], vec![1.0, 0.0])]).unwrap();
        let (mut sequence, mut logits) = (model.start(), Logits::new());
        let mut batch = [Extension { sequence: &mut sequence, tokens: &[], rows: Rows::Last }];
        model.extend(&mut batch, &mut logits).unwrap();
        assert_eq!(logits.row(0), [0.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn a_foreign_token_changes_no_sequence_of_the_batch() {
        let mut model = TableModel::uniform(["a"]);
        let (mut left, mut right, mut logits) = (model.start(), model.start(), Logits::new());
        let mut batch = [
            Extension { sequence: &mut left, tokens: &[TokenId(0)], rows: Rows::Last },
            Extension { sequence: &mut right, tokens: &[TokenId(1)], rows: Rows::Last },
        ];
        let error = model.extend(&mut batch, &mut logits).unwrap_err();
        assert_eq!(error, TableModelError::Token { token: TokenId(1), limit: 1 });
        assert!(left.is_empty() && right.is_empty());
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_that_is_no_table_says_where() {
        let error = |text: &str| TableModel::from_json(text.as_bytes()).unwrap_err().to_string();
        let table = |contexts: &str| {
            format!(
                r#"{{"tokens": ["0", "1"], "eos": 2, "default": [0.4, 0.4, 0.2], "contexts": {{{contexts}}}}}"#
            )
        };
        assert_eq!(
            error(&table(r#""0 0": [0.5, 0.4, 0.0]"#)),
            r#"the row "0 0" sums to 0.9, not to 1 within 1e-6"#
        );
        assert_eq!(
            error(&table(r#""0": [0.5, 0.5]"#)),
            r#"the row "0" has 2 entries; with the end of the sequence there are 3 tokens"#
        );
        assert_eq!(
            error(&table(r#""1": [2.0, -1.0, 0.0]"#)),
            r#"the row "1" gives token 0 the probability 2, which is not between 0 and 1"#
        );
        assert_eq!(error(&table(r#""1": [0, 0, 1], "1": [0, 1, 0]"#)), r#"the context "1" is given twice"#);
        for key in ["0  1", "2", "-1", "01", "0 x"] {
            assert!(
                error(&table(&format!(r#""{key}": [0, 0, 1]"#)))
                    .contains("ids in a context are numbers below 2")
            );
        }
        assert_eq!(
            error(r#"{"tokens": ["0"], "eos": 0, "default": [0, 1]}"#),
            "`eos` is 0, but with 1 tokens it must be 1: the id after the last one"
        );
        assert!(error("{\n  \"tokens\": 3").contains("line 2"));
    }
}
