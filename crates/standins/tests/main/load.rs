use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use oomproof_standins::{DEVICE_SONAME, Library, elf_image, libraries};
use tempfile::TempDir;

/// A device that prints what is reported to it and implements one function.
const DEVICE: &str = r#"
#include <stddef.h>
#include <stdio.h>
int oomproof_unsupported(const char *function, const char *library, int code) {
    printf("%s of %s: %d\n", function, library, code);
    return code;
}
int cudaMalloc(void **address, size_t size) {
    *address = (void *)size;
    return 0;
}
"#;

/// A program that is linked as torch is, with versioned references, and that also asks by name.
const LINKED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
int cudaMalloc(void **, size_t);
int cudaGraphCreate(void **, unsigned);
int main(void) {
    void *address = NULL;
    int code = cudaMalloc(&address, 42);
    printf("cudaMalloc %d %zu\n", code, (size_t)address);
    code = cudaGraphCreate(&address, 0);
    printf("cudaGraphCreate %d\n", code);
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    int (*by_name)(void) = (int (*)(void))dlsym(runtime, "cudaDeviceReset");
    printf("cudaDeviceReset %d\n", by_name());
    int (*by_version)(void) = (int (*)(void))dlvsym(runtime, "cudaDeviceReset", "libcudart.so.13");
    printf("same %d\n", by_name == by_version);
    printf("implemented %d\n", dlsym(runtime, "cudaMalloc") == (void *)cudaMalloc);
    return 0;
}
"#;

/// A program that loads every library it is given and calls a function of each kind of return value.
const LOADED: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>
int main(int count, char **paths) {
    for (int i = 1; i < count; i++)
        if (!dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL)) {
            printf("%s\n", dlerror());
            return 1;
        }
    const char *(*text)(int) = (const char *(*)(int))dlsym(RTLD_DEFAULT, "nvmlErrorString");
    printf("%p\n", (void *)text(1));
    ssize_t (*size)(void) = (ssize_t (*)(void))dlsym(RTLD_DEFAULT, "cuFileRead");
    printf("%zd\n", size());
    struct { int error, driver; } (*pair)(void) = dlsym(RTLD_DEFAULT, "cuFileDriverOpen");
    printf("%d %d\n", pair().error, pair().driver);
    int *variable = dlsym(RTLD_DEFAULT, "nvshmem_selected_device_transport");
    *variable += 1;
    printf("%d\n", *variable);
    return 0;
}
"#;

struct Bench {
    folder: TempDir,
}

impl Bench {
    /// A folder with the device in it.
    fn new() -> Self {
        let bench = Self {
            folder: TempDir::new().unwrap(),
        };
        let soname = format!("-Wl,-soname,{DEVICE_SONAME}");
        bench.compile(DEVICE, DEVICE_SONAME, &["-shared", "-fPIC", &soname]);
        bench
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes the stand-ins of one version of CUDA, in load order.
    fn write(&self, cuda_major: u32, implemented: &[&str]) -> Vec<String> {
        let implemented: BTreeSet<_> = implemented.iter().map(|&name| name.to_owned()).collect();
        let write = |library: &Library| {
            let path = self.path().join(&library.soname);
            fs::write(&path, elf_image(library, &implemented)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        libraries(cuda_major).map(write).collect()
    }

    fn compile(&self, source: &str, output: &str, arguments: &[&str]) {
        let file = self.path().join(format!("{output}.c"));
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .arg("-o")
            .arg(self.path().join(output))
            .arg(&file)
            .args(arguments);
        let result = compiler
            .output()
            .expect("a C compiler is needed to link Rust programs too");
        assert!(
            result.status.success(),
            "{}",
            String::from_utf8_lossy(&result.stderr)
        );
    }

    /// The lines that a program prints.
    fn run(&self, program: &str, arguments: &[String]) -> Vec<String> {
        let mut command = Command::new(self.path().join(program));
        command.args(arguments).env("LD_LIBRARY_PATH", self.path());
        let result = command.output().unwrap();
        let printed = String::from_utf8(result.stdout).unwrap();
        assert!(
            result.status.success(),
            "{printed}{}",
            String::from_utf8_lossy(&result.stderr)
        );
        assert_eq!(
            String::from_utf8_lossy(&result.stderr),
            "",
            "the linker has nothing to complain of"
        );
        printed.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_linked_program_reaches_the_device_and_the_stubs() {
    let bench = Bench::new();
    bench.write(13, &[]);
    let runtime = bench.path().join("libcudart.so.13");
    let search = format!("-Wl,-rpath-link,{}", bench.path().display());
    bench.compile(
        LINKED,
        "linked",
        &[runtime.to_str().unwrap(), &search, "-ldl"],
    );
    let program = fs::read(bench.path().join("linked")).unwrap();
    assert!(String::from_utf8_lossy(&program).contains("libcudart.so.13"));

    bench.write(13, &["cudaMalloc"]);
    let expected = [
        "cudaMalloc 0 42",
        "cudaGraphCreate of libcudart.so.13: 801",
        "cudaGraphCreate 801",
        "cudaDeviceReset of libcudart.so.13: 801",
        "cudaDeviceReset 801",
        "same 1",
        "implemented 1",
    ];
    assert_eq!(bench.run("linked", &[]), expected);
}

fn check_all_load(cuda_major: u32) {
    let bench = Bench::new();
    let paths = bench.write(cuda_major, &["cudaMalloc"]);
    bench.compile(LOADED, "loaded", &["-ldl"]);
    let expected = [
        "nvmlErrorString of libnvidia-ml.so.1: 0",
        "(nil)",
        "cuFileRead of libcufile.so.0: -5007",
        "-5007",
        "cuFileDriverOpen of libcufile.so.0: 5007",
        "cuFileDriverOpen of libcufile.so.0: 5007",
        "5007 0",
        "1",
    ];
    assert_eq!(bench.run("loaded", &paths), expected);
}

#[test]
fn all_libraries_of_cuda_12_load() {
    check_all_load(12);
}

#[test]
fn all_libraries_of_cuda_13_load() {
    check_all_load(13);
}
