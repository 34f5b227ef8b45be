//! From a [`Spec`] and the tokens of a model to a constraint of a request.

use std::{borrow::Cow, fmt::Display, path::Path, sync::Arc};

use unskew_core::{TokenId, TokenKind};
use unskew_engine::{Compiled, Compiler, Language, Spec, TokenSpace, Until};

use super::{Event, Observer, error::Result};

/// The constraint of `spec` on outputs that begin with `healed`, kept for the next request over the same tokens.
/// `observer` hears of lines that are left out of a set, and of the reading of large files.
pub(crate) fn compile(
    spec: &Spec,
    tokens: &Arc<TokenSpace>,
    healed: &str,
    observer: &Observer,
) -> Result<Compiled> {
    tokens.notes().iter().for_each(|note| observer.note(format_args!("note: {note}")));
    spec.notes().iter().for_each(|note| observer.note(format_args!("warning: {note}")));
    // The constraint is made on the CPU, and goes to a GPU from there.
    let mut spec = Cow::Borrowed(spec);
    if asks_for_gpu(&spec)
        && let Language::Set(set) = &mut spec.to_mut().language
    {
        set.gpu = false;
    }
    Ok(Compiler::shared(tokens).compile_behind(healed, &spec, &Until::default(), observer)?)
}

/// Notes what a canonical constraint leaves out where an output behind `prompt` begins a text: there is no prompt, or
/// it ends with a control token.
pub(crate) fn note_space(spec: &Spec, tokens: &TokenSpace, prompt: &[TokenId], observer: &Observer) {
    let is_control = |last: &TokenId| tokens.vocabulary().kind(*last) == TokenKind::Control;
    if spec.canonical && tokens.prepends_space() && prompt.last().is_none_or(is_control) {
        observer.note(
            "note: the output begins a text, where this tokenizer writes a space that a constraint has to allow: \
             `canonical` outputs without it are spelled as inside of a text; allow a space first, such as ` ?` in a regex",
        );
    }
}

impl unskew_engine::Progress for Observer {
    fn note(&self, text: &str) {
        Self::note(self, text);
    }

    fn reading(&self, path: &Path, bytes: u64, of: u64) {
        self.tell(Event::Reading { path, bytes, of });
    }

    fn read(&self, path: &Path) {
        self.tell(Event::Read { path });
    }
}

/// Whether a set is asked for whose candidates a GPU verifies.
pub(crate) fn asks_for_gpu(spec: &Spec) -> bool {
    matches!(&spec.language, Language::Set(set) if set.gpu)
}

/// The constraint with candidates that a GPU verifies, or the one that there is, and a note that says why.
pub(crate) fn on_gpu(compiled: Compiled, observer: &Observer) -> Compiled {
    let note = |observer: &Observer, reason: &dyn Display| {
        observer.note(format_args!("warning: `gpu`: {reason}; the CPU does the work"));
    };
    #[cfg(feature = "gpu")]
    if let Some(set) = compiled.set() {
        use unskew_sets::{Gpu, GpuSetConstraint};
        let hears = observer.clone();
        let on_gpu = Gpu::new().and_then(|gpu| {
            GpuSetConstraint::new(set.clone(), gpu, move |error| {
                note(&hears, &unskew_engine::chain(error));
            })
        });
        match on_gpu {
            Ok(constraint) => return Compiled::own(constraint, compiled.tokens()),
            Err(error) => note(observer, &unskew_engine::chain(&error)),
        }
    }
    #[cfg(not(feature = "gpu"))]
    note(observer, &"this program was built without the feature \"gpu\"");
    compiled
}
