//! Items that the crates of notations and of the engine share with this one. They are no part of the API, and change
//! with any release.
//!
//! A method of a public type that only these crates call is `#[doc(hidden)]` where it is defined.

pub use crate::{analysis::no_text, data::Origin};

/// Terminals with a budget of tokens, written out for a vocabulary.
pub mod budget {
    pub use crate::budget::{Left, TokenSteps, written_out};
}

/// Least fixpoints over the expressions of a grammar.
pub mod fixpoint {
    pub use crate::fixpoint::{containing, productive, productive_and_nullable, settle, wholes};
}

/// The bytes that may stand beside a part.
pub mod near {
    pub use crate::near::{Begins, Side, near};
}

/// Terminals byte by byte.
pub mod terminal {
    pub use crate::terminal::{COUNTS, ReadState, ScanState};

    /// Texts of a bounded number of units.
    pub mod counted {
        pub use crate::terminal::counted::{Bounds, FREE, UnitState, Units};
    }

    /// A regular language minus finitely many texts.
    pub mod difference {
        pub use crate::terminal::difference::Below;
    }

    /// Terminals of text, whatever their form.
    pub mod reading {
        pub use crate::terminal::reading::{Scan, accepts, automaton, first_bytes, start, step};
    }

    /// The number of texts that a terminal has left.
    pub mod remaining {
        pub use crate::terminal::remaining::{MANY, Remaining};
    }
}

/// Grammars within a language.
pub mod within {
    pub use crate::within::Narrowed;
}
