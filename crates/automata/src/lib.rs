//! Regular expressions as exact constraints over tokens
