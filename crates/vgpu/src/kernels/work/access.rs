//! What a kernel that is carried out reads and writes.
//!
//! Writes are kept back until the kernel has read all it needs, so that a kernel that meets an unknown byte half-way
//! has changed nothing. Whatever was read decides whether what is written hangs on an assumption.

use crate::contents::{Assumption, Known};
use crate::memory::Memory;

use super::super::element::{Element, Value};

/// Kernels on more elements are not carried out.
pub(crate) const MAX_ELEMENTS: usize = 1 << 17;

/// Strided tensors that reach over more bytes are read element by element.
const MAX_SPAN: i64 = 1 << 21;

/// Strided results are written element by element up to this many, when what lies between is not known.
const MAX_PIECES: usize = 1 << 12;

/// Device memory as one kernel sees it.
pub(crate) struct Access<'a> {
    memory: &'a Memory,
    assumption: Option<Assumption>,
    writes: Vec<(u64, Vec<u8>)>,
    is_partial: bool,
}

/// What a kernel wrote, and what that hangs on.
pub(crate) struct Written {
    pub(crate) assumption: Option<Assumption>,
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    /// Whether the rest of the output is unknown, rather than left as it was.
    pub(crate) is_partial: bool,
}

impl<'a> Access<'a> {
    pub(crate) fn new(memory: &'a Memory) -> Self {
        Self {
            memory,
            assumption: None,
            writes: Vec::new(),
            is_partial: false,
        }
    }

    /// What is not written of the output is unknown.
    pub(crate) fn leave_rest_unknown(&mut self) {
        self.is_partial = true;
    }

    /// Whether this is the address of device memory.
    pub(crate) fn is_memory(&self, address: u64) -> bool {
        self.memory.is_memory(address, 1)
    }

    /// Whether a graph is captured, whose launches will do the work.
    pub(crate) fn is_deferred(&self) -> bool {
        self.memory.deferred.is_some()
    }

    pub(crate) fn finish(self) -> Written {
        Written {
            assumption: self.assumption,
            writes: self.writes,
            is_partial: self.is_partial,
        }
    }

    /// The bytes of device memory, if all of them have a value.
    pub(crate) fn bytes(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        if len == 0 {
            return Some(Vec::new());
        }
        if len > MAX_ELEMENTS * 16 {
            return None;
        }
        let Known { bytes, assumption } = super::super::known(self.memory, address, len)?;
        self.assumption = self.assumption.or(assumption);
        Some(bytes)
    }

    /// Pieces of device memory, one after the other, each if all of it has a value; `None` when no byte has one.
    pub(crate) fn pieces(
        &mut self,
        address: u64,
        count: usize,
        len: usize,
    ) -> Option<Vec<Option<Vec<u8>>>> {
        let total = count.checked_mul(len)? as u64;
        if count > MAX_ELEMENTS || !self.memory.is_memory(address, total) {
            return None;
        }
        let runs = self.memory.contents.known_runs(address, total);
        if runs.is_empty() {
            return None;
        }
        self.assumption = self
            .assumption
            .or(self.memory.contents.assumption(address, total));
        let (mut bytes, mut is_known) = (vec![0; count * len], vec![false; count * len]);
        for (at, run) in runs {
            let place = at as usize..at as usize + run.len();
            is_known[place.clone()].fill(true);
            bytes[place].copy_from_slice(&run);
        }
        let pieces = bytes.chunks_exact(len).zip(is_known.chunks_exact(len));
        let piece = |(piece, known): (&[u8], &[bool])| {
            known
                .iter()
                .all(|is_known| *is_known)
                .then(|| piece.to_vec())
        };
        Some(pieces.map(piece).collect())
    }

    /// The elements of a contiguous tensor.
    pub(crate) fn values(
        &mut self,
        element: Element,
        address: u64,
        count: usize,
    ) -> Option<Vec<Value>> {
        if count > MAX_ELEMENTS {
            return None;
        }
        Some(element.read_all(&self.bytes(address, count * element.len())?))
    }

    /// One element.
    pub(crate) fn value(&mut self, element: Element, address: u64) -> Option<Value> {
        element.read(&self.bytes(address, element.len())?)
    }

    /// `len` bytes at each of these offsets from `address`, one after the other.
    pub(crate) fn gather(&mut self, address: u64, offsets: &[i64], len: usize) -> Option<Vec<u8>> {
        if offsets.len() > MAX_ELEMENTS {
            return None;
        }
        let (Some(first), Some(last)) = (offsets.iter().min(), offsets.iter().max()) else {
            return Some(Vec::new());
        };
        let mut out = Vec::with_capacity(offsets.len() * len);
        let span = last.checked_sub(*first)?.checked_add(len as i64)?;
        let start = address.checked_add_signed(*first)?;
        if span <= MAX_SPAN
            && let Some(bytes) = self.bytes(start, span as usize)
        {
            for offset in offsets {
                let at = (offset - first) as usize;
                out.extend_from_slice(bytes.get(at..at + len)?);
            }
        } else {
            for offset in offsets {
                out.extend_from_slice(&self.bytes(address.checked_add_signed(*offset)?, len)?);
            }
        }
        Some(out)
    }

    /// The elements at these offsets.
    pub(crate) fn gather_values(
        &mut self,
        element: Element,
        address: u64,
        offsets: &[i64],
    ) -> Option<Vec<Value>> {
        Some(element.read_all(&self.gather(address, offsets, element.len())?))
    }

    /// The bytes at `address` will be these.
    pub(crate) fn write(&mut self, address: u64, bytes: Vec<u8>) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        if !self.memory.is_memory(address, bytes.len() as u64) {
            return None;
        }
        self.writes.push((address, bytes));
        Some(())
    }

    /// The elements at `address` will be these.
    pub(crate) fn write_values(
        &mut self,
        element: Element,
        address: u64,
        values: impl IntoIterator<Item = Value>,
    ) -> Option<()> {
        let mut bytes = Vec::new();
        for value in values {
            element.write(value, &mut bytes);
        }
        self.write(address, bytes)
    }

    /// Pieces of `len` bytes at these offsets from `address` will be those of `bytes`; of two at one offset the later
    /// one stays.
    pub(crate) fn scatter(
        &mut self,
        address: u64,
        offsets: &[i64],
        len: usize,
        bytes: &[u8],
    ) -> Option<()> {
        let (Some(first), Some(last)) = (offsets.iter().min(), offsets.iter().max()) else {
            return Some(());
        };
        let is_contiguous = offsets
            .iter()
            .enumerate()
            .all(|(index, offset)| offset - first == (index * len) as i64);
        let start = address.checked_add_signed(*first)?;
        if is_contiguous {
            return self.write(start, bytes.to_vec());
        }
        let span = usize::try_from(last.checked_sub(*first)?)
            .ok()?
            .checked_add(len)?;
        let is_complete = span == offsets.len() * len && {
            let mut covered = vec![false; offsets.len()];
            for offset in offsets {
                let at = (offset - first) as usize;
                if at.is_multiple_of(len) {
                    covered[at / len] = true;
                }
            }
            covered.into_iter().all(|is_covered| is_covered)
        };
        let mut whole = if is_complete {
            vec![0; span]
        } else if span as i64 <= MAX_SPAN
            && let Some(whole) = self.current(start, span)
        {
            whole
        } else {
            if offsets.len() > MAX_PIECES {
                return None;
            }
            for (offset, piece) in offsets.iter().zip(bytes.chunks_exact(len)) {
                self.write(address.checked_add_signed(*offset)?, piece.to_vec())?;
            }
            return Some(());
        };
        for (offset, piece) in offsets.iter().zip(bytes.chunks_exact(len)) {
            let at = (offset - first) as usize;
            whole.get_mut(at..at + len)?.copy_from_slice(piece);
        }
        self.write(start, whole)
    }

    /// The same with values.
    pub(crate) fn scatter_values(
        &mut self,
        element: Element,
        address: u64,
        offsets: &[i64],
        values: &[Value],
    ) -> Option<()> {
        let mut bytes = Vec::with_capacity(values.len() * element.len());
        for value in values {
            element.write(*value, &mut bytes);
        }
        self.scatter(address, offsets, element.len(), &bytes)
    }

    /// What the bytes are after the writes so far, if all of them have a value.
    pub(crate) fn current(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = self.bytes(address, len)?;
        let end = address + len as u64;
        for (at, written) in &self.writes {
            let (from, to) = (address.max(*at), end.min(at + written.len() as u64));
            if from < to {
                bytes[(from - address) as usize..(to - address) as usize]
                    .copy_from_slice(&written[(from - at) as usize..(to - at) as usize]);
            }
        }
        Some(bytes)
    }
}
