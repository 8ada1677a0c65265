//! The program `oomproof`.

fn main() {}
