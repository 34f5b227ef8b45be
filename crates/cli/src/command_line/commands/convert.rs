//! `unskew convert`: a constraint in another notation.

use std::io::Write;

use crate::command_line::{
    args::{ConvertArgs, Notation},
    error::Result,
    plain::say,
};

pub(crate) fn convert(args: &ConvertArgs, out: &mut dyn Write) -> Result<()> {
    let spec = args.constraint.spec()?;
    match args.format {
        Notation::Gbnf => {
            let gbnf = spec.to_gbnf(args.max_bytes, args.strict)?;
            for loosening in &gbnf.loosened {
                say(format_args!("looser at {loosening}"));
            }
            out.write_all(gbnf.text.as_bytes())?;
        }
    }
    Ok(out.flush()?)
}
