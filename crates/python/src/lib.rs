//! The extension module `oomproof._native`: the command line, callable from Python.
//!
//! One wheel must serve every Python from 3.10 on and must not need a second program beside it, so the whole
//! command line is in this module, built against the stable ABI, and `oomproof` is a Python entry point that
//! calls [`run`](_native::run).
//!
//! ```python
//! from oomproof._native import run
//! code = run(["oomproof", "gpus"], package="site-packages/oomproof")
//! ```
//!
//! **Invariant:** conversions only; this crate decides nothing and prints nothing.

/// What Python sees as `oomproof._native`.
#[pyo3::pymodule]
mod _native {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use oomproof_cli::Resources;
    use pyo3::prelude::*;

    #[pymodule_export]
    #[expect(
        non_upper_case_globals,
        reason = "the name that Python programs look for"
    )]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Runs the command line and returns its exit code.
    ///
    /// `arguments` begins with the name of the program; `package` is the folder that holds the agent and the
    /// library of the virtual device.
    #[pyfunction]
    #[pyo3(signature = (arguments, *, package))]
    pub(crate) fn run(python: Python<'_>, arguments: Vec<OsString>, package: PathBuf) -> u8 {
        // Hours may pass in there, and other threads of this Python must go on.
        python.detach(move || oomproof_cli::main(arguments, Resources::in_folder(&package)).code())
    }
}
