//! A constraint as a text in GBNF, for programs that embed llama.cpp.

use unskew_core::Cancel;
use unskew_notation::{Gbnf, GbnfOptions, Loosening, LooseningKind, to_gbnf};

use crate::{
    Error, Result, Spec,
    compiler::{
        compile::of_file,
        grammars::{Around, of_language, take_fuel},
    },
};

/// The default of the greatest length of a text in GBNF, in bytes.
pub const GBNF_BYTES: usize = 200_000;

impl Spec {
    /// The constraint in GBNF, which llama.cpp reads, in at most `max_bytes` bytes. The text has all outputs of the
    /// constraint, and more at each place of [`Gbnf::loosened`]; with `strict` such a place is an error.
    ///
    /// Cost: reading the constraint, and the length of the text.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_engine::{GBNF_BYTES, Spec};
    ///
    /// let spec = Spec::regex("[a-z]{2,5}|[0-9]+");
    /// let gbnf = spec.to_gbnf(GBNF_BYTES, true)?;
    /// assert_eq!(gbnf.text, "root ::= [0-9]+ | [a-z]{2,5}\n");
    /// # Ok::<(), unskew_engine::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] where the constraint has a fault, has no grammar, or has a part that GBNF does not describe; where
    /// the text is too long; and with `strict` where it allows more than the constraint.
    pub fn to_gbnf(&self, max_bytes: usize, strict: bool) -> Result<Gbnf> {
        if self.end.is_some() {
            return Err(Error::combination(
                "`end` says who ends an output, and the reader of a text in GBNF decides that; leave it out",
            ));
        }
        let around = Around::new(None, self.limits.numbers(), Cancel::default());
        let (path, grammar) = of_language(&self.language, &around)?;
        take_fuel(&grammar, &Cancel::default(), around.grammars())?;
        let mut options = GbnfOptions::default();
        options.max_bytes = max_bytes;
        options.limits = around.grammars().regex.clone();
        let mut gbnf = to_gbnf(&grammar, &options).map_err(|error| of_file(path, error))?;
        let mut whole = |kind| gbnf.loosened.push(Loosening::new(kind, "root"));
        if self.canonical {
            whole(LooseningKind::Canonical);
        }
        match &gbnf.loosened[..] {
            [first, ..] if strict => Err(Error::combination(format!(
                "in GBNF the constraint allows more in {} places, the first is {first}; change them, or leave out `strict`",
                gbnf.loosened.len()
            ))),
            _ => Ok(gbnf),
        }
    }
}
