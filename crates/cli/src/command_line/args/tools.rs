//! The options of calls of tools.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    Spec,
    command_line::error::{Failure, Result},
    read,
    tools::{Tool, ToolChoice, ToolRequest},
};

#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// The output calls these tools: OpenAI's `[{"type": "function", "function": {...}}]`, or the result of
    /// `tools/list` of an MCP server, `{"tools": [{"name": ..., "inputSchema": {...}}]}`
    #[arg(long, value_name = "FILE", group = "constraint", requires = "tool_style")]
    pub(crate) tools: Option<PathBuf>,
    /// How the model writes a call: its family, such as `qwen_3`, `llama` or `hermes`, or its name, such as
    /// `Qwen/Qwen3-8B`
    #[arg(long, value_name = "FAMILY|MODEL", requires = "tools")]
    tool_style: Option<String>,
    /// Which calls: `auto` (text, and calls where the model makes some), `required` (one call or more), or the tool of
    /// this name (one call of it)
    #[arg(long, value_name = "auto|required|NAME", requires = "tools", default_value = "auto")]
    tool_choice: String,
}

impl ToolArgs {
    /// The constraint of the tools that are given.
    pub(crate) fn spec(&self) -> Result<Option<Spec>> {
        let (Some(path), Some(style)) = (&self.tools, &self.tool_style) else { return Ok(None) };
        let mut request = ToolRequest::of_model(style)?;
        request.choice = match &*self.tool_choice {
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            name => ToolChoice::Named(name.to_owned()),
        };
        Ok(Some(request.spec(&tools(path)?)?))
    }
}

/// The tools in a file.
pub(crate) fn tools(path: &Path) -> Result<Vec<Tool>> {
    Tool::list(&read::text(path)?, None).map_err(|error| Failure::file(path, error))
}
