//! Structural tags: free text with tools in it, in the format of XGrammar that servers make of tool calls.
//!
//! The format is a tree of objects, each with a `type`. It is lowered to a [`Grammar`] as it is read, part by part,
//! so masks, trees and caches are those of any grammar. Where an object cannot be enforced exactly, the error names
//! it by a JSON pointer.
//!
//! # Meaning
//!
//! | `type` | texts |
//! |---|---|
//! | `const_string` | `value` |
//! | `json_schema` | JSON that satisfies `json_schema`, without `excludes` in its strings; with a `style`, the arguments of a call as that model writes them (`style`) |
//! | `any_text` | free text without `excludes`, of at most `max_chars` characters and `max_tokens` whole tokens |
//! | `grammar`, `regex` | the words of a grammar in the EBNF of XGrammar; the texts that `pattern` matches as a whole |
//! | `sequence`, `or`, `optional`, `plus`, `star`, `repeat` | as in a regular expression |
//! | `tag` | `begin`, which is a text, a `token` or a `regex`, then `content`, then one of `end` |
//! | `triggered_tags` | free text in which a trigger begins a tag: the rest of a tag that begins with it follows |
//! | `tags_with_separator` | tags with `separator` between them |
//! | `dispatch` | free text in which a pattern of `rules` is followed by its format |
//! | `token` | one token, by its number, its name or its text; with `or_text`, the control token of this name, or the text where there is none |
//! | `exclude_token` | one token but `exclude_tokens` |
//! | `any_tokens` | tokens but `exclude_tokens`, at most `max_tokens` |
//! | `token_triggered_tags`, `token_dispatch` | free tokens, with tokens as triggers |
//! | `qwen_xml_parameter` | `json_schema` in the style `qwen_xml` |
//!
//! - Free text is valid UTF-8. The first trigger counts, wherever tokens divide it; of two that end together, the
//!   longer one (`free`).
//! - Free text inside of a tag contains none of the ends of this tag, also where it is a part of its content; that of
//!   a tag inside has ends of its own, and that of `dispatch` only its `excludes`, but for the contents of its rules.
//! - A token counts as itself: another spelling of its text is no such token, and beside it the same token may be
//!   text. Free tokens are of any bytes, also of half a character, and a text that ends the tag may be a part of
//!   them; a token that ends it may not (`tokens`).
//! - `excludes` of `json_schema` are texts that no string and no name has between its quotes, as it is written: an
//!   escape may have one in it.
//! - In a `style`, the schema of the arguments is any one of objects ([`unskew_schema::ElementStyle`]). An object that
//!   declares members and says nothing of others has no others; one that declares nothing has any. The style
//!   `minimax_m3_xml` repeats a name after its value, so it has declared names alone. A text that a parser reads as a
//!   value of another type of its schema is no string: `[draft]` where there may be an array.
//! - With `"unenforced_tools": "free"` beside `format`, a schema inside of a tag that cannot be enforced is left out:
//!   JSON is any then, and elements are free text up to the end of the tag. Other tags stay in force. By default
//!   (`"error"`) it is an error.
//! - With `at_least_one`, the first tag stands at the beginning, and text may follow it. With `stop_after_first`,
//!   nothing follows the first tag.
//! - White space in JSON is that of the [`Spec`](crate::Spec), by default bounded. A part says
//!   otherwise by `max_whitespace_cnt`, a number, or by `whitespace`, a name of the options of a [`Spec`](crate::Spec).
//! - `{"structures": [{"begin", "schema", "end"}], "triggers": [...]}` is the older form of `triggered_tags`.
//!
//! # Differences from XGrammar 0.2.8
//!
//! 5,000 random tags with twelve sequences of tokens each were read by both; these are the reasons of all differences
//! (`benches/record/tags.md`).
//!
//! | here | there |
//! |---|---|
//! | free text is valid UTF-8 | any bytes |
//! | `star` passes the ends of the tag on, as `plus` does | it does not |
//! | a trigger fires also inside of an excluded text that is not complete | there it may not |
//! | `any_order`: each member once at most, required ones once | members may repeat and be missing |
//! | `begin` may be a `regex`, all of whose texts begin with the trigger: ids of calls with a number in them | a text or a token |
//! | white space is bounded where `max_whitespace_cnt` says nothing | any number |
//! | a trigger that cannot fire, or that no tag begins with, is an error | it is accepted, or an internal error |
//! | a token that may be text and itself at once goes on in both ways | a token of several bytes goes on as text |
//! | `max_tokens` of `any_tokens` holds for tokens that are accepted too | it holds for masks alone |
//! | tokens inside of `repeat` are those that the format names | `exclude_tokens` has no effect, `token` is an error, `token_dispatch` may end the process |
//! | `max_chars` counts characters | with `excludes`, it counts the bytes of a character that lies in two tokens |
//! | names of parameters and of members come once each | those that are not declared may repeat |
//! | a parameter whose element says that it is no string is none, also under `allOf` | `42` passes as a string there |
//! | line breaks around a value are no part of it, in Qwen's style | they are a part of a string |
//! | numbers in the style `kimi_k3_xml` have the type `number` | without a schema also `integer` |
//! | `max_tokens` of `any_text`: no token crosses an end of the text, and at most so many are inside | a budget, which is exceeded where the text cannot end |
//! | `excludes` go together with `pattern`, `format`, `minLength` and `maxLength` | strings with the first two are not looked at, the others are dropped |
//!
//! Tried instead: a reader of the schemas of elements beside the one of JSON, which refused conditions that it did not
//! know. And Lark with lazy terminals. It has no texts that free text may not contain, and a schema is no part
//! of it.

mod free;
mod lower;
mod schemas;
pub(crate) mod style;
mod tokens;

use std::sync::Arc;

use serde_json::value::RawValue;
use unskew_core::{Cancel, Vocabulary};
use unskew_grammar::Grammar;
use unskew_schema::{Spelling, Whitespace};

use self::lower::Lowering;
use crate::{Explained, chain, spec::Numbers};

/// An object of a structural tag that cannot be enforced, or is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("structural tag, {}: {message}", if pointer.is_empty() { "/" } else { pointer })]
#[non_exhaustive]
pub struct TagError {
    /// Where it stands, as a JSON pointer.
    pub pointer: String,
    /// The reason, and a way out.
    pub message: String,
}

impl TagError {
    pub(crate) fn new(at: &str, message: impl Into<String>) -> Self {
        Self { pointer: at.to_owned(), message: message.into() }
    }

    fn of(at: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(at, chain(error))
    }
}

/// The circumstances in which a structural tag is read.
#[derive(Clone, Debug)]
pub(crate) struct TagOptions {
    /// Between the parts of JSON.
    pub(crate) whitespace: Whitespace,
    /// Which spellings of JSON are outputs.
    pub(crate) spelling: Spelling,
    pub(crate) limits: Arc<Numbers>,
    pub(crate) cancel: Cancel,
}

/// The grammar of the structural tag `text`. Control tokens are those of `vocabulary`; without one, any name is taken.
pub(crate) fn grammar(
    text: &str,
    vocabulary: Option<&Vocabulary>,
    options: &TagOptions,
) -> Result<Grammar, TagError> {
    lowered(text, vocabulary, options, false).0
}

/// The fate of each object that was read. The last one is the one that stopped it, if there is such.
pub(crate) fn explain(text: &str, options: &TagOptions) -> Vec<Explained> {
    let (made, mut read) = lowered(text, None, options, true);
    if let Err(TagError { pointer, message }) = made {
        // It was read up to here.
        read.retain(|explained| explained.pointer.as_deref() != Some(&*pointer));
        read.push(Explained {
            pointer: Some(pointer),
            span: None,
            construct: "structural tag".to_owned(),
            fate: "rejected",
            why: message,
        });
    }
    read
}

fn lowered(
    text: &str,
    vocabulary: Option<&Vocabulary>,
    options: &TagOptions,
    explains: bool,
) -> (Result<Grammar, TagError>, Vec<Explained>) {
    let mut lowering = Lowering::new(vocabulary, options, explains);
    let (len, most) = (text.len(), options.limits.tag.bytes);
    if len > most {
        let why = format!(
            "a tag of {len} bytes is longer than {most} (the limit `tag.bytes`); divide it, or leave schemas out"
        );
        return lowering.finish(Err(TagError::new("", why)));
    }
    let whole = serde_json::from_str::<&RawValue>(text)
        .map_err(|error| TagError::new("", format!("no JSON: {error}")))
        .and_then(|value| lowering.whole(value));
    lowering.finish(whole)
}
