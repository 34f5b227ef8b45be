//! The program `unskew`: the command line of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "llama-cpp")]
    unskew::llama_cpp::wait_passively();
    ExitCode::from(unskew::command_line::run(std::env::args_os()))
}
