//! The ELF image of one stand-in.
//!
//! Two things force its shape. The names are needed twice, by the linker and by the stubs, so the stubs point
//! into the dynamic string table. And an image may be mapped where nothing is both writable and executable, so
//! the stubs reach the device through one slot in the writable segment, which the linker fills.
//! File offsets equal addresses; three segments begin on pages: read-only tables, code, and data.

use std::collections::BTreeSet;

use object::write::StringId;
use object::write::elf::{
    FileHeader, ProgramHeader, Rel, SectionHeader, Sym, Verdef, Writer,
};
use object::{Endianness, elf};

use crate::Library;
use crate::stub::{self, Stub};

/// The SONAME of the virtual device, which every stand-in needs.
pub const DEVICE_SONAME: &str = "liboomproof_vgpu.so";

/// The function of the device that stubs call: `int f(const char *function, const char *library, int code)`,
/// which returns `code`.
pub const UNSUPPORTED_FUNCTION: &str = "oomproof_unsupported";

const PAGE: u64 = 0x1000;
const SLOT: u64 = 8;
const VARIABLE_ALIGNMENT: u64 = 16;
const NODE: elf::VersionIndex = elf::VersionIndex(2);

/// The shared library that stands in for `library`, with a stub for each function that is not in `implemented`.
///
/// # Panics
///
/// When the names of one library take 4 GiB or more, which no table does.
pub fn elf_image(library: &Library, implemented: &BTreeSet<String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(library, implemented, &mut bytes).expect("the names of a library take less than 4 GiB");
    bytes
}

/// A symbol that the image exports.
struct Export<'a> {
    name: &'a str,
    kind: Kind,
    /// Its place in the section of its kind.
    offset: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Function { code: i32 },
    Variable { size: u64 },
}

/// The exports in the order that the GNU hash table wants, with the size of the variables.
fn exports<'a>(library: &'a Library, implemented: &BTreeSet<String>, buckets: u32) -> (Vec<Export<'a>>, u64) {
    let functions = library
        .functions
        .iter()
        .filter(|(name, _)| !implemented.contains(*name))
        .zip((0..).step_by(stub::STRIDE as usize))
        .map(|((name, &code), offset)| Export { name, kind: Kind::Function { code }, offset });
    let mut end = SLOT;
    let variables = library
        .variables
        .iter()
        .filter(|(name, _)| !implemented.contains(*name))
        .map(|(name, &size)| {
            let offset = end.next_multiple_of(VARIABLE_ALIGNMENT);
            end = offset + size;
            Export { name, kind: Kind::Variable { size }, offset }
        });
    let mut exports: Vec<_> = functions.chain(variables).collect();
    exports.sort_by_key(|export| elf::gnu_hash(export.name.as_bytes()) % buckets);
    (exports, end)
}

fn write(
    library: &Library,
    implemented: &BTreeSet<String>,
    bytes: &mut Vec<u8>,
) -> object::write::Result<()> {
    let names = (library.functions.len() + library.variables.len()) as u32;
    let buckets = (names / 4).max(1);
    let bloom_words = (names / 8).next_power_of_two();
    let (exports, data_size) = exports(library, implemented, buckets);
    let functions = exports.iter().filter(|export| matches!(export.kind, Kind::Function { .. })).count();
    let versioned = library.version.is_some();

    let mut w = Writer::new(Endianness::Little, true, bytes);
    let device = w.add_dynamic_string(DEVICE_SONAME.as_bytes());
    let reporter = w.add_dynamic_string(UNSUPPORTED_FUNCTION.as_bytes());
    let soname = w.add_dynamic_string(library.soname.as_bytes());
    let node = library.version.as_ref().map(|node| (node, w.add_dynamic_string(node.as_bytes())));
    let ids: Vec<StringId> =
        exports.iter().map(|export| w.add_dynamic_string(export.name.as_bytes())).collect();

    // Sections, in the order in which they lie.
    w.reserve_null_section_index();
    w.reserve_gnu_hash_section_index();
    let dynsym_section = w.reserve_dynsym_section_index();
    w.reserve_dynstr_section_index();
    if versioned {
        w.reserve_gnu_versym_section_index();
        w.reserve_gnu_verdef_section_index();
    }
    let rela_name = w.add_section_name(b".rela.dyn");
    w.reserve_section_index();
    let text_name = w.add_section_name(b".text");
    let text_section = w.reserve_section_index();
    w.reserve_dynamic_section_index();
    let data_name = w.add_section_name(b".data");
    let data_section = w.reserve_section_index();
    w.reserve_shstrtab_section_index();

    // Addresses.
    let segments = if functions == 0 { 4 } else { 5 };
    let tags = if versioned { 14 } else { 11 };
    w.reserve_file_header();
    w.reserve_program_headers(segments);
    let gnu_hash = w.reserve_gnu_hash(bloom_words, buckets, exports.len() as u32);
    let reporter_symbol = w.reserve_dynamic_symbol_index();
    for _ in &exports {
        w.reserve_dynamic_symbol_index();
    }
    let dynsym = w.reserve_dynsym();
    let dynstr = w.reserve_dynstr()?;
    let (versym, verdef) = if versioned {
        (w.reserve_gnu_versym(), w.reserve_gnu_verdef(2, 2))
    } else {
        (0, 0)
    };
    let rela = w.reserve_relocations(1, true);
    let tables_end = w.reserved_len();
    let text_size = functions as u64 * stub::STRIDE;
    let text = w.reserve(text_size, PAGE);
    let writable = w.reserve(0, PAGE);
    let dynamic = w.reserve_dynamic(tags);
    let data = w.reserve(data_size, VARIABLE_ALIGNMENT);
    let writable_end = w.reserved_len();
    w.reserve_shstrtab()?;
    w.reserve_section_headers();

    w.write_file_header(&FileHeader {
        e_type: elf::ET_DYN,
        e_machine: elf::EM_X86_64,
        ..FileHeader::default()
    })?;
    w.write_align_program_headers();
    let load = |p_flags, start: u64, end: u64| ProgramHeader {
        p_type: elf::PT_LOAD,
        p_flags,
        p_offset: start,
        p_vaddr: start,
        p_paddr: start,
        p_filesz: end - start,
        p_memsz: end - start,
        p_align: PAGE,
    };
    w.write_program_header(&load(elf::PF_R, 0, tables_end));
    if functions > 0 {
        w.write_program_header(&load(elf::PF_R | elf::PF_X, text, text + text_size));
    }
    w.write_program_header(&load(elf::PF_R | elf::PF_W, writable, writable_end));
    w.write_program_header(&ProgramHeader {
        p_type: elf::PT_DYNAMIC,
        p_align: 8,
        ..load(elf::PF_R | elf::PF_W, dynamic, data)
    });
    w.write_program_header(&ProgramHeader {
        p_type: elf::PT_GNU_STACK,
        p_align: 16,
        ..load(elf::PF_R | elf::PF_W, 0, 0)
    });

    let first_export = reporter_symbol.0 + 1;
    w.write_gnu_hash(first_export, 6, bloom_words, buckets, exports.len() as u32, |index| {
        elf::gnu_hash(exports[index as usize].name.as_bytes())
    });
    w.write_null_dynamic_symbol();
    w.write_dynamic_symbol(&Sym {
        section: None,
        st_name: w.dynamic_string_offset(Some(reporter)),
        st_info: elf::STB_GLOBAL | elf::STT_FUNC,
        st_other: elf::SymbolOther(0),
        st_shndx: elf::SHN_UNDEF,
        st_value: 0,
        st_size: 0,
    });
    for (export, id) in exports.iter().zip(&ids) {
        let (section, kind, base, size) = match export.kind {
            Kind::Function { .. } => (text_section, elf::STT_FUNC, text, stub::STRIDE),
            Kind::Variable { size } => (data_section, elf::STT_OBJECT, data, size),
        };
        w.write_dynamic_symbol(&Sym {
            section: Some(section.0),
            st_name: w.dynamic_string_offset(Some(*id)),
            st_info: elf::STB_GLOBAL | kind,
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SHN_UNDEF,
            st_value: base + export.offset,
            st_size: size,
        });
    }
    w.write_dynstr();
    if let Some((node, node_id)) = node {
        w.write_null_gnu_versym();
        w.write_gnu_versym(elf::VER_NDX_GLOBAL.into());
        for _ in &exports {
            w.write_gnu_versym(NODE.into());
        }
        w.write_align_gnu_verdef();
        let definition = |flags, index, name: &str, offset| Verdef {
            version: elf::VER_DEF_CURRENT,
            flags,
            index,
            aux_count: 1,
            name: offset,
            hash: elf::hash(name.as_bytes()),
        };
        let base_name = w.dynamic_string_offset(Some(soname));
        w.write_gnu_verdef(&definition(elf::VER_FLG_BASE, elf::VER_NDX_GLOBAL, &library.soname, base_name));
        let node_name = w.dynamic_string_offset(Some(node_id));
        w.write_gnu_verdef(&definition(elf::VersionFlags(0), NODE, node, node_name));
    }
    w.write_align_relocation();
    w.write_relocation(
        true,
        &Rel {
            r_offset: data,
            r_sym: reporter_symbol.0,
            r_type: elf::R_X86_64_GLOB_DAT,
            r_addend: 0,
        },
    );

    w.pad_until(text);
    let library_name = dynstr + u64::from(w.dynamic_string_offset(Some(soname)));
    let mut stubs: Vec<Stub> = exports
        .iter()
        .zip(&ids)
        .filter_map(|(export, id)| match export.kind {
            Kind::Variable { .. } => None,
            Kind::Function { code } => Some(Stub {
                at: text + export.offset,
                function: dynstr + u64::from(w.dynamic_string_offset(Some(*id))),
                library: library_name,
                reporter_slot: data,
                code,
            }),
        })
        .collect();
    stubs.sort_by_key(|stub| stub.at);
    for stub in &stubs {
        w.write(&stub.encode());
    }

    w.pad_until(writable);
    w.write_align_dynamic();
    w.write_dynamic_string(elf::DT_NEEDED, device)?;
    w.write_dynamic_string(elf::DT_SONAME, soname)?;
    w.write_dynamic(elf::DT_GNU_HASH, gnu_hash)?;
    w.write_dynamic(elf::DT_STRTAB, dynstr)?;
    w.write_dynamic(elf::DT_SYMTAB, dynsym)?;
    w.write_dynamic(elf::DT_STRSZ, w.dynstr_len().into())?;
    w.write_dynamic(elf::DT_SYMENT, 24)?;
    w.write_dynamic(elf::DT_RELA, rela)?;
    w.write_dynamic(elf::DT_RELASZ, 24)?;
    w.write_dynamic(elf::DT_RELAENT, 24)?;
    if versioned {
        w.write_dynamic(elf::DT_VERSYM, versym)?;
        w.write_dynamic(elf::DT_VERDEF, verdef)?;
        w.write_dynamic(elf::DT_VERDEFNUM, 2)?;
    }
    w.write_dynamic(elf::DT_NULL, 0)?;
    w.pad_until(data + data_size);

    w.write_shstrtab();
    w.write_null_section_header();
    w.write_gnu_hash_section_header(gnu_hash);
    w.write_dynsym_section_header(dynsym, 1);
    w.write_dynstr_section_header(dynstr);
    w.write_gnu_versym_section_header(versym);
    w.write_gnu_verdef_section_header(verdef);
    let rela_name = w.section_name_offset(Some(rela_name));
    let text_name = w.section_name_offset(Some(text_name));
    let data_name = w.section_name_offset(Some(data_name));
    let section = |sh_name, sh_type, sh_flags, start: u64, sh_size| SectionHeader {
        sh_name,
        sh_type,
        sh_flags,
        sh_addr: start,
        sh_offset: start,
        sh_size,
        sh_link: 0,
        sh_info: 0,
        sh_addralign: 16,
        sh_entsize: 0,
    };
    w.write_section_header(&SectionHeader {
        sh_link: dynsym_section.0,
        sh_addralign: 8,
        sh_entsize: 24,
        ..section(rela_name, elf::SHT_RELA, elf::SHF_ALLOC, rela, 24)
    });
    w.write_section_header(&section(
        text_name,
        elf::SHT_PROGBITS,
        elf::SHF_ALLOC | elf::SHF_EXECINSTR,
        text,
        text_size,
    ));
    w.write_dynamic_section_header(dynamic);
    w.write_section_header(&section(
        data_name,
        elf::SHT_PROGBITS,
        elf::SHF_ALLOC | elf::SHF_WRITE,
        data,
        data_size,
    ));
    w.write_shstrtab_section_header();
    Ok(())
}
