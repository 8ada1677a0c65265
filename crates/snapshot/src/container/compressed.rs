//! gzip and zstd. A few bytes can stand for gigabytes, so what comes out is bounded by what went in.

use std::io::Read;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::limits::Limits;
use crate::read::ReadError;

/// What a gzip file unfolds to, all its members after each other.
pub(crate) fn gunzip(file: &[u8], limits: &Limits) -> Result<Vec<u8>, ReadError> {
    let mut decoder = flate2::bufread::MultiGzDecoder::new(file);
    let mut out = Vec::new();
    fill(&mut decoder, &mut out, limits.unfolded(file.len()))
        .map_err(|trouble| trouble.at("gzip stream", file.len() - decoder.get_ref().len()))?;
    Ok(out)
}

/// What a deflated part of an archive unfolds to.
pub(super) fn inflate(part: &[u8], limits: &Limits, offset: usize) -> Result<Vec<u8>, ReadError> {
    const WHAT: &str = "deflated part of the archive";
    let mut decoder = flate2::bufread::DeflateDecoder::new(part);
    let mut out = Vec::new();
    fill(&mut decoder, &mut out, limits.unfolded(part.len()))
        .map_err(|trouble| trouble.at(WHAT, offset + part.len() - decoder.get_ref().len()))?;
    Ok(out)
}

/// What a zstd file unfolds to, all its frames after each other.
pub(crate) fn unzstd(file: &[u8], limits: &Limits) -> Result<Vec<u8>, ReadError> {
    const WHAT: &str = "zstd stream";
    let limit = limits.unfolded(file.len());
    let mut rest = file;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let at = file.len() - rest.len();
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(limit.min(LARGEST_WINDOW));
        let mut decoder = match StreamingDecoder::new_with_decoder(&mut rest, frame) {
            Ok(decoder) => decoder,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                rest = rest
                    .get(length as usize..)
                    .ok_or_else(|| ReadError::Damaged {
                        what: WHAT,
                        offset: at,
                        reason: "a frame to be skipped is longer than the file".to_owned(),
                    })?;
                continue;
            }
            Err(error) => {
                return Err(ReadError::Damaged {
                    what: WHAT,
                    offset: at,
                    reason: error.to_string(),
                });
            }
        };
        let filled = fill(&mut decoder, &mut out, limit);
        drop(decoder);
        filled.map_err(|trouble| trouble.at(WHAT, file.len() - rest.len()))?;
    }
    Ok(out)
}

/// What a frame may ask for before its first byte comes out, as the reference program has it.
const LARGEST_WINDOW: u64 = 128 << 20;

enum Trouble {
    TooLarge(u64),
    Damaged(String),
}

impl Trouble {
    fn at(self, what: &'static str, offset: usize) -> ReadError {
        match self {
            Self::TooLarge(limit) => ReadError::TooLarge {
                what,
                limit,
                offset,
            },
            Self::Damaged(reason) => ReadError::Damaged {
                what,
                offset,
                reason,
            },
        }
    }
}

/// Reads to the end, unless `out` would become longer than `limit`.
fn fill(decoder: &mut impl Read, out: &mut Vec<u8>, limit: u64) -> Result<(), Trouble> {
    let left = limit.saturating_sub(out.len() as u64);
    decoder
        .take(left + 1)
        .read_to_end(out)
        .map_err(|error| Trouble::Damaged(error.to_string()))?;
    if out.len() as u64 > limit {
        return Err(Trouble::TooLarge(limit));
    }
    Ok(())
}
