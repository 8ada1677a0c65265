//! The archives of `torch.save`: a zip with `NAME/data.pkl`, stored without compression. Any other zip with one pickle
//! is read too.
//!
//! Only the central directory counts, as for every careful reader; the local header must agree with it in what matters.
//! Check sums are not looked at, because torch can be told to leave them out.

use std::borrow::Cow;

use crate::container::compressed::inflate;
use crate::limits::Limits;
use crate::read::ReadError;

const END: &[u8] = b"PK\x05\x06";
const END_LEN: usize = 22;
const END64_LOCATOR: &[u8] = b"PK\x06\x07";
const END64_LOCATOR_LEN: usize = 20;
const END64: &[u8] = b"PK\x06\x06";
const CENTRAL: &[u8] = b"PK\x01\x02";
const CENTRAL_LEN: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_LEN: usize = 30;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// One file of the archive.
#[derive(Clone, Debug)]
struct Member<'a> {
    name: &'a [u8],
    is_encrypted: bool,
    method: u16,
    packed_len: u64,
    len: u64,
    header_at: u64,
    /// Where the directory says all this.
    offset: usize,
}

/// The pickle inside an archive.
pub(crate) fn pickle_of_archive<'a>(
    file: &'a [u8],
    limits: &Limits,
) -> Result<Cow<'a, [u8]>, ReadError> {
    let (members, directory_at) = members(file)?;
    let member = the_pickle(&members)?;
    let damaged = |reason: &str| damaged(member.offset, reason);
    if member.is_encrypted {
        return Err(damaged("it is encrypted"));
    }
    let header_at =
        usize::try_from(member.header_at).map_err(|_| damaged("it lies outside the file"))?;
    let header =
        slice(file, header_at, LOCAL_LEN).ok_or_else(|| damaged("it lies outside the file"))?;
    let name_len = usize::from(u16_at(header, 26));
    let start = header_at + LOCAL_LEN + name_len + usize::from(u16_at(header, 28));
    if !header.starts_with(LOCAL)
        || slice(file, header_at + LOCAL_LEN, name_len) != Some(member.name)
    {
        return Err(damaged("its header is not that of the directory"));
    }
    let packed = usize::try_from(member.packed_len)
        .ok()
        .and_then(|len| slice(&file[..directory_at], start, len))
        .ok_or_else(|| damaged("it reaches past its place"))?;
    let content = match member.method {
        STORED => Cow::Borrowed(packed),
        DEFLATED => Cow::Owned(inflate(packed, limits, start)?),
        _ => return Err(damaged("it is compressed in a way that is not supported")),
    };
    if content.len() as u64 != member.len {
        return Err(damaged("it has another length than the directory says"));
    }
    Ok(content)
}

/// Which of the files is meant: `data.pkl` of `torch.save`, or the only pickle, or the only file.
fn the_pickle<'m, 'a>(members: &'m [Member<'a>]) -> Result<&'m Member<'a>, ReadError> {
    let is_data =
        |member: &&Member| member.name == b"data.pkl" || member.name.ends_with(b"/data.pkl");
    let is_pickle = |member: &&Member| {
        [".pkl", ".pickle", ".pkl.gz", ".pickle.gz"]
            .iter()
            .any(|end| member.name.ends_with(end.as_bytes()))
    };
    let is_file = |member: &&Member| !member.name.ends_with(b"/");
    let candidates: [&dyn Fn(&&Member) -> bool; 3] = [&is_data, &is_pickle, &is_file];
    for is_candidate in candidates {
        let mut found = members.iter().filter(is_candidate);
        match (found.next(), found.next()) {
            (Some(member), None) => return Ok(member),
            (Some(_), Some(second)) => {
                return Err(damaged(
                    second.offset,
                    "it holds several files that could be meant",
                ));
            }
            (None, _) => {}
        }
    }
    Err(ReadError::NothingInside("zip archive"))
}

/// The files that the central directory lists, and where it begins.
fn members(file: &[u8]) -> Result<(Vec<Member<'_>>, usize), ReadError> {
    let (n_members, directory_at, directory_len) = directory(file)?;
    let bytes = slice(file, directory_at, directory_len)
        .ok_or_else(|| damaged(file.len(), "its directory lies outside the file"))?;
    let mut members = Vec::new();
    let mut at = 0;
    for _ in 0..n_members {
        let offset = directory_at + at;
        let header = slice(bytes, at, CENTRAL_LEN)
            .filter(|header| header.starts_with(CENTRAL))
            .ok_or_else(|| damaged(offset, "its directory has fewer files than it says"))?;
        let name_len = usize::from(u16_at(header, 28));
        let extra_len = usize::from(u16_at(header, 30));
        let name = slice(bytes, at + CENTRAL_LEN, name_len);
        let extra = slice(bytes, at + CENTRAL_LEN + name_len, extra_len);
        let (Some(name), Some(extra)) = (name, extra) else {
            return Err(damaged(offset, "its directory is cut off"));
        };
        let mut member = Member {
            name,
            is_encrypted: u16_at(header, 8) & 1 != 0,
            method: u16_at(header, 10),
            packed_len: u64::from(u32_at(header, 20)),
            len: u64::from(u32_at(header, 24)),
            header_at: u64::from(u32_at(header, 42)),
            offset,
        };
        member.take_long_numbers(extra);
        members.push(member);
        at += CENTRAL_LEN + name_len + extra_len + usize::from(u16_at(header, 32));
    }
    Ok((members, directory_at))
}

impl Member<'_> {
    /// Numbers that did not fit into four bytes stand in the extra field 1, in a fixed order.
    fn take_long_numbers(&mut self, extra: &[u8]) {
        let mut at = 0;
        while let Some(head) = slice(extra, at, 4) {
            let len = usize::from(u16_at(head, 2));
            if u16_at(head, 0) == 1
                && let Some(mut field) = slice(extra, at + 4, len)
            {
                for number in [&mut self.len, &mut self.packed_len, &mut self.header_at] {
                    if *number == u64::from(u32::MAX)
                        && let Some((first, rest)) = field.split_first_chunk()
                    {
                        *number = u64::from_le_bytes(*first);
                        field = rest;
                    }
                }
            }
            at += 4 + len;
        }
    }
}

/// Number of files, offset and length of the central directory.
fn directory(file: &[u8]) -> Result<(u64, usize, usize), ReadError> {
    let outside = || damaged(file.len(), "its directory lies outside the file");
    let earliest = file.len().saturating_sub(END_LEN + usize::from(u16::MAX));
    let end_at = (earliest..=file.len().saturating_sub(END_LEN))
        .rev()
        .find(|&at| {
            let comment_len = file
                .get(at + 20..at + END_LEN)
                .map(|bytes| u16_at(bytes, 0));
            let end = comment_len.map(|len| at + END_LEN + usize::from(len));
            file[at..].starts_with(END) && end == Some(file.len())
        })
        .ok_or_else(|| damaged(file.len(), "it is cut off: its directory is missing"))?;
    let end = &file[end_at..];
    let short = (
        u64::from(u16_at(end, 10)),
        u64::from(u32_at(end, 16)),
        u64::from(u32_at(end, 12)),
    );
    let locator = end_at
        .checked_sub(END64_LOCATOR_LEN)
        .and_then(|at| slice(file, at, END64_LOCATOR_LEN))
        .filter(|locator| locator.starts_with(END64_LOCATOR));
    let (n_members, at, len) = match locator {
        None => short,
        Some(locator) => {
            let end64 = usize::try_from(u64_at(locator, 8))
                .ok()
                .and_then(|at| slice(file, at, 56))
                .filter(|end64| end64.starts_with(END64))
                .ok_or_else(outside)?;
            (u64_at(end64, 32), u64_at(end64, 48), u64_at(end64, 40))
        }
    };
    let at = usize::try_from(at).map_err(|_| outside())?;
    let len = usize::try_from(len).map_err(|_| outside())?;
    Ok((n_members, at, len))
}

fn damaged(offset: usize, reason: &str) -> ReadError {
    ReadError::Damaged {
        what: "zip archive",
        offset,
        reason: reason.to_owned(),
    }
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

/// The number at an offset that the caller has checked.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
