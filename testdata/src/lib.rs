//! The corpus of cases that every engine of unskew runs over
