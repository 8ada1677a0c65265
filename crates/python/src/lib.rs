//! The extension module `oomproof._native`.
//!
//! **Invariant:** conversions only; this crate decides nothing and prints nothing.
