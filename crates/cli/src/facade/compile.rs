//! From a [`Spec`] and the tokens of a model to a constraint of a request.

use std::{fmt::Display, path::Path, sync::Arc};

use unskew_core::AnyConstraint;
use unskew_engine::{Captures, Kind, Language, Spec, TokenSpace};
use unskew_grammars::GrammarConstraint;
use unskew_sets::SetConstraint;

use super::{Event, Observer, error::Result};

/// A constraint of which the kinds are told apart that some samplers read more of than masks.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    /// Drafts count tokens by place in it.
    Grammar(Arc<GrammarConstraint>),
    /// A GPU can draw from it.
    Set(SetConstraint),
    /// The reader of captures is there where a grammar names parts of its outputs.
    Other(AnyConstraint, Option<Arc<Captures>>),
    /// The user's own.
    Own(AnyConstraint),
}

/// The constraint of `spec` on outputs that begin with `healed`.
pub(crate) fn compile(
    spec: &Spec,
    tokens: &TokenSpace,
    healed: &str,
    observer: &Observer,
) -> Result<Compiled> {
    tokens.notes().iter().for_each(|note| observer.note(format_args!("note: {note}")));
    spec.notes().iter().for_each(|note| observer.note(format_args!("warning: {note}")));
    Ok(match tokens.kind(spec, healed, observer)? {
        Kind::Grammar(constraint) => Compiled::Grammar(constraint),
        Kind::Set(constraint) => Compiled::Set(constraint),
        other => {
            let captures = other.captures().cloned();
            Compiled::Other(other.into_any(), captures)
        }
    })
}

/// The constraint that `spec` describes over `tokens`, on a GPU where `spec` asks for one. `observer` hears of lines
/// that are left out of a set, and of the reading of large files.
///
/// # Errors
///
/// [`Error`](super::Error), as for [`TokenSpace::constraint`].
pub fn constraint(spec: &Spec, tokens: &TokenSpace, observer: &Observer) -> Result<AnyConstraint> {
    Ok(compile(spec, tokens, "", observer)?.into_any(spec, observer))
}

/// The same, with the reader of the parts of outputs that the constraint names, if it names any.
#[cfg(feature = "command-line")]
pub(crate) fn with_captures(
    spec: &Spec,
    tokens: &TokenSpace,
    observer: &Observer,
) -> Result<(AnyConstraint, Option<Arc<Captures>>)> {
    let compiled = compile(spec, tokens, "", observer)?;
    let captures = compiled.captures().cloned();
    Ok((compiled.into_any(spec, observer), captures))
}

impl Compiled {
    /// The reader of the parts of outputs that the constraint names, if it names any.
    pub(crate) fn captures(&self) -> Option<&Arc<Captures>> {
        match self {
            Self::Grammar(constraint) => constraint.capture_reader(),
            Self::Other(_, captures) => captures.as_ref(),
            Self::Set(_) | Self::Own(_) => None,
        }
        .filter(|captures| captures.has_names())
    }

    /// The constraint, where `spec` says on a GPU.
    pub(crate) fn into_any(self, spec: &Spec, observer: &Observer) -> AnyConstraint {
        match self {
            Self::Grammar(constraint) => AnyConstraint::new(super::drafts::Shared(constraint)),
            Self::Set(constraint) if matches!(&spec.language, Language::Set(set) if set.gpu) => {
                on_gpu(constraint, observer)
            }
            Self::Set(constraint) => AnyConstraint::new(constraint),
            Self::Other(constraint, _) | Self::Own(constraint) => constraint,
        }
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

/// The constraint with candidates that a GPU verifies, or the one that there is, and a note that says why.
fn on_gpu(constraint: SetConstraint, observer: &Observer) -> AnyConstraint {
    let note = |observer: &Observer, reason: &dyn Display| {
        observer.note(format_args!("warning: `gpu`: {reason}; the CPU does the work"));
    };
    #[cfg(feature = "gpu")]
    {
        use unskew_sets::{Gpu, GpuSetConstraint};
        let hears = observer.clone();
        let on_gpu = Gpu::new().and_then(|gpu| {
            GpuSetConstraint::new(constraint.clone(), gpu, move |error| {
                note(&hears, &unskew_engine::chain(error));
            })
        });
        match on_gpu {
            Ok(constraint) => AnyConstraint::new(constraint),
            Err(error) => {
                note(observer, &unskew_engine::chain(&error));
                AnyConstraint::new(constraint)
            }
        }
    }
    #[cfg(not(feature = "gpu"))]
    {
        note(observer, &"this program was built without the feature \"gpu\"");
        AnyConstraint::new(constraint)
    }
}
