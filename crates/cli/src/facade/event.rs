//! Events that the facade tells a program while it works.
//!
//! Loading a set and drawing take seconds to hours, and some findings are no errors: lines of a file that were left
//! out, a GPU that is not there. One callback hears all of it. Without a callback the facade is silent, and its
//! results are the same.

use std::{fmt, path::Path, sync::Arc};

use unskew_core::{Cost, TokenId};

/// Something that happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A finding that is no error.
    Note(&'a str),
    /// The items of a text file are read.
    Reading {
        /// The file.
        path: &'a Path,
        /// The bytes so far.
        bytes: u64,
        /// All bytes; 0 for a pipe.
        of: u64,
    },
    /// All items of the file are read and sorted.
    Read {
        /// The file.
        path: &'a Path,
    },
    /// ASAp has learned from an output that is not given out.
    Learned {
        /// The outputs so far.
        outputs: u64,
        /// All of them.
        of: u64,
    },
    /// The model has made a pass, for outputs that may not be done for a while.
    Evaluated {
        /// The positions that the pass has evaluated, those of the prompt among them.
        positions: u64,
        /// The tokens that the pass has appended, where it was of one sequence; none where it was of several.
        appended: &'a [TokenId],
    },
    /// An output was drawn.
    Drawn {
        /// The outputs so far.
        outputs: u64,
        /// The cost of all of them.
        cost: Cost,
    },
}

/// A function that hears events.
type Hear = dyn Fn(Event<'_>) + Send + Sync;

/// A callback for events.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Hear>>);

impl Observer {
    /// Calls `hear` with each event.
    pub fn new(hear: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// Tells an event.
    pub fn tell(&self, event: Event<'_>) {
        if let Some(hear) = &self.0 {
            hear(event);
        }
    }

    /// Tells a finding.
    pub fn note(&self, text: impl fmt::Display) {
        self.tell(Event::Note(&text.to_string()));
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.0.is_some()).finish()
    }
}
