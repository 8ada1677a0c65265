//! Where scripts can be run: the virtual GPU stands in for libraries that NVIDIA makes for Linux.

use std::env::consts::{ARCH, OS};

use crate::failure::Failure;

/// Whether this machine can run scripts.
pub(crate) fn check(verb: &str) -> Result<(), Failure> {
    check_on(verb, OS, ARCH)
}

fn check_on(verb: &str, os: &str, arch: &str) -> Result<(), Failure> {
    if (os, arch) == ("linux", "x86_64") {
        return Ok(());
    }
    let instead = match os {
        "windows" => "use it inside WSL 2, which needs no GPU either",
        "macos" => "use it in a linux/amd64 container, or on any Linux machine: no GPU is needed",
        _ => "use it on any x86-64 Linux machine or container: no GPU is needed",
    };
    Err(Failure::environment(
        "unsupported_platform",
        format!("`oomproof {verb}` needs Linux on x86-64, and this is {os} on {arch}"),
    )
    .hint(instead)
    .hint("`oomproof gpus --for PROFILE` works here with a profile from there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(os: &str, arch: &str, hint: &str) {
        let failure = check_on("run", os, arch).unwrap_err();
        assert!(failure.text.contains(os) && failure.text.contains(arch));
        assert!(failure.hints[0].contains(hint), "{:?}", failure.hints);
    }

    #[test]
    fn elsewhere_it_says_what_to_use_instead() {
        check_refused("windows", "x86_64", "WSL 2");
        check_refused("macos", "aarch64", "container");
        check_refused("linux", "aarch64", "x86-64 Linux");
        assert!(check_on("run", "linux", "x86_64").is_ok());
    }
}
