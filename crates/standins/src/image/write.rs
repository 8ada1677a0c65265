//! Writing a reserved image, front to back.

use object::elf;
use object::write::Result;
use object::write::elf::{FileHeader, ProgramHeader, Rel, SectionHeader, Sym, Verdef};

use super::exports::Kind;
use super::{Image, PAGE, RELOCATION, SYMBOL};
use crate::stub::{self, Stub};

/// The first version that a library defines; 0 and 1 are taken by the format.
const NODE: elf::VersionIndex = elf::VersionIndex(2);
const BLOOM_SHIFT: u32 = 6;

impl Image<'_> {
    pub(super) fn write(mut self) -> Result<()> {
        self.headers()?;
        self.symbols();
        self.versions();
        self.relocation();
        self.stubs();
        self.dynamic()?;
        self.section_headers();
        Ok(())
    }

    fn headers(&mut self) -> Result<()> {
        let places = &self.places;
        self.writer.write_file_header(&FileHeader {
            e_type: elf::ET_DYN,
            e_machine: elf::EM_X86_64,
            ..FileHeader::default()
        })?;
        self.writer.write_align_program_headers();
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
        self.writer
            .write_program_header(&load(elf::PF_R, 0, places.tables_end));
        if places.text < places.text_end {
            let code = load(elf::PF_R | elf::PF_X, places.text, places.text_end);
            self.writer.write_program_header(&code);
        }
        let writable = elf::PF_R | elf::PF_W;
        self.writer
            .write_program_header(&load(writable, places.dynamic, places.data_end));
        self.writer.write_program_header(&ProgramHeader {
            p_type: elf::PT_DYNAMIC,
            p_align: 8,
            ..load(writable, places.dynamic, places.data)
        });
        self.writer.write_program_header(&ProgramHeader {
            p_type: elf::PT_GNU_STACK,
            p_align: 16,
            ..load(writable, 0, 0)
        });
        Ok(())
    }

    fn symbols(&mut self) {
        let w = &mut self.writer;
        let exports = &self.exports;
        w.write_gnu_hash(
            self.reporter.0 + 1,
            BLOOM_SHIFT,
            exports.bloom_words(),
            exports.buckets(),
            exports.len(),
            |index| exports.hash(index),
        );
        w.write_null_dynamic_symbol();
        w.write_dynamic_symbol(&Sym {
            section: None,
            st_name: w.dynamic_string_offset(Some(self.names.reporter)),
            st_info: elf::STB_GLOBAL | elf::STT_FUNC,
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SHN_UNDEF,
            st_value: 0,
            st_size: 0,
        });
        for (export, name) in exports.iter().zip(&self.names.exports) {
            let (section, kind, start, st_size) = match export.kind {
                Kind::Function { .. } => (
                    self.sections.text,
                    elf::STT_FUNC,
                    self.places.text,
                    stub::STRIDE,
                ),
                Kind::Variable { size } => {
                    (self.sections.data, elf::STT_OBJECT, self.places.data, size)
                }
            };
            w.write_dynamic_symbol(&Sym {
                section: Some(section.0),
                st_name: w.dynamic_string_offset(Some(*name)),
                st_info: elf::STB_GLOBAL | kind,
                st_other: elf::SymbolOther(0),
                st_shndx: elf::SHN_UNDEF,
                st_value: start + export.offset,
                st_size,
            });
        }
        w.write_dynstr();
    }

    fn versions(&mut self) {
        let (Some(node), Some(node_name)) = (&self.library.version, self.names.node) else {
            return;
        };
        let w = &mut self.writer;
        w.write_null_gnu_versym();
        w.write_gnu_versym(elf::VER_NDX_GLOBAL.into());
        for _ in self.exports.iter() {
            w.write_gnu_versym(NODE.into());
        }
        w.write_align_gnu_verdef();
        let base = Verdef {
            version: elf::VER_DEF_CURRENT,
            flags: elf::VER_FLG_BASE,
            index: elf::VER_NDX_GLOBAL,
            aux_count: 1,
            name: w.dynamic_string_offset(Some(self.names.soname)),
            hash: elf::hash(self.library.soname.as_bytes()),
        };
        w.write_gnu_verdef(&base);
        w.write_gnu_verdef(&Verdef {
            flags: elf::VersionFlags(0),
            index: NODE,
            name: w.dynamic_string_offset(Some(node_name)),
            hash: elf::hash(node.as_bytes()),
            ..base
        });
    }

    fn relocation(&mut self) {
        self.writer.write_align_relocation();
        let slot = Rel {
            r_offset: self.places.data,
            r_sym: self.reporter.0,
            r_type: elf::R_X86_64_GLOB_DAT,
            r_addend: 0,
        };
        self.writer.write_relocation(true, &slot);
    }

    fn stubs(&mut self) {
        self.writer.pad_until(self.places.text);
        let text =
            |name| self.places.dynstr + u64::from(self.writer.dynamic_string_offset(Some(name)));
        let mut stubs = Vec::new();
        for (export, name) in self.exports.iter().zip(&self.names.exports) {
            if let Kind::Function { code } = export.kind {
                stubs.push(Stub {
                    at: self.places.text + export.offset,
                    function: text(*name),
                    library: text(self.names.soname),
                    reporter_slot: self.places.data,
                    code,
                });
            }
        }
        stubs.sort_by_key(|stub| stub.at);
        for stub in &stubs {
            self.writer.write(&stub.encode());
        }
    }

    fn dynamic(&mut self) -> Result<()> {
        let w = &mut self.writer;
        let places = &self.places;
        w.pad_until(places.dynamic);
        w.write_align_dynamic();
        w.write_dynamic_string(elf::DT_NEEDED, self.names.device)?;
        w.write_dynamic_string(elf::DT_SONAME, self.names.soname)?;
        w.write_dynamic(elf::DT_GNU_HASH, places.gnu_hash)?;
        w.write_dynamic(elf::DT_STRTAB, places.dynstr)?;
        w.write_dynamic(elf::DT_SYMTAB, places.dynsym)?;
        w.write_dynamic(elf::DT_STRSZ, w.dynstr_len().into())?;
        w.write_dynamic(elf::DT_SYMENT, SYMBOL)?;
        w.write_dynamic(elf::DT_RELA, places.rela)?;
        w.write_dynamic(elf::DT_RELASZ, RELOCATION)?;
        w.write_dynamic(elf::DT_RELAENT, RELOCATION)?;
        if self.library.version.is_some() {
            w.write_dynamic(elf::DT_VERSYM, places.versym)?;
            w.write_dynamic(elf::DT_VERDEF, places.verdef)?;
            w.write_dynamic(elf::DT_VERDEFNUM, 2)?;
        }
        w.write_dynamic(elf::DT_NULL, 0)?;
        w.pad_until(places.data_end);
        Ok(())
    }

    fn section_headers(&mut self) {
        let w = &mut self.writer;
        let places = &self.places;
        w.write_shstrtab();
        w.write_null_section_header();
        w.write_gnu_hash_section_header(places.gnu_hash);
        w.write_dynsym_section_header(places.dynsym, 1);
        w.write_dynstr_section_header(places.dynstr);
        w.write_gnu_versym_section_header(places.versym);
        w.write_gnu_verdef_section_header(places.verdef);
        let section = |sh_name, sh_type, sh_flags, start: u64, end: u64| SectionHeader {
            sh_name,
            sh_type,
            sh_flags,
            sh_addr: start,
            sh_offset: start,
            sh_size: end - start,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 8,
            sh_entsize: 0,
        };
        let alloc = elf::SHF_ALLOC;
        let name = w.section_name_offset(Some(self.names.rela));
        w.write_section_header(&SectionHeader {
            sh_link: self.sections.dynsym.0,
            sh_entsize: RELOCATION,
            ..section(
                name,
                elf::SHT_RELA,
                alloc,
                places.rela,
                places.rela + RELOCATION,
            )
        });
        let name = w.section_name_offset(Some(self.names.text));
        let flags = alloc | elf::SHF_EXECINSTR;
        w.write_section_header(&section(
            name,
            elf::SHT_PROGBITS,
            flags,
            places.text,
            places.text_end,
        ));
        w.write_dynamic_section_header(places.dynamic);
        let name = w.section_name_offset(Some(self.names.data));
        let flags = alloc | elf::SHF_WRITE;
        w.write_section_header(&section(
            name,
            elf::SHT_PROGBITS,
            flags,
            places.data,
            places.data_end,
        ));
        w.write_shstrtab_section_header();
    }
}
