//! Writing a set to a file, with or without named subsets.

use std::{
    io::{self, Write},
    path::Path,
};

use twox_hash::XxHash3_64;
use unskew_files::NewFile;

use crate::{ItemSet, SetFileError, Subset, item_set::layout::SUBSETS, subset::subsets_to_bytes};

impl ItemSet {
    /// Writes the set to a file, for [`open`](Self::open). The file gets its name only when the set is complete.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Write`], and [`SetFileError::Io`] from the writing.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SetFileError> {
        self.write_file(path.as_ref(), |file| file.write_all(self.as_bytes()))
    }

    /// Writes the set to a file, with these subsets and no others.
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save).
    ///
    /// # Panics
    ///
    /// If a subset belongs to a set of another length.
    pub fn save_with_subsets(
        &self,
        path: impl AsRef<Path>,
        subsets: &[(&str, &Subset)],
    ) -> Result<(), SetFileError> {
        let fit = subsets.iter().all(|(_, subset)| subset.set_len() == self.len());
        assert!(fit, "a subset of another set than one of {} items", self.len());
        let bytes = subsets_to_bytes(subsets);
        let mut layout = self.layout().clone();
        let section = &mut layout.sections[SUBSETS];
        (section.len, section.checksum) = (bytes.len(), XxHash3_64::oneshot(&bytes));
        let too_large = || io::Error::other("the set is too large for this platform");
        self.write_file(path.as_ref(), |file| {
            layout.place().ok_or_else(too_large)?;
            let header = layout.to_bytes();
            file.write_all(&header)?;
            file.write_all(&self.as_bytes()[header.len()..layout.sections[SUBSETS].begin])?;
            file.write_all(&bytes)
        })
    }

    fn write_file(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), SetFileError> {
        let mut file = NewFile::create(path)?;
        write(&mut file).map_err(|source| SetFileError::Io { path: path.to_owned(), source })?;
        Ok(file.commit()?)
    }
}
