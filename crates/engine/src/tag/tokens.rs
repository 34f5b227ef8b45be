//! Formats of tokens: one token, tokens of any text, and tokens as triggers.
//!
//! A token counts as itself there, and its text does not: another spelling of the same text is no such token. So a
//! token of text is a terminal by its id ([`GrammarBuilder::one_of`](unskew_grammar::GrammarBuilder::one_of)), and
//! beside it a grammar may read the same token as text. Control tokens are terminals by their names. Where tokens are
//! counted, they are repeated that often.
//!
//! Free tokens are whole tokens of any bytes, and a tag inside of which they are does not keep them from spelling its
//! end: the format means tokens, and texts have formats of their own.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use unskew_core::{TokenId, TokenKind, TokenMask, Vocabulary};
use unskew_grammar::ExprId;

use super::{
    TagError,
    lower::{Around, Begin, Lowering, Made, Tag, pair},
};
use crate::fields::Fields;

/// Where a token is named: by number, or by its name or text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum TokenName {
    Number(u32),
    Name(String),
}

/// A token of the vocabulary, or several with the same text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    /// None of a control token without a vocabulary.
    ids: Vec<TokenId>,
    is_text: bool,
}

/// The sets of tokens of a tag, each once.
#[derive(Default)]
pub(super) struct Sets {
    /// The tokens that a mask may hold.
    written: Option<TokenMask>,
    /// By whether all others are meant, and the tokens in ascending order; `None` for no token.
    known: HashMap<(bool, Vec<TokenId>), Option<ExprId>>,
    bytes: usize,
    /// By name or text: the tokens, once one was asked for by its name.
    named: Option<HashMap<Vec<u8>, Named>>,
}

impl Lowering<'_> {
    pub(super) fn token_triggered(
        &mut self,
        fields: &Fields,
        triggers: &[Named],
        excluded: &[Named],
        tags: Vec<Tag>,
        (at_least_one, stop_after_first): (bool, bool),
        around: Around<'_>,
    ) -> Made {
        let mut whole = Vec::new();
        for Tag { at, begin, rest } in tags {
            let Begin::Token(token) = begin else {
                return Err(TagError::new(&at, "`begin` is a text; use `triggered_tags`"));
            };
            if !triggers.contains(&token) {
                return Err(TagError::new(&at, format!("`begin` {:?} is no trigger", token.name)));
            }
            whole.push((token, rest));
        }
        if let Some(unused) = triggers.iter().find(|token| !whole.iter().any(|(begin, _)| begin == *token)) {
            return Err(fields.error(format!("no tag begins with the trigger {:?}", unused.name)));
        }
        if at_least_one {
            let tags: Vec<ExprId> = whole
                .iter()
                .map(|(token, rest)| {
                    let begin = self.named(&fields.at, token)?;
                    Ok(self.builder.sequence([begin, *rest]))
                })
                .collect::<Made<_>>()?;
            let first = self.builder.choice(tags);
            if stop_after_first {
                return Ok(first);
            }
            let more = self.token_looped(&fields.at, &whole, excluded, true, around)?;
            return Ok(self.builder.sequence([first, more]));
        }
        self.token_looped(&fields.at, &whole, excluded, !stop_after_first, around)
    }

    pub(super) fn token_dispatch(&mut self, fields: &mut Fields, around: Around<'_>) -> Made {
        let excluded = self.token_names(fields, "exclude_tokens")?;
        let loops = fields.get("loop")?.unwrap_or(true);
        let inside = Around { nest: around.nest + 1, ..around };
        let mut rules = Vec::new();
        for (rule, at) in fields.items("rules")? {
            let (name, content): (TokenName, Box<RawValue>) = pair(&rule, &at)?;
            let token = self.token_named(&name, &format!("{at}/0"))?;
            rules.push((token, self.format(&content, &format!("{at}/1"), inside)?));
        }
        if rules.is_empty() {
            return Err(TagError::new(&fields.place("rules"), "at least one is needed"));
        }
        // Its own excludes alone.
        let around = Around { ends: &[], end_token: None, ..around };
        self.token_looped(&fields.at, &rules, &excluded, loops, around)
    }

    fn token_looped(
        &mut self,
        at: &str,
        rules: &[(Named, ExprId)],
        excluded: &[Named],
        loops: bool,
        around: Around<'_>,
    ) -> Made {
        let mut not_free = excluded.to_vec();
        for (token, _) in rules {
            if excluded.contains(token) {
                return Err(TagError::new(at, format!("the trigger {:?} is excluded", token.name)));
            }
            not_free.push(token.clone());
        }
        let free = self.free_tokens(at, &not_free, None, around)?;
        let units: Vec<ExprId> = rules
            .iter()
            .map(|(token, rest)| {
                let trigger = self.named(at, token)?;
                Ok(self.builder.sequence([free, trigger, *rest]))
            })
            .collect::<Made<_>>()?;
        let unit = self.builder.choice(units);
        if loops {
            let units = self.builder.repeat(unit, 0, None);
            return Ok(self.builder.sequence([units, free]));
        }
        Ok(self.builder.choice([unit, free]))
    }

    /// Any number of tokens but some, up to `most`.
    pub(super) fn free_tokens(
        &mut self,
        at: &str,
        excluded: &[Named],
        most: Option<u32>,
        around: Around<'_>,
    ) -> Made {
        Ok(match self.one_but(at, excluded, around)? {
            Some(one) => self.builder.repeat(one, 0, most),
            None => self.builder.empty(),
        })
    }

    /// One token but some, and but the one that ends the tag; `None` if no other is left.
    pub(super) fn one_but(
        &mut self,
        at: &str,
        excluded: &[Named],
        around: Around<'_>,
    ) -> Made<Option<ExprId>> {
        if self.vocabulary.is_none() {
            // Any text stands for the tokens where a tag is explained.
            return Ok(Some(self.builder.literal("a token")));
        }
        let all = excluded.iter().chain(around.end_token).flat_map(|token| token.ids.iter().copied());
        let name = match excluded {
            [] => "a token".to_owned(),
            _ => format!("a token but {} others", excluded.len()),
        };
        self.set(at, &name, true, all.collect())
    }

    /// A token by itself.
    pub(super) fn named(&mut self, at: &str, token: &Named) -> Made {
        if self.vocabulary.is_none() || !token.is_text {
            return Ok(self.builder.token(&token.name));
        }
        let set = self.set(at, &format!("the token {:?}", token.name), false, token.ids.clone())?;
        set.ok_or_else(|| TagError::new(at, "no mask holds this token"))
    }

    /// One of the tokens, or one of all `others`.
    fn set(&mut self, at: &str, name: &str, others: bool, mut tokens: Vec<TokenId>) -> Made<Option<ExprId>> {
        let Some(vocabulary) = self.vocabulary else { return Ok(None) };
        tokens.sort_unstable();
        tokens.dedup();
        let key = (others, tokens);
        if let Some(known) = self.sets.known.get(&key) {
            return Ok(*known);
        }
        let mut set = TokenMask::new(vocabulary.len());
        self.sets.bytes += size_of_val(set.words());
        let most = self.options.limits.tag.set_bytes;
        if self.sets.bytes > most {
            let why = format!(
                "the sets of tokens take more than {most} bytes (the limit `tag.set_bytes`); use fewer different ones"
            );
            return Err(TagError::new(at, why));
        }
        match others {
            true => {
                set = self.sets.written.get_or_insert_with(|| vocabulary.mask_tokens()).clone();
                key.1.iter().for_each(|token| set.as_mut().remove(*token));
            }
            false => key.1.iter().for_each(|token| set.as_mut().insert(*token)),
        }
        let made = (!set.none()).then(|| self.builder.one_of(name, set));
        self.sets.known.insert(key, made);
        Ok(made)
    }

    pub(super) fn token(&mut self, fields: &mut Fields, name: &str) -> Made<Named> {
        let token: TokenName = fields.required(name)?;
        self.token_named(&token, &fields.place(name))
    }

    pub(super) fn token_names(&mut self, fields: &mut Fields, name: &str) -> Made<Vec<Named>> {
        let tokens: Vec<TokenName> = fields.get(name)?.unwrap_or_default();
        let at = fields.place(name);
        tokens.iter().map(|token| self.token_named(token, &at)).collect()
    }

    /// A token in place of a text: `{"type": "token", "token": ...}`.
    pub(super) fn token_format(&mut self, value: &RawValue, at: &str) -> Made<Named> {
        let mut fields = Fields::read(value, at)?;
        let kind: Option<String> = fields.get("type")?;
        if kind.is_some_and(|kind| kind != "token") {
            return Err(fields.error("a text or a `token` may stand here"));
        }
        let token = self.token(&mut fields, "token")?;
        fields.finish()?;
        Ok(token)
    }

    /// The control token of this name, or its text where there is none.
    pub(super) fn token_or_text(&mut self, fields: &mut Fields) -> Made {
        let name: String = fields.required("token")?;
        let mut control = self.vocabulary.into_iter().flat_map(Vocabulary::control_tokens);
        match control.find(|(_, known)| *known == name) {
            Some((id, _)) => {
                let named = Named { name, ids: vec![id], is_text: false };
                self.named(&fields.at, &named)
            }
            None => Ok(self.builder.literal(name)),
        }
    }

    /// The token of this number; or the control token of this name, or all tokens of this text.
    fn token_named(&mut self, token: &TokenName, at: &str) -> Made<Named> {
        let Some(vocabulary) = self.vocabulary else {
            let name = match token {
                TokenName::Number(number) => number.to_string(),
                TokenName::Name(name) => name.clone(),
            };
            return Ok(Named { name, ids: Vec::new(), is_text: false });
        };
        match token {
            TokenName::Number(number) => {
                let id = TokenId(*number);
                let is_text = match vocabulary.kind(id) {
                    TokenKind::Control => false,
                    TokenKind::Text if vocabulary.text(id).is_some_and(|text| !text.is_empty()) => true,
                    TokenKind::Text => {
                        return Err(TagError::new(
                            at,
                            format!("the token {number} has no text and is in no mask"),
                        ));
                    }
                    TokenKind::Unused => {
                        return Err(TagError::new(at, format!("the vocabulary has no token {number}")));
                    }
                };
                Ok(Named { name: vocabulary.name(id).into_owned(), ids: vec![id], is_text })
            }
            TokenName::Name(name) => {
                let named = self.sets.named.get_or_insert_with(|| by_name(vocabulary));
                named.get(name.as_bytes()).cloned().ok_or_else(|| {
                    let why = format!("the vocabulary has no token with the name or the text {name:?}");
                    TagError::new(at, why)
                })
            }
        }
    }
}

/// The tokens by their texts, and control tokens by their names, which go first.
fn by_name(vocabulary: &Vocabulary) -> HashMap<Vec<u8>, Named> {
    let mut named: HashMap<Vec<u8>, Named> = HashMap::new();
    for (id, name) in vocabulary.control_tokens() {
        let token = || Named { name: name.to_string(), ids: vec![id], is_text: false };
        named.entry(name.as_bytes().to_vec()).or_insert_with(token);
    }
    for (id, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
        let name = || String::from_utf8_lossy(text).into_owned();
        let token = || Named { name: name(), ids: Vec::new(), is_text: true };
        let token = named.entry(text.to_vec()).or_insert_with(token);
        if token.is_text {
            token.ids.push(id);
        }
    }
    named
}
