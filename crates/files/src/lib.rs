//! Files that are replaced whole or not at all: all that this workspace writes goes through here.
//!
//! # Should you use this crate?
//!
//! Where a file must be whole after any crash, and several processes write in one folder: yes. For a temporary
//! file alone take `tempfile`, which this crate uses.
//!
//! A file is written under a temporary name in the folder of its target ([`NewFile`]). [`NewFile::commit`] brings it
//! to the disk, renames it, and brings the folder to the disk. So a process that is killed at any point, or a machine
//! that loses power, leaves the old file or the new one.
//!
//! - **A target that exists and is no regular file is refused**: a rename would replace a device by a file.
//! - **Links are followed**: the target of a link is replaced, and not the link.
//! - **An output is no input**: [`refuse_inputs`] compares files by device and inode, so through links too.
//! - **The temporary files of killed writers are removed** by the next writer in the same folder.
//!
//! A temporary file of a living writer must not be removed. Each writer holds a shared lock on the folder as long as
//! it has a temporary file there, and temporary files are removed under an exclusive lock, which is only to be had
//! where no writer lives. The system drops the lock of a process that ends. Tried instead:
//!
//! - *The number of the process in the name*: it means nothing in another container, and numbers come again.
//! - *A lock on the temporary file*: it is still held, for a moment, when the file has its final name. Readers who
//!   ask for a lock of their own without waiting, as `mmap-guard` does, fail in that moment. A writer that drops the
//!   lock before the rename may lose its file to a writer that cleans up.
//! - *Files without a name* (`O_TMPFILE`): Linux alone has them, and not on all file systems. A file that replaces
//!   another one needs a name before.
//!
//! Where folders cannot be opened or locked, as on Windows, nothing is removed, and all else is the same.

mod steps;

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::NamedTempFile;

/// The beginning of the names of temporary files.
const PREFIX: &str = ".unskew-new-";

/// As many links are followed as Linux does.
const MAX_LINKS: usize = 40;

/// The lock of a folder is asked for so often, with a pause between: a writer that cleans up holds it for a moment.
const LOCK_TRIES: usize = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Something is there that is no regular file, and would be replaced by one.
    #[error("{}: this is {kind} and not a file; name a file to be written", path.display())]
    NotAFile {
        /// The path that was given.
        path: PathBuf,
        /// The kind of thing that is there.
        kind: &'static str,
    },
    /// The file is also read.
    #[error("{}: this would be written over the input {}; name another file", path.display(), input.display())]
    IsInput {
        /// The output.
        path: PathBuf,
        /// The same file, as it is named as an input.
        input: PathBuf,
    },
    /// Another program keeps the folder locked.
    #[error(
        "{}: another program keeps this folder locked, and {LOCK_TRIES} tries to write there failed; try again when it has ended",
        folder.display()
    )]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A file that is being written, and has its name after [`commit`](Self::commit). Dropped before, it leaves nothing.
///
/// Each call of `write` is one of the system, so small pieces need a buffer.
///
/// # Example
///
/// ```
/// use std::io::Write;
/// use unskew_files::NewFile;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a");
/// let mut file = NewFile::create(&path)?;
/// file.write_all(b"new")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"new");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewFile {
    // Dropped before the lock: the file is removed while nobody else may.
    file: NamedTempFile,
    folder: Folder,
    /// As it was named, for messages.
    path: PathBuf,
    /// Where links lead.
    target: PathBuf,
}

impl NewFile {
    /// Begins a file for `path`, and removes the temporary files of killed writers from its folder.
    ///
    /// Cost: a look at each name in the folder.
    ///
    /// # Errors
    ///
    /// [`FileError`], also where something is at `path` that is no regular file.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let failed = |source| FileError::Io { path: path.to_owned(), source };
        let before = existing(path)?;
        let target = follow(path)?;
        let folder = Folder::of(&target);
        fs::metadata(&folder.path).map_err(failed)?;
        folder.clean();
        folder.lock()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Less the bits of the umask.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        steps::step();
        // The error names the temporary file, which says nothing to a user.
        let file = builder.tempfile_in(&folder.path).map_err(|error| failed(error.kind().into()))?;
        if let Some(before) = before {
            steps::step();
            file.as_file().set_permissions(before.permissions()).map_err(failed)?;
        }
        Ok(Self { file, folder, path: path.to_owned(), target })
    }

    /// Gives the file its name, in the place of one that had it. Afterwards it is on the disk under this name.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]. The old file is still there, unless only bringing the folder to the disk failed.
    pub fn commit(self) -> Result<(), FileError> {
        let failed = |source| FileError::Io { path: self.path.clone(), source };
        steps::step();
        self.file.as_file().sync_all().map_err(failed)?;
        steps::step();
        self.file.persist(&self.target).map_err(|error| failed(error.error))?;
        self.folder.sync().map_err(failed)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        steps::step();
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.as_file_mut().seek(to)
    }
}

/// Replaces the file at `path` by one of these bytes.
///
/// # Errors
///
/// As [`NewFile::create`] and [`NewFile::commit`].
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), FileError> {
    let path = path.as_ref();
    let mut file = NewFile::create(path)?;
    file.write_all(bytes).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    file.commit()
}

/// Removes a file, if it is there. Afterwards it is gone from the disk.
///
/// # Errors
///
/// [`FileError::Io`].
pub fn remove(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    steps::step();
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(()) => Folder::of(path).sync().map_err(failed),
    }
}

/// Opens the file of a lock, and makes it where it is not there.
///
/// # Errors
///
/// [`FileError::Io`].
pub fn lock_file(path: impl AsRef<Path>) -> Result<File, FileError> {
    let path = path.as_ref();
    existing(path)?;
    steps::step();
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|source| FileError::Io { path: path.to_owned(), source })
}

/// Whether a file can be written, without writing it: for results that are the work of hours.
///
/// # Errors
///
/// As [`NewFile::create`].
pub fn probe(path: impl AsRef<Path>) -> Result<(), FileError> {
    NewFile::create(path).map(drop)
}

/// Refuses an output that is one of the inputs, by another name or through links too. Inputs that are not there are
/// nothing to be lost.
///
/// # Errors
///
/// [`FileError::IsInput`].
pub fn refuse_inputs<P: AsRef<Path>>(
    path: impl AsRef<Path>,
    inputs: impl IntoIterator<Item = P>,
) -> Result<(), FileError> {
    let path = path.as_ref();
    match inputs.into_iter().find(|input| is_same(path, input)) {
        Some(input) => Err(FileError::IsInput { path: path.to_owned(), input: input.as_ref().to_owned() }),
        None => Ok(()),
    }
}

/// Whether two names are those of one file that is there, through links of either kind.
pub fn is_same(one: impl AsRef<Path>, other: impl AsRef<Path>) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let one = id(one.as_ref());
        one.is_some() && one == id(other.as_ref())
    }
    #[cfg(not(unix))]
    {
        let place = |path: &Path| fs::canonicalize(path).ok();
        let one = place(one.as_ref());
        one.is_some() && one == place(other.as_ref())
    }
}

/// The path of the file that `path` leads to, through links; it need not be there.
///
/// # Errors
///
/// [`FileError::Io`] where links lead in a circle.
pub fn follow(path: impl AsRef<Path>) -> Result<PathBuf, FileError> {
    let path = path.as_ref();
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&at) else { return Ok(at) };
        at = at.parent().unwrap_or(Path::new("")).join(target);
    }
    let source = io::Error::other(format!("more than {MAX_LINKS} links, one to the next"));
    Err(FileError::Io { path: path.to_owned(), source })
}

/// The regular file that is at `path`, if something is there.
fn existing(path: &Path) -> Result<Option<Metadata>, FileError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(found) => Err(FileError::NotAFile { path: path.to_owned(), kind: kind(&found) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Io { path: path.to_owned(), source }),
    }
}

fn kind(found: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = found.file_type();
        if kind.is_block_device() || kind.is_char_device() {
            return "a device";
        }
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    if found.is_dir() { "a folder" } else { "something else" }
}

/// The folder of a file, open where the system allows that.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    open: Option<File>,
}

impl Folder {
    fn of(path: &Path) -> Self {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self { path: folder.to_owned(), open: File::open(folder).ok() }
    }

    /// Removes temporary files, unless a writer lives. Those that cannot be removed, as those of another user, stay.
    fn clean(&self) {
        let Some(open) = &self.open else { return };
        if self.leftovers().next().is_none() || open.try_lock().is_err() {
            return;
        }
        // Looked at again: under the lock no writer of any of them lives.
        for path in self.leftovers() {
            steps::step();
            let _ = fs::remove_file(path);
        }
        let _ = open.unlock();
    }

    fn leftovers(&self) -> impl Iterator<Item = PathBuf> {
        let is_ours = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let ours = entries.filter(move |entry| is_ours(&entry.file_name()));
        ours.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path())
    }

    /// Keeps others from removing temporary files as long as this lives.
    fn lock(&self) -> Result<(), FileError> {
        let Some(open) = &self.open else { return Ok(()) };
        for _ in 0..LOCK_TRIES {
            match open.try_lock_shared() {
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                // Where a folder cannot be locked, nobody removes anything there.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
            }
        }
        Err(FileError::Locked { folder: self.path.clone() })
    }

    /// Brings the names in the folder to the disk.
    fn sync(&self) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        steps::step();
        match open.sync_all() {
            // Some file systems have no such thing for folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}
