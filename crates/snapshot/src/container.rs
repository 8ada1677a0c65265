//! What snapshots are wrapped in. The first bytes of a file tell, never its name; what is inside may be wrapped again.

mod base64;
mod compressed;
mod html;
mod torch_legacy;
mod zip;

pub(crate) use compressed::{gunzip, unzstd};
pub(crate) use html::embedded_pickle;
pub(crate) use torch_legacy::last_pickle;
pub(crate) use zip::pickle_of_archive;

/// What the first bytes of a file say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Gzip,
    Zstd,
    Zip,
    TorchLegacy,
    Pickle,
    Profile,
    Html,
    Json,
    Unknown,
}

/// Recognizes a file.
pub(crate) fn recognize(file: &[u8]) -> Wrapping {
    match file {
        [0x1f, 0x8b, ..] => Wrapping::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Wrapping::Zstd,
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Wrapping::Zip,
        _ if file.starts_with(torch_legacy::MAGIC) => Wrapping::TorchLegacy,
        [0x80, 2..=5, ..] => Wrapping::Pickle,
        _ if file.starts_with(&oomproof_profile::layout::MAGIC) => Wrapping::Profile,
        _ => match file.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'<') => Wrapping::Html,
            Some(b'{' | b'[') => Wrapping::Json,
            _ => Wrapping::Unknown,
        },
    }
}
