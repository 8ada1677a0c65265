//! The argument by which PyTorch's multi-tensor kernels get lists of tensors.
//!
//! It is 4 KiB long, or 32 KiB where PyTorch was built for CUDA 13 since some release, and nothing in the names tells
//! which. It is not initialized beyond what is used, so stale addresses of earlier launches follow the real ones.
//! A table says which tensor each block of the grid works on; a layout is believed when all that its table says makes
//! sense and what the other says does not.

use std::ffi::c_void;

use super::element::Element;
use super::stack::reach;

/// Elements that one block works on.
pub(crate) const CHUNK: u64 = 65_536;

/// What the argument holds for each tensor beside its addresses and its number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    /// A number of this many bytes.
    Scalar(usize),
    /// The address of the number of steps.
    Steps,
}

/// The type of such an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorLists {
    pub(crate) n_lists: usize,
    pub(crate) beside: Beside,
}

/// The constants of one of the two lengths.
struct Layout {
    /// Tensors in each list, by number of lists.
    lengths: [usize; 5],
    /// The same where there is a number beside each.
    lengths_with_scalars: [usize; 5],
    /// The same where that number has 16 bytes.
    lengths_with_long_scalars: [usize; 5],
    n_blocks: usize,
    /// Bytes by which the table names a tensor.
    tensor_len: usize,
}

const SHORT: Layout = Layout {
    lengths: [110, 64, 48, 36, 30],
    lengths_with_scalars: [96, 64, 48, 36, 30],
    lengths_with_long_scalars: [72, 60, 48, 36, 30],
    n_blocks: 320,
    tensor_len: 1,
};
const LONG: Layout = Layout {
    lengths: [770, 448, 336, 252, 210],
    lengths_with_scalars: [672, 448, 336, 252, 210],
    lengths_with_long_scalars: [504, 420, 336, 252, 210],
    n_blocks: 2240,
    tensor_len: 2,
};

/// A tensor of the lists: its address in each of them, and its number of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) addresses: Vec<u64>,
    pub(crate) n_elements: u64,
}

impl Entry {
    /// Its number of elements, as a length in memory.
    pub(crate) fn count(&self) -> usize {
        self.n_elements as usize
    }
}

impl TensorLists {
    /// The lists that this C++ type holds; `None` for other types.
    pub(crate) fn of(cpp_type: &str) -> Option<Self> {
        let (before, inside) = cpp_type
            .split_once("TensorListMetadata<")
            .or_else(|| cpp_type.split_once("TensorListScalarListMetadata<"))?;
        let inside = inside.trim_end().strip_suffix('>')?;
        let (scalar, n_lists) = match inside.rsplit_once(',') {
            Some((scalar, n_lists)) => (Some(scalar), n_lists),
            None => (None, inside),
        };
        let n_lists = n_lists.trim().trim_end_matches(['u', 'l']).parse().ok()?;
        let beside = match scalar {
            Some(scalar) => Beside::Scalar(match scalar.trim() {
                "c10::complex<float>" => 8,
                "c10::complex<double>" => 16,
                other => Element::named(other)?.len(),
            }),
            None if before.ends_with("FusedOptimizer") => Beside::Steps,
            None => Beside::Nothing,
        };
        (1..=SHORT.lengths.len())
            .contains(&n_lists)
            .then_some(Self { n_lists, beside })
    }

    fn length(self, layout: &Layout) -> usize {
        let lengths = match self.beside {
            Beside::Scalar(16) => &layout.lengths_with_long_scalars,
            Beside::Scalar(_) => &layout.lengths_with_scalars,
            Beside::Nothing | Beside::Steps => &layout.lengths,
        };
        lengths[self.n_lists - 1]
    }

    /// The tensors that a grid of this many blocks works on, in the order of the lists; `None` when that cannot be
    /// told for certain. `is_device` tells addresses of device memory from other words.
    ///
    /// # Safety
    /// `argument` must point to a value of this type.
    pub(crate) unsafe fn in_use(
        self,
        argument: *const c_void,
        n_blocks: usize,
        is_device: &dyn Fn(u64) -> bool,
    ) -> Option<Vec<Entry>> {
        // SAFETY: both layouts are looked at no farther than the type or the stack reaches.
        let [short, long] = [&SHORT, &LONG]
            .map(|layout| unsafe { self.read(layout, argument, n_blocks, is_device) });
        match (short, long) {
            (Some(entries), None) | (None, Some(entries)) => Some(entries),
            _ => None,
        }
    }

    /// The same, if the argument has this layout.
    ///
    /// # Safety
    /// As for [`TensorLists::in_use`].
    unsafe fn read(
        self,
        layout: &Layout,
        argument: *const c_void,
        n_blocks: usize,
        is_device: &dyn Fn(u64) -> bool,
    ) -> Option<Vec<Entry>> {
        if n_blocks == 0 || n_blocks > layout.n_blocks {
            return None;
        }
        let length = self.length(layout);
        let counts_at = self.n_lists * length * 8;
        let beside_len = match self.beside {
            Beside::Nothing => 0,
            Beside::Scalar(len) => len,
            Beside::Steps => 8,
        };
        let tensors_at = counts_at + length * (8 + beside_len);
        let chunks_at = (tensors_at + layout.n_blocks * layout.tensor_len).next_multiple_of(4);
        // An argument that would leave the stack is a shorter one.
        if layout.tensor_len == 2 && reach(argument) < chunks_at + layout.n_blocks * 4 {
            return None;
        }
        // SAFETY: every type holds at least the shorter layout, and the stack reaches beyond the longer one.
        let byte = |at: usize| unsafe { argument.cast::<u8>().add(at).read() };
        let chunk = |block: usize| {
            let at = chunks_at + block * 4;
            u64::from(u32::from_ne_bytes(std::array::from_fn(|index| {
                byte(at + index)
            })))
        };
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| byte(at + index)));
        let tensor = |block: usize| {
            let at = tensors_at + block * layout.tensor_len;
            (0..layout.tensor_len).fold(0, |sum, index| {
                sum | usize::from(byte(at + index)) << (8 * index)
            })
        };
        let mut entries: Vec<Entry> = Vec::new();
        for block in 0..n_blocks {
            let is_new = tensor(block) == entries.len();
            if is_new {
                let address = |list: usize| word((list * length + entries.len()) * 8);
                let entry = Entry {
                    addresses: (0..self.n_lists).map(address).collect(),
                    n_elements: word(counts_at + entries.len() * 8),
                };
                let is_first = entries.is_empty();
                // A launch may go on with a tensor that the one before had no more blocks for.
                let begins = is_first || chunk(block) == 0;
                if entries.len() >= length
                    || !begins
                    || !entry.addresses.iter().all(|at| is_device(*at))
                {
                    return None;
                }
                entries.push(entry);
            } else if tensor(block) + 1 != entries.len() || chunk(block) != chunk(block - 1) + 1 {
                return None;
            }
            let n_chunks = entries.last()?.n_elements.div_ceil(CHUNK);
            let is_last = block + 1 < n_blocks && tensor(block + 1) != tensor(block);
            if chunk(block) >= n_chunks || is_last && chunk(block) + 1 != n_chunks {
                return None;
            }
        }
        Some(entries)
    }

    /// Calls `f` with each address in the argument that a grid of this many blocks (0 when that is not known) may
    /// write through.
    ///
    /// # Safety
    /// As for [`TensorLists::in_use`].
    pub(crate) unsafe fn for_each_output(
        self,
        argument: *const c_void,
        n_blocks: usize,
        is_device: &dyn Fn(u64) -> bool,
        mut f: impl FnMut(u64),
    ) {
        // SAFETY: promised by the caller.
        if let Some(entries) = unsafe { self.in_use(argument, n_blocks, is_device) } {
            let lists = 0..self.n_lists;
            return lists
                .flat_map(|list| entries.iter().map(move |entry| entry.addresses[list]))
                .for_each(f);
        }
        // SAFETY: as above.
        let word = |index: usize| unsafe { argument.cast::<u64>().add(index).read_unaligned() };
        // Neither the length is known then, nor how many tensors there are. A list ends at the first word that is no
        // address, and one too many only makes something unknown that was known.
        let (short, long) = (self.length(&SHORT), self.length(&LONG));
        // The first list begins at the same place in both.
        let mut first_end = 0;
        for (length, within) in [(short, self.n_lists * short), (long, reach(argument) / 8)] {
            for list in 0..self.n_lists {
                let mut at = if list == 0 { first_end } else { list * length };
                while at < ((list + 1) * length).min(within) && is_device(word(at)) {
                    f(word(at));
                    at += 1;
                }
                if list == 0 {
                    first_end = at;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_say_how_many_lists_there_are() {
        let of = |text: &str| TensorLists::of(text).map(|lists| (lists.n_lists, lists.beside));
        let name = |text: &str| of(&format!("at::native::(anonymous namespace)::{text}"));
        assert_eq!(name("TensorListMetadata<2>"), Some((2, Beside::Nothing)));
        assert_eq!(
            name("TensorListScalarListMetadata<float, 1>"),
            Some((1, Beside::Scalar(4)))
        );
        assert_eq!(
            name("TensorListScalarListMetadata<c10::complex<double>, 2>"),
            Some((2, Beside::Scalar(16)))
        );
        assert_eq!(
            name("FusedOptimizerTensorListMetadata<4>"),
            Some((4, Beside::Steps))
        );
        assert_eq!(name("TensorListMetadata<6>"), None);
        assert_eq!(name("TensorInfo<float, 2>"), None);
    }

    /// An argument full of stale addresses, as `layout` has it, for tensors of these many elements; the first chunk of
    /// the first one is `start`. Addresses count up from 1000, list by list.
    fn argument(
        lists: TensorLists,
        layout: &Layout,
        counts: &[u64],
        start: u32,
    ) -> (Vec<u64>, usize) {
        let mut bytes: Vec<u8> = 999u64.to_ne_bytes().repeat(5_000);
        let length = lists.length(layout);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        for list in 0..lists.n_lists {
            for tensor in 0..counts.len() {
                let address = 1000 + (list * counts.len() + tensor) as u64;
                put((list * length + tensor) * 8, &address.to_ne_bytes());
            }
        }
        let counts_at = lists.n_lists * length * 8;
        let beside_len = match lists.beside {
            Beside::Nothing => 0,
            Beside::Scalar(len) => len,
            Beside::Steps => 8,
        };
        let tensors_at = counts_at + length * (8 + beside_len);
        let chunks_at = tensors_at + layout.n_blocks * layout.tensor_len;
        let mut block = 0;
        for (tensor, count) in counts.iter().enumerate() {
            put(counts_at + tensor * 8, &count.to_ne_bytes());
            let first = if tensor == 0 { start } else { 0 };
            for chunk in first..count.div_ceil(CHUNK) as u32 {
                put(
                    tensors_at + block * layout.tensor_len,
                    &tensor.to_ne_bytes()[..layout.tensor_len],
                );
                put(chunks_at + block * 4, &chunk.to_ne_bytes());
                block += 1;
            }
        }
        let words = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word));
        (words.collect(), block)
    }

    fn check(n_lists: usize, beside: Beside, counts: &[u64], start: u32) {
        let lists = TensorLists { n_lists, beside };
        for layout in [&SHORT, &LONG] {
            let (words, n_blocks) = argument(lists, layout, counts, start);
            let on_stack: [u64; 5_000] = words.try_into().expect("as many words");
            let mut found = Vec::new();
            // SAFETY: longer than any such type.
            unsafe {
                let at = on_stack.as_ptr().cast();
                lists.for_each_output(at, n_blocks, &|word| (999..2000).contains(&word), |to| {
                    found.push(to);
                });
            }
            let expected: Vec<u64> = (1000..1000 + (n_lists * counts.len()) as u64).collect();
            assert_eq!(
                found, expected,
                "{lists:?} {counts:?} from {start}, {} blocks",
                layout.n_blocks
            );
        }
    }

    #[test]
    fn stale_addresses_are_not_outputs() {
        check(1, Beside::Nothing, &[3], 0);
        check(1, Beside::Nothing, &[3, 65_536, 65_537, 1], 0);
        check(2, Beside::Nothing, &[200_000, 5], 1);
        check(5, Beside::Nothing, &[8; 30], 0);
        check(1, Beside::Scalar(4), &[1, 2, 3], 0);
        check(2, Beside::Scalar(8), &[1, 2, 3], 0);
        check(2, Beside::Scalar(16), &[100_000; 9], 0);
        check(4, Beside::Steps, &[64, 64 * 64], 0);
    }
}
