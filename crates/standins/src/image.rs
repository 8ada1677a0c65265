//! The ELF image of one stand-in.
//!
//! Two things force its shape. The names are needed twice, by the linker and by the stubs, so the stubs point
//! into the dynamic string table. And an image may be mapped where nothing is both writable and executable, so
//! the stubs reach the device through one slot in the writable segment, which the linker fills.
//! File offsets equal addresses; three segments begin on pages: read-only tables, code, and data.

mod exports;
mod write;

use std::collections::BTreeSet;

use object::Endianness;
use object::write::StringId;
use object::write::elf::{SectionIndex, SymbolIndex, Writer};

use crate::{Library, stub};
use exports::Exports;

/// The SONAME of the virtual device, which every stand-in needs.
pub const DEVICE_SONAME: &str = "liboomproof_vgpu.so";

/// The function of the device that stubs call: `int f(const char *function, const char *library, int code)`,
/// which returns `code`.
pub const UNSUPPORTED_FUNCTION: &str = "oomproof_unsupported";

const PAGE: u64 = 0x1000;

/// The shared library that stands in for `library`, with a stub for each function that is not in `implemented`.
///
/// # Panics
///
/// When the names of one library take 4 GiB or more, which no table does.
pub fn elf_image(library: &Library, implemented: &BTreeSet<String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let exports = Exports::of(library, implemented);
    Image::reserve(library, exports, &mut bytes)
        .and_then(Image::write)
        .expect("the names of a library take less than 4 GiB");
    bytes
}

/// Bytes of an entry in the tables of 64-bit ELF that the dynamic section describes.
const SYMBOL: u64 = 24;
const RELOCATION: u64 = 24;

/// An image of which every place is decided and nothing is written.
struct Image<'a> {
    writer: Writer<'a>,
    library: &'a Library,
    exports: Exports<'a>,
    names: Names,
    sections: Sections,
    places: Places,
    reporter: SymbolIndex,
}

/// Names in the string tables.
struct Names {
    device: StringId,
    reporter: StringId,
    soname: StringId,
    node: Option<StringId>,
    exports: Vec<StringId>,
    rela: StringId,
    text: StringId,
    data: StringId,
}

/// Sections that others refer to.
struct Sections {
    dynsym: SectionIndex,
    text: SectionIndex,
    data: SectionIndex,
}

/// Addresses, in ascending order.
struct Places {
    gnu_hash: u64,
    dynsym: u64,
    dynstr: u64,
    versym: u64,
    verdef: u64,
    rela: u64,
    tables_end: u64,
    text: u64,
    text_end: u64,
    dynamic: u64,
    data: u64,
    data_end: u64,
}

impl<'a> Image<'a> {
    fn reserve(
        library: &'a Library,
        exports: Exports<'a>,
        bytes: &'a mut Vec<u8>,
    ) -> object::write::Result<Self> {
        let mut writer = Writer::new(Endianness::Little, true, bytes);
        let w = &mut writer;
        let names = Names {
            device: w.add_dynamic_string(DEVICE_SONAME.as_bytes()),
            reporter: w.add_dynamic_string(UNSUPPORTED_FUNCTION.as_bytes()),
            soname: w.add_dynamic_string(library.soname.as_bytes()),
            node: library
                .version
                .as_ref()
                .map(|node| w.add_dynamic_string(node.as_bytes())),
            exports: exports
                .iter()
                .map(|export| w.add_dynamic_string(export.name.as_bytes()))
                .collect(),
            rela: w.add_section_name(b".rela.dyn"),
            text: w.add_section_name(b".text"),
            data: w.add_section_name(b".data"),
        };
        let sections = reserve_sections(w, library);
        w.reserve_file_header();
        w.reserve_program_headers(if exports.functions() == 0 { 4 } else { 5 });
        let gnu_hash = w.reserve_gnu_hash(exports.bloom_words(), exports.buckets(), exports.len());
        let reporter = w.reserve_dynamic_symbol_index();
        for _ in exports.iter() {
            w.reserve_dynamic_symbol_index();
        }
        let dynsym = w.reserve_dynsym();
        let dynstr = w.reserve_dynstr()?;
        let (versym, verdef, tags) = match library.version {
            Some(_) => (w.reserve_gnu_versym(), w.reserve_gnu_verdef(2, 2), 14),
            None => (0, 0, 11),
        };
        let rela = w.reserve_relocations(1, true);
        let tables_end = w.reserved_len();
        let text = w.reserve(exports.functions() * stub::STRIDE, PAGE);
        let text_end = w.reserved_len();
        w.reserve(0, PAGE);
        let dynamic = w.reserve_dynamic(tags);
        let data = w.reserve(exports.data_size(), exports::VARIABLE_ALIGNMENT);
        let data_end = w.reserved_len();
        w.reserve_shstrtab()?;
        w.reserve_section_headers();
        let places = Places {
            gnu_hash,
            dynsym,
            dynstr,
            versym,
            verdef,
            rela,
            tables_end,
            text,
            text_end,
            dynamic,
            data,
            data_end,
        };
        Ok(Self {
            writer,
            library,
            exports,
            names,
            sections,
            places,
            reporter,
        })
    }
}

/// The sections, in the order in which they lie.
fn reserve_sections(w: &mut Writer<'_>, library: &Library) -> Sections {
    w.reserve_null_section_index();
    w.reserve_gnu_hash_section_index();
    let dynsym = w.reserve_dynsym_section_index();
    w.reserve_dynstr_section_index();
    if library.version.is_some() {
        w.reserve_gnu_versym_section_index();
        w.reserve_gnu_verdef_section_index();
    }
    w.reserve_section_index();
    let text = w.reserve_section_index();
    w.reserve_dynamic_section_index();
    let data = w.reserve_section_index();
    w.reserve_shstrtab_section_index();
    Sections { dynsym, text, data }
}
