//! Outputs as a `Stream`, for programs that wait for several things at once.
//!
//! A pass of a model blocks, and an executor must not. So a thread of its own draws, and the stream is woken when an
//! output is there. One output waits at most: who takes outputs slowly pays for no others.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, TryRecvError, sync_channel},
    },
    task::{Context, Poll, Waker},
    thread,
};

use futures_core::Stream;

use super::{Draws, Output, error::Result};

/// An output, or the panic of the thread that draws.
type Sent = Result<Result<Output>, Box<dyn Any + Send>>;

/// The outputs of [`Draws`] as a [`Stream`]: made by [`Draws::into_stream`].
///
/// When it is dropped, the drawing ends with the output that is under way; a
/// [`Cancel`](unskew_core::Cancel) of the [request](super::Request::cancel) ends it sooner.
pub struct DrawStream {
    outputs: Receiver<Sent>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl fmt::Debug for DrawStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrawStream").finish_non_exhaustive()
    }
}

impl Draws {
    /// The same outputs as a [`Stream`], drawn on a thread of its own.
    ///
    /// # Panics
    ///
    /// If the system has no thread. A panic of a model goes on in the task that polls.
    pub fn into_stream(mut self) -> DrawStream {
        let waker = Arc::new(Mutex::new(None));
        let (sender, outputs) = sync_channel::<Sent>(1);
        let wakes = Arc::clone(&waker);
        thread::spawn(move || {
            let wake = || {
                if let Some(waker) = lock(&wakes).take() {
                    waker.wake();
                }
            };
            // The state of a draw that panicked is not looked at again.
            while let Some(sent) = catch_unwind(AssertUnwindSafe(|| self.next())).transpose() {
                let is_over = sent.is_err();
                if sender.send(sent).is_err() {
                    return;
                }
                wake();
                if is_over {
                    break;
                }
            }
            drop(sender);
            wake();
        });
        DrawStream { outputs, waker }
    }
}

fn lock(waker: &Mutex<Option<Waker>>) -> std::sync::MutexGuard<'_, Option<Waker>> {
    waker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream for DrawStream {
    type Item = Result<Output>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Output>>> {
        // In this order: an output that comes between the two wakes the task again.
        *lock(&self.waker) = Some(context.waker().clone());
        match self.outputs.try_recv() {
            Ok(Ok(output)) => Poll::Ready(Some(output)),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
        }
    }
}
