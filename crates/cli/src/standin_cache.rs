//! The stand-in libraries on disk, made once and found again by their content.
//!
//! Two runs may make them at the same time and either may be killed, so a folder appears under its final name only
//! when it is complete, and is never changed afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use oomproof_standins::{elf_image, exported_functions, libraries};

use crate::failure::Failure;

/// The file that says in which order the libraries are loaded.
const LOAD_ORDER: &str = "load_order.txt";
/// What `-lcuda` finds: Triton (3.0 to 3.2 at least) compiles C that links the driver by this name, which no
/// library has as its own. A text that names another file is as good to a linker as a library.
const DRIVER_TO_LINK: (&str, &str) = ("libcuda.so", "INPUT(libcuda.so.1)\n");

/// The folder with the stand-ins for CUDA `cuda_major` that leave to `vgpu` what it implements: in `cache` when
/// that can be written, else in `run_folder`.
pub(crate) fn standins(
    cuda_major: u32,
    vgpu: &Path,
    cache: Option<&Path>,
    run_folder: &Path,
) -> Result<PathBuf, Failure> {
    let device = fs::read(vgpu).map_err(|error| Failure::io("read", vgpu, &error))?;
    let implemented = exported_functions(&device).map_err(|error| {
        Failure::environment(
            "incomplete_installation",
            format!("{} cannot be used: {error}", vgpu.display()),
        )
        .hint("reinstall oomproof")
    })?;
    let files = files(cuda_major, &implemented);
    if let Some(cache) = cache {
        let folder = cache.join(key(&files));
        if is_complete(&folder, &files) || publish(cache, &folder, &files).is_ok() {
            return Ok(folder);
        }
    }
    let folder = run_folder.join("standins");
    fs::create_dir_all(&folder)
        .and_then(|()| write(&folder, &files))
        .map_err(|error| Failure::io("write the stand-in libraries in", &folder, &error))?;
    Ok(folder)
}

/// Names and contents of all files of the folder.
fn files(cuda_major: u32, implemented: &BTreeSet<String>) -> Vec<(String, Vec<u8>)> {
    let mut order = String::new();
    let mut files: Vec<(String, Vec<u8>)> = libraries(cuda_major)
        .map(|library| {
            order.push_str(&library.soname);
            order.push('\n');
            (library.soname.clone(), elf_image(library, implemented))
        })
        .collect();
    let (name, text) = DRIVER_TO_LINK;
    files.push((name.to_owned(), text.into()));
    files.push((LOAD_ORDER.to_owned(), order.into_bytes()));
    files
}

fn key(files: &[(String, Vec<u8>)]) -> String {
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn is_complete(folder: &Path, files: &[(String, Vec<u8>)]) -> bool {
    files.iter().all(|(name, content)| {
        fs::metadata(folder.join(name)).is_ok_and(|about| about.len() == content.len() as u64)
    })
}

fn publish(cache: &Path, folder: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir_all(cache)?;
    let unfinished = tempfile::Builder::new()
        .prefix(".unfinished-")
        .tempdir_in(cache)?;
    write(unfinished.path(), files)?;
    match fs::rename(unfinished.path(), folder) {
        // Another run was faster, or an incomplete folder is in the way.
        Err(error) if is_complete(folder, files) => {
            drop(error);
            Ok(())
        }
        outcome => outcome.map(|()| drop(unfinished.keep())),
    }
}

fn write(folder: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    files
        .iter()
        .try_for_each(|(name, content)| fs::write(folder.join(name), content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_files() -> Vec<(String, Vec<u8>)> {
        vec![("a".into(), vec![1, 2]), ("b".into(), vec![3])]
    }

    #[test]
    fn content_decides_the_folder() {
        let mut other = two_files();
        other[1].1 = vec![4];
        assert_ne!(key(&two_files()), key(&other));
        assert_eq!(key(&two_files()), key(&two_files()));
    }

    #[test]
    fn a_folder_is_complete_or_absent() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("x");
        assert!(!is_complete(&folder, &two_files()));
        publish(cache.path(), &folder, &two_files()).unwrap();
        assert!(is_complete(&folder, &two_files()));
        publish(cache.path(), &folder, &two_files()).unwrap();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        fs::remove_file(folder.join("b")).unwrap();
        assert!(!is_complete(&folder, &two_files()));
        assert!(publish(cache.path(), &folder, &two_files()).is_err());
    }

    #[test]
    fn every_cuda_library_is_in_the_load_order() {
        let files = files(13, &BTreeSet::new());
        let (name, order) = files.last().unwrap();
        assert_eq!(name, LOAD_ORDER);
        let order = String::from_utf8(order.clone()).unwrap();
        let libraries = files
            .iter()
            .filter(|(_, content)| content.starts_with(b"\x7fELF"));
        assert!(order.lines().eq(libraries.map(|(name, _)| name)));
        assert_eq!(order.lines().count(), files.len() - 2);
        assert!(order.lines().any(|line| line == "libcudart.so.13"));
    }

    #[test]
    fn c_links_the_driver_by_its_short_name() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files(12, &BTreeSet::new())).unwrap();
        let mut linked = std::process::Command::new("cc");
        linked
            .args(["-shared", "-x", "c", "/dev/null", "-lcuda", "-L"])
            .arg(folder.path())
            .arg("-o")
            .arg(folder.path().join("out"));
        assert!(linked.status().unwrap().success());
    }
}
