//! Gives the library the SONAME by which the stand-in libraries name it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liboomproof_vgpu.so");
}
