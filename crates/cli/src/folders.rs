//! The folders that outlive a run: the cache, and the state that keeps profiles.

use std::env;
use std::path::PathBuf;

/// Where stand-in libraries are kept; `None` when the user has no home.
pub(crate) fn standins() -> Option<PathBuf> {
    home_of("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("oomproof/standins"))
}

/// Where the measured rates of devices are kept; `None` when the user has no home.
pub(crate) fn calibrations() -> Option<PathBuf> {
    home_of("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("oomproof/calibration"))
}

/// Where profiles are kept; `None` when the user has no home.
pub(crate) fn profiles() -> Option<PathBuf> {
    home_of("XDG_STATE_HOME", ".local/state").map(|state| state.join("oomproof/profiles"))
}

/// The XDG rule: the variable when it is an absolute path, else below the home folder.
fn home_of(variable: &str, below_home: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| {
            env::home_dir()
                .filter(|home| home.is_absolute())
                .map(|home| home.join(below_home))
        })
}
