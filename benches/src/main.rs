//! `unskew-bench`: all benchmarks as subcommands. `cargo xtask bench SUBCOMMAND` builds it with the features that the
//! subcommand needs (`peers`, `memory`, `burn`, `wgpu`) and passes the arguments on.

use std::process::ExitCode;

use unskew_benches::{Program, engine};

#[cfg(feature = "memory")]
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> ExitCode {
    #[cfg(feature = "memory")]
    let meter = Some(unskew_benches::Meter {
        current: || HEAP.current_usage(),
        peak: || HEAP.peak_usage(),
        reset: || HEAP.reset_peak_usage(),
    });
    #[cfg(not(feature = "memory"))]
    let meter = None;
    unskew_benches::run(&Program {
        regexes: with_peers(engine::ours(), Peers::Regexes),
        grammars: with_peers(engine::ours_for_grammars(), Peers::Grammars),
        published: with_peers(engine::ours_for_published(), Peers::Published),
        schemas: with_peers(engine::ours_for_schemas(), Peers::Schemas),
        meter,
    })
}

#[derive(Clone, Copy)]
enum Peers {
    Regexes,
    Grammars,
    Published,
    Schemas,
}

/// Ours come first: the masks of others are compared with those of the first engine.
#[allow(unused_mut, unused_variables, reason = "without the feature `peers` nothing is added")]
fn with_peers(mut engines: Vec<engine::Builder>, of: Peers) -> Vec<engine::Builder> {
    #[cfg(feature = "peers")]
    engines.extend(match of {
        Peers::Regexes => engine::peers::peers(),
        Peers::Grammars => engine::peers::peers_for_grammars(),
        Peers::Published => engine::peers::peers_for_published(),
        Peers::Schemas => engine::peers::peers_for_schemas(),
    });
    engines
}
