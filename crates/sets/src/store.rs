//! A set in a file, and the file of changes next to it, as one thing.
//!
//! No system replaces two files in one step. The set's file therefore decides: it names the changes that became part
//! of the set (`Origin`). A compaction replaces the set, which is one step, and removes the changes afterwards. A
//! reader that comes between the two steps, or after a kill between them, sees that the changes are part of the set,
//! and reads the set alone. The next writer removes the changes.
//!
//! A reader opens the set, then the changes. Where the reader finds no changes, they may have become part of a set
//! that has replaced the set that the reader has open. The reader therefore looks whether the set is still the same,
//! and starts again where it is not. Readers take no lock: they neither wait for writers nor need to write in the
//! folder.
//!
//! Tried instead: one file of both, with the changes at its end. Each change would then rewrite a file of the set's
//! size, or write into a file that other processes have mapped.

use std::{
    fs::{File, TryLockError},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use unskew_files::{FileError, follow, lock_file, remove};

use crate::{Delta, ItemSet, SetError, SetFileError};

/// The number of times that a reader starts again because the set was replaced.
const TRIES: usize = 1000;

/// A set in a file, with its changes in a file of the same name and `.delta` next to it.
///
/// Links are followed: the changes lie next to the file itself, also for a set that has several names.
///
/// # Example
///
/// ```
/// use unskew_core::TokenId;
/// use unskew_sets::{Delta, SetBuilder, SetStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("set");
/// SetBuilder::new(10).build_to(&path)?;
/// let store = SetStore::new(&path)?;
///
/// let changer = store.change(|| ())?;
/// let (set, _) = changer.read()?;
/// let mut delta = Delta::new(&set);
/// delta.add(&set, &[TokenId(1)])?;
/// changer.save(&delta)?;
/// assert_eq!(store.read()?.1.unwrap().counts(), (1, 0));
///
/// changer.compact(&set, &delta)?;
/// let (set, delta) = store.read()?;
/// assert_eq!((set.len(), delta), (1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetStore {
    path: PathBuf,
    changes: PathBuf,
}

/// The content of the file of changes.
enum Beside {
    Nothing,
    Changes(Delta),
    /// Changes that are part of the set.
    Absorbed,
}

impl SetStore {
    /// The store of a set in a file; the file may be missing until the set is built.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Write`] where the path is a circle of links.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, SetFileError> {
        let path = follow(path)?;
        Ok(Self { changes: beside(&path, ".delta"), path })
    }

    /// The file of the set itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the changes; it is missing where nothing is changed.
    pub fn changes(&self) -> &Path {
        &self.changes
    }

    /// The set, and the changes that are not part of it, both of the same time: from before or after each concurrent
    /// change. Neither is verified: see [`ItemSet::verify`].
    ///
    /// # Errors
    ///
    /// [`SetFileError`]; it is [`Beside`](SetFileError::Beside) where the fault is in the changes.
    pub fn read(&self) -> Result<(ItemSet, Option<Delta>), SetFileError> {
        Ok(match self.look()? {
            (set, Beside::Changes(delta)) => (set, Some(delta)),
            (set, Beside::Nothing | Beside::Absorbed) => (set, None),
        })
    }

    fn look(&self) -> Result<(ItemSet, Beside), SetFileError> {
        for _ in 0..TRIES {
            let set = ItemSet::open_any(&self.path)?;
            let found = match Delta::open(&self.changes, &set) {
                Ok(delta) => return Ok((set, Beside::Changes(delta))),
                Err(SetFileError::Absorbed) => return Ok((set, Beside::Absorbed)),
                Err(SetFileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    Ok(Beside::Nothing)
                }
                Err(error @ SetFileError::Io { .. }) => Err(error),
                Err(error) => {
                    Err(SetFileError::Beside { path: self.changes.clone(), error: Box::new(error) })
                }
            };
            // A compacted set has another generation, and therefore another identity.
            if ItemSet::open_any(&self.path)?.identity() == set.identity() {
                return found.map(|beside| (set, beside));
            }
        }
        Err(SetFileError::Restless { path: self.path.clone(), times: TRIES })
    }

    /// Waits until no other process changes the set. No other process changes the set while the returned [`SetChanger`]
    /// lives. `waiting` is called once where the call has to wait.
    ///
    /// A change reads the file of changes, adds to it and writes it again: of two simultaneous changes the first
    /// would be lost without an error. The lock is on a file of its own, the set's name with `.lock`, because a
    /// compaction replaces the set's file, and because some systems do not let others read a locked file. The lock's
    /// file stays there, empty, because waiting processes have it open. Where there is no set yet, the call locks
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Write`] and [`SetFileError::Io`] about the file of the lock.
    pub fn change(&self, waiting: impl FnOnce()) -> Result<SetChanger<'_>, SetFileError> {
        if !self.path.exists() {
            return Ok(SetChanger { store: self, _lock: None });
        }
        let path = beside(&self.path, ".lock");
        let file = lock_file(&path)?;
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        locked.map_err(|source| SetFileError::Io { path, source })?;
        Ok(SetChanger { store: self, _lock: Some(file) })
    }
}

/// The right to change a set and its changes; one process at a time has it.
#[derive(Debug)]
pub struct SetChanger<'a> {
    store: &'a SetStore,
    _lock: Option<File>,
}

impl SetChanger<'_> {
    /// As [`SetStore::read`]. Changes that are part of the set are removed.
    ///
    /// # Errors
    ///
    /// As [`SetStore::read`], and [`SetFileError::Write`].
    pub fn read(&self) -> Result<(ItemSet, Option<Delta>), SetFileError> {
        Ok(match self.store.look()? {
            (set, Beside::Changes(delta)) => (set, Some(delta)),
            (set, Beside::Nothing) => (set, None),
            (set, Beside::Absorbed) => {
                remove(&self.store.changes)?;
                (set, None)
            }
        })
    }

    /// Writes all changes to the set into the file of changes, in the place of the old ones.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Write`].
    pub fn save(&self, delta: &Delta) -> Result<(), SetFileError> {
        let changes = &self.store.changes;
        if delta.is_empty() { Ok(remove(changes)?) } else { delta.save(changes) }
    }

    /// Makes one set of the set and its changes, and removes the changes.
    ///
    /// # Errors
    ///
    /// As [`Delta::compact_to`].
    pub fn compact(&self, set: &ItemSet, delta: &Delta) -> Result<(), SetError> {
        delta.compact_to(set, &self.store.path)?;
        Ok(remove(&self.store.changes)?)
    }

    /// Whether another set can replace the set without loss: there are no changes, or only changes that are part of
    /// the set. The latter are removed, because they would become valid again next to a set that is built anew with
    /// the same items.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn may_replace(&self) -> Result<bool, FileError> {
        let changes = &self.store.changes;
        if changes.exists() && matches!(self.store.look(), Ok((_, Beside::Absorbed))) {
            remove(changes)?;
        }
        Ok(!changes.exists())
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
