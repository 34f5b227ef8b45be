//! From errors and panics to things that C can read: a number, and a text for each thread.

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use unskew_engine::{CaptureError, MatcherError, SpecError, chain};

/// Why a function has no answer. Functions that answer with a number answer with one of these instead, which are all
/// below zero.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnskewStatus {
    /// An argument that cannot be: a null pointer, an address that is not aligned, a text that is not UTF-8.
    Argument = -1,
    /// A handle that is none: it was freed, or is of another kind.
    Handle = -2,
    /// A tokenizer that cannot be loaded.
    Tokenizer = -3,
    /// A constraint that cannot be compiled.
    Constraint = -4,
    /// The time for compiling was over.
    Deadline = -5,
    /// Wrong use of a matcher: a token beyond the vocabulary, a row that is too short, more tokens to take back than
    /// there are, captures of an output that is not whole.
    Matcher = -6,
    /// A fault of this library. Its matcher cannot be used any more.
    Panic = -7,
}

/// An error with its text.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: UnskewStatus,
    pub(crate) message: String,
    /// Where in the text of a constraint it is.
    pub(crate) place: Option<String>,
}

impl Failure {
    pub(crate) fn new(status: UnskewStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), place: None }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(UnskewStatus::Argument, message)
    }

    pub(crate) fn tokenizer(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(UnskewStatus::Tokenizer, chain(error))
    }

    fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::new(UnskewStatus::Panic, format!("a fault of unskew: {}", text.unwrap_or("no message")))
    }
}

impl From<&unskew_engine::Error> for Failure {
    fn from(error: &unskew_engine::Error) -> Self {
        use unskew_engine::Error;
        let status = match error {
            Error::Tokens(_) => UnskewStatus::Tokenizer,
            Error::Deadline | Error::Cancelled => UnskewStatus::Deadline,
            _ => UnskewStatus::Constraint,
        };
        Self { status, message: chain(error), place: error.place() }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        (&unskew_engine::Error::from(error)).into()
    }
}

impl From<MatcherError> for Failure {
    fn from(error: MatcherError) -> Self {
        Self::new(UnskewStatus::Matcher, chain(&error))
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        Self::new(UnskewStatus::Matcher, chain(&error))
    }
}

/// An answer that can also say that there is none.
pub(crate) trait Answer {
    fn none(status: UnskewStatus) -> Self;
}

impl Answer for i64 {
    fn none(status: UnskewStatus) -> Self {
        status as Self
    }
}

impl<T> Answer for *mut T {
    fn none(_: UnskewStatus) -> Self {
        std::ptr::null_mut()
    }
}

/// The answer of `body`, or none and the error as that of this thread.
pub(crate) fn answer<T: Answer>(body: impl FnOnce() -> Result<T, Failure>) -> T {
    caught(body).unwrap_or_else(|failure| {
        let status = failure.status;
        // A thread that ends has no errors any more.
        let _ = LAST.try_with(|last| last.replace(Last::of(failure)));
        T::none(status)
    })
}

/// The answer of `body`, with a panic as an error.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // After a panic, a matcher is locked for good, and nothing else changes in `body`.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}

/// The last error of a thread, as C reads it.
#[derive(Default)]
struct Last {
    message: CString,
    place: Option<CString>,
}

impl Last {
    fn of(failure: Failure) -> Self {
        Self { message: c_text(failure.message), place: failure.place.map(c_text) }
    }
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// The text without its zeros, which would end it.
pub(crate) fn c_text(text: String) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

pub(crate) fn last_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

pub(crate) fn last_place() -> *const c_char {
    let place = LAST.try_with(|last| last.borrow().place.as_deref().map_or(std::ptr::null(), CStr::as_ptr));
    place.unwrap_or(std::ptr::null())
}
