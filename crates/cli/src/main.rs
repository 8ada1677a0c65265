//! The program `oomproof`.

use std::process::ExitCode;

use oomproof_cli::Resources;

fn main() -> ExitCode {
    let exit = oomproof_cli::main(std::env::args_os(), Resources::beside_executable());
    ExitCode::from(exit.code())
}
