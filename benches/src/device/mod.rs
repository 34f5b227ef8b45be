//! Kernels and models on an adapter of wgpu, timed there: `cargo xtask bench device`.
//!
//! - **Rows** ([`rows`]): logits that stay on the device beside logits that are read back.
//! - **Passes** ([`passes`]): passes of transformers, and the rate at which they read the weights.

mod passes;
mod rows;

use clap::{Args, ValueEnum};

use crate::{
    clock::use_cpu_time,
    options::{RecordOptions, at_least_one},
    record,
    sets::titles::TOKENS,
};

/// Rows and passes on an adapter of wgpu.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these parts
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Titles of the set that the rows are masked by
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    items: usize,
    /// Rounds that are counted
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one)]
    rounds: usize,
    /// Sequences of a batch
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,32")]
    batches: Vec<usize>,
    /// Shapes of the models whose passes are timed
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_enum, default_value = "smol")]
    shapes: Vec<passes::Model>,
    #[command(flatten)]
    record: RecordOptions,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Logits that stay on the device beside logits that are read back
    Rows,
    /// Passes of transformers
    Passes,
}

/// Measures and reports.
#[allow(clippy::print_stdout, reason = "a program that reports")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    use_cpu_time();
    let gpu = rows::model()?.gpu().map_err(|error| error.to_string())?;
    let wanted = |part: Part| options.parts.is_empty() || options.parts.contains(&part);
    let mut parts = String::new();
    if wanted(Part::Rows) {
        parts += &rows::report(options.items, &options.batches, options.rounds)?;
    }
    if wanted(Part::Passes) {
        for shape in &options.shapes {
            parts += &passes::report(*shape, &options.batches, options.rounds)?;
        }
    }
    // Mesa's names of its own.
    let software = ["llvmpipe", "lavapipe", "softpipe"].iter().any(|name| gpu.name().contains(name));
    let about = if software {
        " It is a software adapter, and this was not run on a GPU: nothing crosses a bus, and kernels run on the cores of the CPU."
    } else {
        ""
    };
    let report = format!(
        "# On a device, {}\n\n{}Adapter: {}.{about} {}.\n\n\
         Titles have 7.7 tokens by Zipf's distribution over {TOKENS} ids.\n{parts}",
        record::today(),
        record::host(),
        gpu.name(),
        record::command(),
    );
    print!("{report}");
    options.record.write("device", &report)
}
