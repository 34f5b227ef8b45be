//! Rank files (tiktoken's): one token per line, as the base64 of its bytes and its rank, which is also its id.
//!
//! Such a file has no merges: its encoder joins the two neighbours that make the token of the lowest rank. Here each
//! token's one merge is derived, as the last step of that encoder on the token's own bytes, and the rest is as if a
//! `tokenizer.json` had been read. That is exact: inside any text, the bytes of a token are joined as they are alone
//! until the token itself is made, because the next join depends on the neighbours only. A token whose bytes are not
//! joined into two parts is reached only as a whole piece, which is looked up first.
//!
//! The alternative of listing every split of a token as a merge gives the same segmentation, with tables about twice
//! as long, and leaves it to their readers to find out that most of them never apply.

use std::{collections::HashMap, path::Path};

use serde_json::json;
use unskew_core::byte_to_alphabet;

use super::base64;
use crate::{
    Limits, Tokenizer, TokenizerError,
    error::quoted,
    format::json::{Added, File, MergePair, Model, Vocab, checked_id},
    format::pipeline::Dialect,
    tokenizer::read,
};

/// The longest token of a rank file, in bytes: deriving its merge takes the square of this. The longest known ones
/// have 128.
const TOKEN_LIMIT: usize = 512;

impl Tokenizer {
    /// Reads a rank file, with the split pattern and the special tokens, which it does not hold.
    ///
    /// `pattern` is a regex as tiktoken has it, in the syntax of `fancy-regex`: `{1,3}+` is possessive, and `$` is the
    /// end of the text. `special` are names and ids; they become control tokens.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::RankFile`] with the line, [`TokenizerError::Refused`] for the pattern, and otherwise as for
    /// [`from_bytes`](Self::from_bytes).
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_core::TokenId;
    /// use unskew_vocab::Tokenizer;
    ///
    /// // Every byte in order, then "ab". A real file comes from disk.
    /// let mut ranks = String::new();
    /// # let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    /// # let base64 = |byte: usize| [digits[byte >> 2], digits[(byte & 3) << 4], b'=', b'='];
    /// for byte in 0..256 {
    ///     ranks += &format!("{} {byte}\n", String::from_utf8_lossy(&base64(byte)));
    /// }
    /// ranks += "YWI= 256\n";
    ///
    /// let tokenizer = Tokenizer::from_rank_file(ranks.as_bytes(), r"\w+|\W+", &[("<|endoftext|>", 257)])?;
    /// assert_eq!(tokenizer.encode("ab!<|endoftext|>", false)?, [TokenId(256), TokenId(33), TokenId(257)]);
    /// # Ok::<(), unskew_vocab::TokenizerError>(())
    /// ```
    pub fn from_rank_file(
        bytes: &[u8],
        pattern: &str,
        special: &[(&str, u32)],
    ) -> Result<Self, TokenizerError> {
        Self::from_rank_file_with(bytes, pattern, special, Limits::DEFAULT)
    }

    /// Reads a rank file from a path; otherwise as [`from_rank_file`](Self::from_rank_file).
    ///
    /// # Errors
    ///
    /// [`TokenizerError::File`] names the file; its source is the reason.
    pub fn from_rank_path(
        path: impl AsRef<Path>,
        pattern: &str,
        special: &[(&str, u32)],
    ) -> Result<Self, TokenizerError> {
        let path = path.as_ref();
        let in_file = |source| TokenizerError::File { path: path.to_owned(), source: Box::new(source) };
        let bytes = read(path, Limits::DEFAULT.file_bytes).map_err(in_file)?;
        Self::from_rank_file(&bytes, pattern, special).map_err(in_file)
    }

    /// Reads a rank file with other limits.
    ///
    /// # Errors
    ///
    /// As for [`from_rank_file`](Self::from_rank_file).
    pub fn from_rank_file_with(
        bytes: &[u8],
        pattern: &str,
        special: &[(&str, u32)],
        limits: Limits,
    ) -> Result<Self, TokenizerError> {
        let tokens = lines(bytes, &limits)?;
        let ranks: HashMap<&[u8], u32> = tokens.iter().map(|(token, rank)| (&**token, *rank)).collect();
        if let Some(byte) = (0..=255u8).find(|byte| !ranks.contains_key([*byte].as_slice())) {
            let reason = format!("the byte {byte:#04x} has no token, so that not every text can be spelled");
            return Err(TokenizerError::RankFile { line: 0, reason });
        }
        let spell = |bytes: &[u8]| bytes.iter().map(|byte| byte_to_alphabet(*byte)).collect::<String>();
        let mut merges = Vec::with_capacity(tokens.len());
        for (token, _) in &tokens {
            if let Some(at) = last_join(token, &ranks) {
                merges.push(MergePair(Some((spell(&token[..at]), spell(&token[at..])))));
            }
        }
        let mut vocab: Vec<(String, u64)> =
            tokens.iter().map(|(token, rank)| (spell(token), u64::from(*rank))).collect();
        // In the vocabulary too, so that an encoder keeps their ids where there are gaps in front of them.
        vocab.extend(special.iter().map(|(name, id)| ((*name).to_owned(), u64::from(*id))));

        let file = File {
            version: None,
            added_tokens: Some(special.iter().map(|(name, id)| special_token(name, *id)).collect()),
            normalizer: json!(null),
            pre_tokenizer: json!({"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
            ]}),
            post_processor: json!(null),
            decoder: json!({"type": "ByteLevel"}),
            model: Some(Model {
                r#type: Some("BPE".to_owned()),
                vocab: Some(Vocab::Ids(vocab)),
                merges: Some(merges),
                ignore_merges: Some(true),
                dropout: None,
                unk_token: None,
                unk_id: None,
                continuing_subword_prefix: None,
                end_of_word_suffix: None,
                fuse_unk: None,
                byte_fallback: None,
                max_input_chars_per_word: None,
            }),
            dialect: Dialect::FancyRegex,
        };
        Self::from_json(file, limits)
    }
}

fn special_token(name: &str, id: u32) -> Added {
    Added {
        id: u64::from(id),
        content: name.to_owned(),
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
    }
}

/// The tokens with their ranks, in the order of ranks.
fn lines(bytes: &[u8], limits: &Limits) -> Result<Vec<(Vec<u8>, u32)>, TokenizerError> {
    if bytes.len() > limits.file_bytes {
        return Err(TokenizerError::FileTooLarge { limit: limits.file_bytes });
    }
    let mut tokens: Vec<(Vec<u8>, u32)> = Vec::new();
    let mut line_of: HashMap<u32, usize> = HashMap::new();
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let wrong = |reason: String| TokenizerError::RankFile { line: number, reason };
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let (token, rank) = line
            .iter()
            .position(|byte| *byte == b' ')
            .map(|space| (&line[..space], &line[space + 1..]))
            .ok_or_else(|| wrong("there is no space".to_owned()))?;
        let shown = || quoted(&String::from_utf8_lossy(token));
        let decoded = base64::decode(token).ok_or_else(|| wrong(format!("{} is not base64", shown())))?;
        let rank: u64 = std::str::from_utf8(rank)
            .ok()
            .and_then(|rank| rank.parse().ok())
            .ok_or_else(|| wrong(format!("the rank of {} is not a number", shown())))?;
        let rank = checked_id(&shown(), rank, limits)?;
        if decoded.is_empty() || decoded.len() > TOKEN_LIMIT.min(limits.token_bytes) {
            let limit = TOKEN_LIMIT.min(limits.token_bytes);
            return Err(wrong(format!("a token of {} bytes; 1 to {limit} are possible", decoded.len())));
        }
        if let Some(first) = line_of.insert(rank, number) {
            return Err(wrong(format!("rank {rank} is also on line {first}")));
        }
        if let Some(first) = seen.insert(decoded.clone(), number) {
            return Err(wrong(format!("the token {} is also on line {first}", shown())));
        }
        tokens.push((decoded, rank));
    }
    tokens.sort_unstable_by_key(|(_, rank)| *rank);
    Ok(tokens)
}

/// Where the last join of `token` is, if the joins before it leave two parts. O(n²) for n bytes.
fn last_join(token: &[u8], ranks: &HashMap<&[u8], u32>) -> Option<usize> {
    // The beginnings of the parts, and the end; joins[i] is the rank of the token that parts i and i + 1 make.
    let mut bounds: Vec<usize> = (0..=token.len()).collect();
    let join = |bounds: &[usize], at: usize| ranks.get(&token[bounds[at]..*bounds.get(at + 2)?]).copied();
    let mut joins: Vec<Option<u32>> =
        (0..token.len().saturating_sub(1)).map(|at| join(&bounds, at)).collect();
    while bounds.len() > 3
        && let Some((_, at)) = joins.iter().zip(0..).filter_map(|(rank, at)| Some(((*rank)?, at))).min()
    {
        bounds.remove(at + 1);
        joins.remove(at);
        if at > 0 {
            joins[at - 1] = join(&bounds, at - 1);
        }
        if at < joins.len() {
            joins[at] = join(&bounds, at);
        }
    }
    match bounds.as_slice() {
        [_, middle, _] => Some(*middle),
        _ => None,
    }
}
