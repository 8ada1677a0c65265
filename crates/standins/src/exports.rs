//! What a shared library exports, so that the launcher can say which functions the device implements.

use std::collections::BTreeSet;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _, SymbolKind};
use thiserror::Error;

/// The bytes are not those of a 64-bit ELF library.
#[derive(Debug, Error)]
#[error("not a 64-bit ELF library: {0}")]
pub struct NotALibrary(#[from] object::Error);

/// The names of the functions that a library exports.
pub fn exported_functions(bytes: &[u8]) -> Result<BTreeSet<String>, NotALibrary> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    file.dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
        .map(|symbol| Ok(symbol.name()?.to_owned()))
        .collect()
}
