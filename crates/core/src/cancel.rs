//! A flag by which one thread asks another to stop, a deadline for work, and fuel for it.
//!
//! Work looks at the flag often. Where there is a deadline, each look also reads the clock. The alternative, a thread
//! that waits and sets the flag, would be one more thread for each piece of work.
//!
//! Fuel is a deadline without a clock: each look takes a unit, and work says where it does more between two looks. So
//! equal work ends at the same place on each machine, and programs that run beside each other decide alike.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

/// Ends the work of all holders of a copy, when they look at it next. There is no way back.
///
/// # Example
///
/// ```
/// use unskew_core::Cancel;
///
/// let cancel = Cancel::default();
/// let copy = cancel.clone(); // for another thread, or a signal handler
/// copy.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
    fuel: Option<Arc<Fuel>>,
}

/// The units that were taken, and the most of them.
#[derive(Debug)]
struct Fuel {
    taken: AtomicU64,
    most: u64,
}

/// From an existing flag, such as one that a signal handler sets.
impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self { flag, deadline: None, fuel: None }
    }
}

impl Cancel {
    /// A copy that also ends the work from `deadline` on. The deadline belongs to this copy: other copies, and the
    /// flag that they share, do not have it.
    ///
    /// Cost of each look: that of reading the clock, some 20 ns.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        let earlier = self.deadline.map_or(deadline, |other| other.min(deadline));
        Self { deadline: Some(earlier), ..self.clone() }
    }

    /// A copy that also ends the work when it and its own copies have taken more than `fuel` units, and that counts
    /// them. Fuel of this one is not taken.
    #[must_use]
    pub fn with_fuel(&self, fuel: u64) -> Self {
        let fuel = Fuel { taken: AtomicU64::new(0), most: fuel };
        Self { fuel: Some(Arc::new(fuel)), ..self.clone() }
    }

    /// Takes fuel for work that was done, or is about to be. A [look](Self::is_cancelled) takes one unit by itself.
    ///
    /// The number must depend on the work alone. Work that a cache saves now and then is not counted at all.
    #[inline]
    pub fn take_fuel(&self, units: u64) {
        if let Some(fuel) = &self.fuel {
            fuel.taken.fetch_add(units, Ordering::Relaxed);
        }
    }

    /// The fuel that was taken; 0 where none is counted.
    pub fn fuel_taken(&self) -> u64 {
        self.fuel.as_ref().map_or(0, |fuel| fuel.taken.load(Ordering::Relaxed))
    }

    /// Whether there was fuel and it is used up. Takes none.
    pub fn is_out_of_fuel(&self) -> bool {
        self.fuel.as_ref().is_some_and(|fuel| fuel.taken.load(Ordering::Relaxed) > fuel.most)
    }

    /// Asks all work to end.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether work has to end: the end was asked for, the deadline is over, or fuel is used up. Takes a unit of fuel.
    pub fn is_cancelled(&self) -> bool {
        self.take_fuel(1);
        self.flag.load(Ordering::Relaxed) || self.is_late() || self.is_out_of_fuel()
    }

    /// Whether there is a deadline and it is over.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fuel_is_that_of_one_copy_and_its_own_copies() {
        let cancel = Cancel::default();
        let fuel = cancel.with_fuel(3);
        let copy = fuel.clone().until(Instant::now() + Duration::from_secs(3600));
        assert!(!fuel.is_cancelled() && !copy.is_cancelled());
        copy.take_fuel(1);
        assert_eq!((fuel.fuel_taken(), fuel.is_out_of_fuel(), copy.is_late()), (3, false, false));
        assert!(copy.is_cancelled() && fuel.is_out_of_fuel());
        assert!(!cancel.is_cancelled() && !cancel.is_out_of_fuel() && cancel.fuel_taken() == 0);
        // Other fuel, of the same flag.
        let more = fuel.with_fuel(u64::MAX);
        assert!(!more.is_cancelled() && more.fuel_taken() == 1);
        cancel.cancel();
        assert!(more.is_cancelled() && !more.is_out_of_fuel());
    }

    #[test]
    fn a_deadline_is_that_of_one_copy() {
        let cancel = Cancel::default();
        let now = Instant::now();
        let (late, early) = (cancel.until(now), cancel.until(now + Duration::from_secs(3600)));
        assert!(late.is_cancelled() && late.is_late() && late.clone().is_cancelled());
        assert!(early.until(now).is_late() && late.until(now + Duration::from_secs(3600)).is_late());
        assert!(!early.is_cancelled() && !cancel.is_cancelled());
        cancel.cancel();
        assert!(early.is_cancelled() && !early.is_late());
    }
}
