//! The options of the prompts of `unskew generate`: one prompt, or a file of them.

use std::path::PathBuf;

use clap::Args;

use super::number;

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The text in front of the output
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// Prompts, one a line: `{"prompt": "..."}`, or `{"messages": [...]}` for the messages of a chat; `-` reads
    /// standard input, and answers each line as it comes. Each prompt has -n outputs, and each output names its prompt:
    /// the first is 0
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub(crate) prompts: Option<PathBuf>,
    /// Leave out the first K prompts. The others keep their numbers, and the outputs that they have for --seed
    #[arg(long, value_name = "K", requires = "prompts", default_value = "0", value_parser = number::<usize>("--skip-prompts"))]
    pub(crate) skip_prompts: usize,
    /// The prompt is a message of a user: it is put into the checkpoint's chat template, and the output is the answer.
    /// The template is shown the tools of --tools
    #[arg(long, conflicts_with = "heal")]
    pub(crate) chat: bool,
}
