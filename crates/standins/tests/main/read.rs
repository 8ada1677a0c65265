use std::collections::BTreeSet;

use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, elf};
use oomproof_standins::{
    DEVICE_SONAME, Library, UNSUPPORTED_FUNCTION, all_libraries, elf_image, exported_functions,
};

/// What a reader finds: strings of the dynamic section and `name@node` of each symbol, undefined ones in front.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    soname: String,
    needed: Vec<String>,
    undefined: Vec<String>,
    exported: BTreeSet<String>,
}

fn see(image: &[u8]) -> Seen {
    let file = ElfFile64::<Endianness>::parse(image).unwrap();
    let dynamic = file.elf_dynamic_table().unwrap();
    let strings = |tag| -> Vec<String> {
        let entries = dynamic.iter().filter(|entry| entry.tag == tag);
        entries
            .map(|entry| text(dynamic.string(entry).unwrap()))
            .collect()
    };
    let versions = file
        .elf_section_table()
        .versions(file.endian(), image)
        .unwrap();
    let mut undefined = Vec::new();
    let mut exported = BTreeSet::new();
    for symbol in file.dynamic_symbols() {
        let mut name = symbol.name().unwrap().to_owned();
        let version = versions.as_ref().and_then(|versions| {
            let index = versions
                .version_index(file.endian(), symbol.index())
                .index();
            versions.version(index).unwrap()
        });
        if let Some(version) = version {
            name = format!("{name}@{}", text(version.name()));
        }
        if symbol.is_undefined() {
            undefined.push(name);
        } else {
            exported.insert(name);
        }
    }
    Seen {
        soname: strings(elf::DT_SONAME).remove(0),
        needed: strings(elf::DT_NEEDED),
        undefined,
        exported,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check(table: &str, implemented: &[&str], exported: &[&str]) {
    let library: Library = table.parse().unwrap();
    let implemented = implemented.iter().map(|&name| name.to_owned()).collect();
    let seen = see(&elf_image(&library, &implemented));
    let expected = Seen {
        soname: library.soname,
        needed: vec![DEVICE_SONAME.to_owned()],
        undefined: vec![UNSUPPORTED_FUNCTION.to_owned()],
        exported: exported.iter().map(|&name| name.to_owned()).collect(),
    };
    assert_eq!(seen, expected);
}

#[test]
fn images_say_what_the_table_says() {
    let head = "soname: liba.so.1\nnot supported: 7 NO\nstatus type: int\nprefix: a\n";
    let versioned = format!("{head}version: V_1\n\n");
    check(&format!("{head}\n"), &[], &[]);
    check(&versioned, &[], &[]);
    check(&format!("{head}\nab\nac 0\n"), &[], &["ab", "ac"]);
    check(
        &format!("{versioned}ab\nac 0\n"),
        &[],
        &["ab@V_1", "ac@V_1"],
    );
    check(
        &format!("{versioned}ab\nac\ndata ad 4\n"),
        &["ab", "other"],
        &["ac@V_1", "ad@V_1"],
    );
    check(&format!("{versioned}ab\n"), &["ab"], &[]);
}

#[test]
fn all_tables_become_images_with_all_their_names() {
    for library in all_libraries() {
        let functions = exported_functions(&elf_image(library, &BTreeSet::new())).unwrap();
        assert!(
            functions.iter().eq(library.functions.keys()),
            "{}",
            library.soname
        );
    }
}

#[test]
fn nothing_is_both_writable_and_executable() {
    for library in all_libraries() {
        let image = elf_image(library, &BTreeSet::new());
        let file = ElfFile64::<Endianness>::parse(image.as_slice()).unwrap();
        let flags = |kind| -> Vec<_> {
            let segments = file.elf_program_headers().iter();
            segments
                .filter(|segment| segment.p_type(Endianness::Little) == kind)
                .map(|segment| segment.p_flags(Endianness::Little))
                .collect()
        };
        let loaded = flags(elf::PT_LOAD);
        let executable = loaded.contains(&(elf::PF_R | elf::PF_X));
        assert_eq!(
            executable,
            !library.functions.is_empty(),
            "{}",
            library.soname
        );
        assert!(
            loaded
                .iter()
                .all(|flags| !flags.contains(elf::PF_W | elf::PF_X)),
            "{}",
            library.soname
        );
        assert_eq!(
            flags(elf::PT_GNU_STACK),
            [elf::PF_R | elf::PF_W],
            "{}",
            library.soname
        );
    }
}

#[test]
fn only_elf_libraries_have_exports() {
    let text = exported_functions(b"#!/bin/sh\n").unwrap_err().to_string();
    assert!(text.starts_with("not a 64-bit ELF library: "), "{text}");
}
