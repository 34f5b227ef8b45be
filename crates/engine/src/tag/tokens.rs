//! Formats of tokens: control tokens as triggers, and text with control tokens in it.
//!
//! A control token is a terminal of a grammar by its name. A token of text is not: the same text is spelled by other tokens, and a grammar
//! tells texts apart. So a token of text is an error here, whose way out is its text.

use serde::Deserialize;
use serde_json::value::RawValue;
use unskew_core::{TokenId, TokenKind};
use unskew_grammars::ExprId;

use super::{
    TagError,
    lower::{Around, Begin, Lowering, Made, Tag, pair},
};
use crate::fields::Fields;

/// Where a token is named: by number, or by name.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum TokenName {
    Number(u32),
    Name(String),
}

impl Lowering<'_> {
    pub(super) fn token_triggered(
        &mut self,
        fields: &Fields,
        triggers: &[String],
        excluded: &[String],
        tags: Vec<Tag>,
        (at_least_one, stop_after_first): (bool, bool),
        around: Around<'_>,
    ) -> Made {
        let mut whole = Vec::new();
        for Tag { at, begin, rest } in tags {
            let Begin::Token(name) = begin else {
                return Err(TagError::new(&at, "`begin` is a text; use `triggered_tags`"));
            };
            if !triggers.contains(&name) {
                return Err(TagError::new(&at, format!("`begin` {name:?} is no trigger")));
            }
            whole.push((name, rest));
        }
        if let Some(unused) = triggers.iter().find(|name| !whole.iter().any(|(begin, _)| begin == *name)) {
            return Err(fields.error(format!("no tag begins with the trigger {unused:?}")));
        }
        if at_least_one {
            let tags: Vec<ExprId> = whole
                .iter()
                .map(|(name, rest)| {
                    let begin = self.builder.token(name);
                    self.builder.sequence([begin, *rest])
                })
                .collect();
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
            let name = self.named_token(&name, &format!("{at}/0"))?;
            rules.push((name, self.format(&content, &format!("{at}/1"), inside)?));
        }
        if rules.is_empty() {
            return Err(TagError::new(&fields.place("rules"), "at least one is needed"));
        }
        // Its own excludes alone.
        let around = Around { ends: &[], end_token: None, ..around };
        self.token_looped(&fields.at, &rules, &excluded, loops, around)
    }

    pub(super) fn token_looped(
        &mut self,
        at: &str,
        rules: &[(String, ExprId)],
        excluded: &[String],
        loops: bool,
        around: Around<'_>,
    ) -> Made {
        let mut not_free = excluded.to_vec();
        for (name, _) in rules {
            if excluded.contains(name) {
                return Err(TagError::new(at, format!("the trigger {name:?} is excluded")));
            }
            not_free.push(name.clone());
        }
        let free = self.free_tokens(at, &not_free, around)?;
        let units: Vec<ExprId> = rules
            .iter()
            .map(|(name, rest)| {
                let trigger = self.builder.token(name);
                self.builder.sequence([free, trigger, *rest])
            })
            .collect();
        let unit = self.builder.choice(units);
        if loops {
            let units = self.builder.repeat(unit, 0, None);
            return Ok(self.builder.sequence([units, free]));
        }
        Ok(self.builder.choice([unit, free]))
    }

    /// Texts with control tokens between them that are not excluded.
    pub(super) fn free_tokens(&mut self, at: &str, excluded: &[String], around: Around<'_>) -> Made {
        let Some(vocabulary) = self.vocabulary else { return self.text(at, around.ends) };
        let is_free =
            |name: &str| !excluded.iter().any(|other| other == name) && around.end_token != Some(name);
        let tokens = vocabulary
            .control_tokens()
            .filter(|(id, name)| !vocabulary.is_end_of_sequence(*id) && is_free(name));
        let tokens: Vec<ExprId> = tokens.map(|(_, name)| self.builder.token(&name)).collect();
        let text = self.text(at, around.ends)?;
        if tokens.is_empty() {
            return Ok(text);
        }
        let token = self.builder.choice(tokens);
        let more = self.builder.sequence([token, text]);
        let more = self.builder.repeat(more, 0, None);
        Ok(self.builder.sequence([text, more]))
    }

    pub(super) fn token(&mut self, fields: &mut Fields, name: &str) -> Made<String> {
        let token: TokenName = fields.required(name)?;
        self.named_token(&token, &fields.place(name))
    }

    pub(super) fn token_names(&mut self, fields: &mut Fields, name: &str) -> Made<Vec<String>> {
        let tokens: Vec<TokenName> = fields.get(name)?.unwrap_or_default();
        let at = fields.place(name);
        tokens.iter().map(|token| self.named_token(token, &at)).collect()
    }

    /// The name of a token in place of a text: `{"type": "token", "token": ...}`.
    pub(super) fn token_format(&mut self, value: &RawValue, at: &str) -> Made<String> {
        let mut fields = Fields::read(value, at)?;
        let kind: Option<String> = fields.get("type")?;
        if kind.is_some_and(|kind| kind != "token") {
            return Err(fields.error("a text or a `token` may stand here"));
        }
        let name = self.token(&mut fields, "token")?;
        fields.finish()?;
        Ok(name)
    }

    /// The name of a control token. A token of text is none: its text may be spelled by other tokens.
    pub(super) fn named_token(&self, token: &TokenName, at: &str) -> Made<String> {
        let Some(vocabulary) = self.vocabulary else {
            return Ok(match token {
                TokenName::Number(number) => number.to_string(),
                TokenName::Name(name) => name.clone(),
            });
        };
        let text = |name: &str| {
            TagError::new(
                at,
                format!(
                    "the token {name:?} has a text, and other tokens may spell it: use `const_string` or a text as `begin`"
                ),
            )
        };
        match token {
            TokenName::Number(number) => {
                let id = TokenId(*number);
                match vocabulary.kind(id) {
                    TokenKind::Control => Ok(vocabulary.name(id).into_owned()),
                    TokenKind::Text => Err(text(&vocabulary.name(id))),
                    TokenKind::Unused => {
                        Err(TagError::new(at, format!("the vocabulary has no token {number}")))
                    }
                }
            }
            TokenName::Name(name) => {
                if vocabulary.control_tokens().any(|(_, other)| other == *name) {
                    return Ok(name.clone());
                }
                if vocabulary.text_tokens().any(|(_, other)| other == name.as_bytes()) {
                    return Err(text(name));
                }
                Err(TagError::new(at, format!("the vocabulary has no control token {name:?}")))
            }
        }
    }
}
