//! A set in a file and the changes that lie beside it, as one thing.
//!
//! Two files cannot be replaced in one step. So the set decides what counts: it names the changes that became part of it
//! (`Origin`). Compacting replaces the set, which is one step, and removes the changes afterwards. Who comes between the two, or
//! after a kill between them, sees that the changes are in the set, and reads the set alone; the next writer removes them.
//!
//! A reader opens the set, then the changes. Where no changes are there, they may have become part of a set that has taken the place
//! of the one that it has open, so it looks whether the set is still the same, and begins anew where it is not. Readers take no
//! lock: they neither wait for writers nor need to write in the folder.
//!
//! Tried instead: one file of both, with the changes at its end. Each change would then be of a size with the set, or write into a
//! file that others have mapped.

use std::{
    fs::{File, TryLockError},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use unskew_files::{FileError, follow, lock_file, remove};

use crate::{Delta, ItemSet, SetError, SetFileError};

/// So often a reader begins anew because the set was replaced.
const TRIES: usize = 1000;

/// A set in a file, with the changes beside it in a file of the same name and `.delta`.
///
/// Links are followed: whatever name a set has, its changes lie beside the file itself.
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

/// What lies beside a set.
enum Beside {
    Nothing,
    Changes(Delta),
    /// Changes that are part of the set.
    Absorbed,
}

impl SetStore {
    /// The store of a set in a file, which need not be there yet.
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

    /// The file of the changes, which is not there where nothing is changed.
    pub fn changes(&self) -> &Path {
        &self.changes
    }

    /// The set, and the changes to it that are not part of it, as they are at one time: before or after whatever is done to
    /// them meanwhile. Neither is verified: see [`ItemSet::verify`].
    ///
    /// # Errors
    ///
    /// [`SetFileError`], which is [`Beside`](SetFileError::Beside) where the changes are what is wrong.
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
            // A set that was compacted is of another generation, and so has another identity.
            if ItemSet::open_any(&self.path)?.identity() == set.identity() {
                return found.map(|beside| (set, beside));
            }
        }
        Err(SetFileError::Restless { path: self.path.clone(), times: TRIES })
    }

    /// Waits until nobody else changes the set; none does as long as the answer lives. `waiting` is called once where it has to
    /// wait.
    ///
    /// Changes are read, added to and written again, and of two that do so at once the first would be lost without a word. A file of
    /// its own is locked, the set's name with `.lock`: the set is replaced when it is compacted, and on some systems what is locked
    /// cannot be read. It stays there, empty, since whoever waits for it has it open. Where there is no set yet, nothing is locked.
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

/// The one who may change a set and what lies beside it.
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

    /// Puts all changes to the set beside it, in the place of those that were there.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Write`].
    pub fn save(&self, delta: &Delta) -> Result<(), SetFileError> {
        let changes = &self.store.changes;
        if delta.is_empty() { Ok(remove(changes)?) } else { delta.save(changes) }
    }

    /// Makes one set of the two.
    ///
    /// # Errors
    ///
    /// As [`Delta::compact_to`].
    pub fn compact(&self, set: &ItemSet, delta: &Delta) -> Result<(), SetError> {
        delta.compact_to(set, &self.store.path)?;
        Ok(remove(&self.store.changes)?)
    }

    /// Whether the set can be replaced by another one and nothing is lost: no changes lie beside it, but for such as are part of it.
    /// Those are removed, since they would come to life beside a set that is built again and is the same as before.
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
