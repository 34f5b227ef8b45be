//! The options of calls of tools.

use std::path::{Path, PathBuf};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};

use crate::{
    Spec,
    command_line::{
        error::{Failure, Result},
        plain::say,
    },
    core::Vocabulary,
    engine::{CallStyle, Tools},
    read,
};

#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// The output calls these tools: OpenAI's `[{"type": "function", "function": {...}}]`, or the result of
    /// `tools/list` of an MCP server, `{"tools": [{"name": ..., "inputSchema": {...}}]}`
    #[arg(long, value_name = "FILE", group = "constraint", requires = "tool_style")]
    pub(crate) tools: Option<PathBuf>,
    /// How the model writes a call
    #[arg(long, value_name = "STYLE", requires = "tools", value_parser = styles())]
    tool_style: Option<String>,
    /// Which calls: `auto` (text, and calls where the model makes some), `required` (one call or more), or the tool of
    /// this name (one call of it)
    #[arg(long, value_name = "auto|required|NAME", requires = "tools", default_value = "auto")]
    tool_choice: String,
}

fn styles() -> PossibleValuesParser {
    PossibleValuesParser::new(CallStyle::ALL.map(|(name, _, about)| PossibleValue::new(name).help(about)))
}

impl ToolArgs {
    fn style(&self) -> Option<CallStyle> {
        let mut styles = CallStyle::ALL.into_iter();
        styles.find(|(name, ..)| Some(*name) == self.tool_style.as_deref()).map(|(_, style, _)| style)
    }

    /// Warns of a mark that the model has a token for.
    pub(crate) fn note(&self, vocabulary: &Vocabulary) {
        if let Some(token) = self.style().and_then(|style| style.control_token(vocabulary)) {
            say(format_args!(
                "warning: {token} is a control token of this model, and --tool-style writes its text, which the model does not; \
                 --structural-tag can name the token"
            ));
        }
    }

    /// The constraint of the tools that are given.
    pub(crate) fn spec(&self) -> Result<Option<Spec>> {
        match (&self.tools, self.style()) {
            (Some(path), Some(style)) => Ok(Some(tools(path)?.spec(style, &self.tool_choice)?)),
            _ => Ok(None),
        }
    }
}

/// The tools in a file.
pub(crate) fn tools(path: &Path) -> Result<Tools> {
    Tools::from_json(&read::text(path)?).map_err(|error| Failure::file(path, error))
}
