//! Stand-ins for the shared libraries of NVIDIA that PyTorch links: same SONAME, same symbol versions, no GPU.
//!
//! A stand-in is loaded before torch, so that the dynamic linker finds it and never maps the real library.
//! Functions that the virtual device implements are found in the device itself, which every stand-in needs;
//! each of the others is a stub that names itself to the device and returns the library's "not supported".
//!
//! ```
//! use std::collections::BTreeSet;
//! use oomproof_standins::{elf_image, exported_functions, libraries};
//!
//! let runtime = libraries(13).find(|library| library.soname == "libcudart.so.13").unwrap();
//! let implemented = BTreeSet::from(["cudaMalloc".to_owned()]);
//! let stubs = exported_functions(&elf_image(runtime, &implemented))?;
//! assert!(stubs.contains("cudaGraphCreate"));
//! assert!(!stubs.contains("cudaMalloc"));
//! # Ok::<(), oomproof_standins::NotALibrary>(())
//! ```
//!
//! **Invariant:** this crate reads and writes no files and knows no function by name; names come from `tables/`.

mod catalogue;
mod exports;
mod image;
mod library;
mod stub;

pub use catalogue::{all_libraries, libraries};
pub use exports::{NotALibrary, exported_functions};
pub use image::{DEVICE_SONAME, UNSUPPORTED_FUNCTION, elf_image};
pub use library::{Library, NotATable, NotSupported};
