//! The options of calls of tools.

use std::path::{Path, PathBuf};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};

use crate::{
    Spec,
    command_line::error::{Failure, Result},
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
    /// The constraint of the tools that are given.
    pub(crate) fn spec(&self) -> Result<Option<Spec>> {
        let style = CallStyle::ALL.into_iter().find(|(name, ..)| Some(*name) == self.tool_style.as_deref());
        match (&self.tools, style) {
            (Some(path), Some((_, style, _))) => Ok(Some(tools(path)?.spec(style, &self.tool_choice)?)),
            _ => Ok(None),
        }
    }
}

/// The tools in a file.
pub(crate) fn tools(path: &Path) -> Result<Tools> {
    Tools::from_json(&read::text(path)?).map_err(|error| Failure::file(path, error))
}
