//! The tokenizers library as the judge.
//!
//! Some tokenizers prepend to a text. A continuation of a text has no such prefix. Its ids are those of the file
//! without the prepending steps, but only up to the first added token: the text after an added token is a section of
//! its own, and the library prepends to each section. So the judge combines the library's parts as the library does,
//! with one difference: the section at the beginning of the text runs through the steps of the file without the
//! prepending ones, and every other section through all steps. If the file prepends nothing, `Tokenizer::encode` is
//! the judge, and the combination is asserted to give the same ids.
//!
//! Tried instead: to encode the text after a head (a line break) and to remove the ids of the head. This is not exact
//! if text and head are split or merged together (`\n` and `\n`), and each tokenizer would need another head.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use tokenizers::{
    Model as _, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType,
    PreTokenizer as _, Tokenizer,
};

use super::plan::Plan;

/// The library's tokenizer of a file.
pub(crate) struct Judge {
    full: Tokenizer,
    /// The same file without the steps that prepend, if it has any.
    without: Option<Tokenizer>,
}

/// The normaliser of a continuation.
struct Continued<'a> {
    full: Option<&'a NormalizerWrapper>,
    without: Option<&'a NormalizerWrapper>,
}

impl Normalizer for Continued<'_> {
    fn normalize(&self, section: &mut NormalizedString) -> tokenizers::Result<()> {
        let begins = section.offsets_original().0 == 0;
        let steps = if begins { self.without } else { self.full };
        steps.map_or(Ok(()), |steps| steps.normalize(section))
    }
}

impl Judge {
    /// The judge of a plan. If the library does not read the file, its reason.
    pub(crate) fn load(plan: &Plan) -> Result<Self, String> {
        let load = |plan: &Plan| {
            let mut file = plan.file();
            as_engine_reads(&mut file);
            let bytes = file.to_string();
            match quietly(|| Tokenizer::from_bytes(&bytes)) {
                Some(Ok(tokenizer)) => Ok(tokenizer),
                Some(Err(error)) => Err(format!("error: {error}")),
                None => Err("panic".to_owned()),
            }
        };
        let (without, same) = plan.without_prefix();
        let without = if same { None } else { Some(load(&without)?) };
        Ok(Self { full: load(plan)?, without })
    }

    /// The ids of `text` as a model writes it after a prompt; `None` if the library fails.
    pub(crate) fn encode(&self, text: &str) -> Option<Vec<u32>> {
        match &self.without {
            None => self.encode_whole(text),
            Some(without) => quietly(|| self.continued(without, text))?,
        }
    }

    /// The ids of `text` as a whole text.
    pub(crate) fn encode_whole(&self, text: &str) -> Option<Vec<u32>> {
        let encoding = quietly(|| self.full.encode(text, false))?;
        encoding.ok().map(|encoding| encoding.get_ids().to_vec())
    }

    /// Whether the combined parts give the ids of the whole text; true if the file prepends.
    pub(crate) fn parts_are_the_whole(&self, text: &str) -> bool {
        self.without.is_some()
            || quietly(|| self.continued(&self.full, text)).flatten() == self.encode_whole(text)
    }

    pub(crate) fn decode(&self, ids: &[u32]) -> Option<String> {
        quietly(|| self.full.decode(ids, false))?.ok()
    }

    fn continued(&self, without: &Tokenizer, text: &str) -> Option<Vec<u32>> {
        let steps = Continued { full: self.full.get_normalizer(), without: without.get_normalizer() };
        let sections = self.full.get_added_vocabulary().extract_and_normalize(Some(&steps), text);
        // The text before the first added token is read without the prefix, and the rest with it.
        let mut ids = Vec::new();
        for (tokenizer, is_first) in [(without, true), (&self.full, false)] {
            let mut pieces = sections.clone();
            if let Some(splits) = tokenizer.get_pre_tokenizer() {
                splits.pre_tokenize(&mut pieces).ok()?;
            }
            let mut added = 0;
            for (piece, _, tokens) in pieces.get_splits(OffsetReferential::Original, OffsetType::Byte) {
                added += usize::from(tokens.is_some());
                if (added == 0) != is_first {
                    continue;
                }
                match tokens {
                    Some(tokens) => ids.extend(tokens.iter().map(|token| token.id)),
                    None => ids.extend(
                        tokenizer.get_model().tokenize(piece).ok()?.into_iter().map(|token| token.id),
                    ),
                }
            }
        }
        Some(ids)
    }
}

/// The library runs on `fancy-regex` here, and a file has the syntax of Oniguruma: what of it the drawn regexes have,
/// written for the engine. The loader's own translation is tested in its crate.
fn as_engine_reads(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let (true, Value::String(regex)) = (name == "Regex", &mut *value) {
                    *regex = SYNTAX.iter().fold(regex.clone(), |regex, (from, to)| regex.replace(from, to));
                }
                as_engine_reads(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(as_engine_reads),
        _ => {}
    }
}

const SYNTAX: [(&str, &str); 5] = [
    (r"\s+$", r"\s+(?=\n|\z)"),
    (r"\s++$", r"\s++(?=\n|\z)"),
    (r"{1,3}+", "+"),
    (r"[^\w\s]", r"[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\s]"),
    (r"\w", r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}²³¹¼½¾]"),
];

thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The result of `call`, or `None` if it panics. The panic is not printed.
pub(crate) fn quietly<T>(call: impl FnOnce() -> T) -> Option<T> {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let answer = catch_unwind(AssertUnwindSafe(call));
    QUIET.set(before);
    answer.ok()
}

/// The first section of a continuation gets no prefix, and the sections after an added token get one.
#[test]
fn only_later_sections_are_prepended_to() {
    use super::{
        plan::{Added, Spelling},
        steps,
    };
    let mut plan = Plan::new(Spelling::Mark('▁'));
    plan.tokens = ["a", "b", "▁", "▁b"].map(str::to_owned).to_vec();
    plan.merges = vec![("▁".to_owned(), "b".to_owned())];
    plan.added = vec![Added::text("<x>", false)];
    let mut by_normalizer = plan.clone();
    by_normalizer.normalizers = vec![steps::prepend("▁"), steps::replace(" ", "▁")];
    let judge = Judge::load(&by_normalizer).unwrap();
    assert_eq!(judge.encode("b<x>b b"), Some(vec![1, 4, 3, 3]));
    let mut by_splitter = plan.clone();
    by_splitter.splits = vec![steps::metaspace("always", true)];
    let judge = Judge::load(&by_splitter).unwrap();
    assert_eq!(judge.encode_whole("b<x>b"), Some(vec![3, 4, 3]));
    assert_eq!(judge.encode("b<x>b"), Some(vec![1, 4, 3]));
    assert_eq!(judge.encode(" b"), Some(vec![3]));
    assert_eq!(judge.encode("<x>b b"), Some(vec![4, 3, 3]));
    // `first` is the beginning of the text, which a continuation does not have.
    by_splitter.splits = vec![steps::metaspace("first", true)];
    let judge = Judge::load(&by_splitter).unwrap();
    assert_eq!(judge.encode_whole("b<x>b"), Some(vec![3, 4, 1]));
    assert_eq!(judge.encode("b<x>b"), Some(vec![1, 4, 1]));
}
