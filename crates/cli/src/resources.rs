//! Where the two things lie that a virtual run loads: the agent's folder and the virtual device's library.
//!
//! An installed package has both in its own folder and says so; a build in the source tree finds them by walking
//! up from the executable.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Name of the virtual device's library.
const DEVICE_LIBRARY: &str = "liboomproof_vgpu.so";
/// Names a folder that replaces the places looked at otherwise.
const OVERRIDE: &str = "OOMPROOF_RESOURCES";

/// The folder of the agent and the library of the virtual device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The folder that holds `sitecustomize.py` and `_oomproof_agent`.
    pub agent: Option<PathBuf>,
    /// `liboomproof_vgpu.so`.
    pub vgpu: Option<PathBuf>,
}

/// [`Resources`] that are all there.
#[derive(Clone, Debug)]
pub(crate) struct FoundResources {
    pub agent: PathBuf,
    pub vgpu: PathBuf,
}

impl Resources {
    /// Those of an installed package: `agent/` and the library lie in `folder`.
    pub fn in_folder(folder: &Path) -> Self {
        let agent = folder.join("agent");
        let vgpu = folder.join(DEVICE_LIBRARY);
        Self {
            agent: agent.is_dir().then_some(agent),
            vgpu: vgpu.is_file().then_some(vgpu),
        }
    }

    /// Those beside the running executable, or in the source tree it was built from.
    pub fn beside_executable() -> Self {
        std::env::current_exe()
            .and_then(|executable| executable.canonicalize())
            .map(|executable| Self::above(&executable))
            .unwrap_or_default()
    }

    fn above(executable: &Path) -> Self {
        let first = |candidates: &dyn Fn(&Path) -> Option<PathBuf>| {
            executable.ancestors().skip(1).find_map(candidates)
        };
        Self {
            vgpu: first(&|folder| {
                let library = folder.join(DEVICE_LIBRARY);
                library.is_file().then_some(library)
            }),
            agent: first(&|folder| {
                ["agent", "python/oomproof/agent"]
                    .map(|inside| folder.join(inside))
                    .into_iter()
                    .find(|agent| agent.join("sitecustomize.py").is_file())
            }),
        }
    }

    /// Both, or a sentence about the one that is missing.
    pub(crate) fn found(self) -> Result<FoundResources, Failure> {
        let given = match std::env::var_os(OVERRIDE) {
            Some(folder) => Self::in_folder(Path::new(&folder)),
            None => self,
        };
        let missing = |what: &str| {
            Failure::environment(
                "incomplete_installation",
                format!("this installation of oomproof lacks {what}"),
            )
            .hint(format!(
                "reinstall oomproof, or set {OVERRIDE} to a folder with `agent/` and `{DEVICE_LIBRARY}`"
            ))
        };
        Ok(FoundResources {
            agent: given.agent.ok_or_else(|| missing("its agent"))?,
            vgpu: given
                .vgpu
                .ok_or_else(|| missing(&format!("the virtual device, `{DEVICE_LIBRARY}`")))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn found_above_the_executable() {
        let tree = tempfile::tempdir().unwrap();
        let agent = tree.path().join("python/oomproof/agent");
        let debug = tree.path().join("target/debug");
        fs::create_dir_all(&agent).unwrap();
        fs::create_dir_all(&debug).unwrap();
        fs::write(agent.join("sitecustomize.py"), "").unwrap();
        let executable = debug.join("oomproof");
        assert_eq!(
            Resources::above(&executable),
            Resources {
                agent: Some(agent.clone()),
                vgpu: None
            }
        );
        let library = debug.join(DEVICE_LIBRARY);
        fs::write(&library, "").unwrap();
        assert_eq!(
            Resources::above(&executable),
            Resources {
                agent: Some(agent),
                vgpu: Some(library)
            }
        );
    }

    #[test]
    fn found_in_a_package() {
        let package = tempfile::tempdir().unwrap();
        assert_eq!(Resources::in_folder(package.path()), Resources::default());
        fs::create_dir(package.path().join("agent")).unwrap();
        assert!(Resources::in_folder(package.path()).agent.is_some());
    }
}
