//! The prompts of a run: that of `--prompt`, or the lines of `--prompts`.
//!
//! A file is read before the first output, so that a line that is no prompt ends nothing half-way. Standard input is
//! read line by line: another program may wait for the answer before it asks again.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Chat, Prompt,
    command_line::{
        args::{PromptArgs, ToolArgs, tools},
        error::Result,
        lines::{JsonLines, is_input},
    },
    tools::Tool,
};

/// A line: one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    prompt: Option<String>,
    messages: Option<Box<RawValue>>,
}

enum Left {
    One(Option<Prompt>),
    Read(std::vec::IntoIter<Prompt>),
    Lines(JsonLines),
}

/// The prompts that are left of a run.
pub(crate) struct Prompts {
    left: Left,
    reader: Reader,
    /// The number of the next one.
    number: u64,
    skipped: u64,
}

/// How prompts are read.
struct Reader {
    is_chat: bool,
    heals: bool,
    /// The tools that a chat template is shown, as JSON.
    tools: Option<String>,
}

impl Reader {
    fn new(is_chat: bool, heals: bool, given: &ToolArgs) -> Result<Self> {
        let read = given.tools.as_deref().map(tools).transpose()?;
        Ok(Self { is_chat, heals, tools: read.map(|tools| Tool::to_json(&tools)) })
    }

    fn text(&self, text: &str) -> Result<Prompt> {
        if self.is_chat { self.chat(Chat::user(text)) } else { Ok(text.into()) }
    }

    fn chat(&self, chat: Chat) -> Result<Prompt> {
        Ok(match &self.tools {
            Some(tools) => chat.with_tools(tools)?.into(),
            None => chat.into(),
        })
    }

    fn next(&self, lines: &mut JsonLines) -> Result<Option<Prompt>> {
        let prompt = match lines.next()? {
            None => return Ok(None),
            Some(Line { prompt: Some(text), messages: None }) => self.text(&text)?,
            Some(Line { prompt: None, messages: Some(_) }) if self.heals => {
                return Err(lines.at(&"--heal is for texts, and these are messages; leave it out"));
            }
            Some(Line { prompt: None, messages: Some(messages) }) => {
                self.chat(Chat::from_json(messages.get()).map_err(|error| lines.at(&error))?)?
            }
            Some(_) => return Err(lines.at(&r#"give either "prompt" or "messages""#)),
        };
        Ok(Some(prompt))
    }
}

/// The prompt of an option.
pub(crate) fn one(text: &str, is_chat: bool, tools: &ToolArgs) -> Result<Prompt> {
    Reader::new(is_chat, false, tools)?.text(text)
}

impl Prompts {
    pub(crate) fn open(args: &PromptArgs, heals: bool, tools: &ToolArgs) -> Result<Self> {
        let reader = Reader::new(args.chat, heals, tools)?;
        let left = match &args.prompts {
            None => Left::One(Some(reader.text(&args.prompt)?)),
            Some(path) if is_input(path) => Left::Lines(JsonLines::open(path)?),
            Some(path) => {
                let mut lines = JsonLines::open(path)?;
                let mut read = Vec::new();
                while let Some(prompt) = reader.next(&mut lines)? {
                    read.push(prompt);
                }
                Left::Read(read.into_iter())
            }
        };
        Ok(Self { left, reader, number: 0, skipped: args.skip_prompts as u64 })
    }

    /// How many are left, where that is known.
    pub(crate) fn left(&self) -> Option<usize> {
        match &self.left {
            Left::One(prompt) => Some(usize::from(prompt.is_some())),
            Left::Read(prompts) => Some(prompts.len()),
            Left::Lines(_) => None,
        }
    }

    /// The other prompts of a file that was read, which are then done with; `None` where there are none, or more may
    /// come.
    pub(crate) fn known(&mut self) -> Option<Vec<Prompt>> {
        match &mut self.left {
            Left::Read(prompts) if prompts.len() > 0 => Some(prompts.collect()),
            _ => None,
        }
    }

    /// The next prompt with its number.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Prompt)>> {
        loop {
            let prompt = match &mut self.left {
                Left::One(prompt) => prompt.take(),
                Left::Read(prompts) => prompts.next(),
                Left::Lines(lines) => self.reader.next(lines)?,
            };
            let Some(prompt) = prompt else { return Ok(None) };
            let number = self.number;
            self.number += 1;
            if number >= self.skipped {
                return Ok(Some((number, prompt)));
            }
        }
    }
}
