//! How much arithmetic the attention kernels do that PyTorch brings itself, for the clock of the device.
//!
//! Their sizes are in a struct that is passed by value, whose layout differs between releases. So each size is looked
//! for where releases have put it and believed only if it agrees with the grid; otherwise nothing is said.

use std::ffi::c_void;

use super::signature::Signature;
use crate::clock::{Cost, Format};

/// A kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attention {
    shape: Shape,
    format: Format,
    /// Half of the scores are not computed.
    is_causal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `FlashAttention`: the sizes of both directions lie in the same place.
    Flash(Direction),
    /// The kernels of xFormers, forward, with so many queries a block.
    Efficient {
        block_queries: u32,
    },
    EfficientBackward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    batch: u64,
    heads: u64,
    queries: u64,
    keys: u64,
    head_dim: u64,
    value_dim: u64,
}

/// Offsets in the argument of `FlashAttention`, which are the same from torch 2.4 on: three addresses and nine strides
/// come first.
mod flash {
    pub(super) const HEADS: usize = 96;
    pub(super) const KEY_HEADS: usize = 100;
    pub(super) const HEADS_PER_KEY_HEAD: usize = 104;
    pub(super) const BATCH: usize = 176;
    pub(super) const QUERIES: usize = 180;
    pub(super) const KEYS: usize = 184;
    pub(super) const HEAD_DIM: usize = 192;
}

impl Attention {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        let name = signature.name();
        let function = signature.function();
        let format = if name.contains("bfloat16_t") || function.contains("_bf16_") {
            Format::Brain
        } else if name.contains("half_t") || function.contains("_f16_") {
            Format::Half
        } else {
            Format::Single
        };
        let shape = if function.starts_with("flash_fwd_kernel") {
            Shape::Flash(Direction::Forward)
        } else if function.starts_with("flash_bwd_dq_dk_dv_loop") {
            Shape::Flash(Direction::Backward)
        } else if let Some(rest) = function.strip_prefix("fmha_cutlassF_") {
            // As in `f16_aligned_64x128_rf_sm80`.
            let sizes = rest.split('_').find_map(|part| part.split_once('x'))?;
            Shape::Efficient {
                block_queries: sizes.0.parse().ok()?,
            }
        } else if function.starts_with("fmha_cutlassB_") {
            Shape::EfficientBackward
        } else {
            return None;
        };
        Some(Self {
            shape,
            format,
            is_causal: matches!(shape, Shape::Flash(_)) && is_causal(name),
        })
    }

    /// What a launch asks of the device; `None` where its argument is not as expected.
    ///
    /// # Safety
    /// `arguments` must fit the kernel that this was made of.
    pub(super) unsafe fn cost(
        self,
        arguments: *const *const c_void,
        grid: [u32; 3],
    ) -> Option<Cost> {
        // SAFETY: promised by the caller: the kernel has one argument.
        let argument = unsafe { *arguments };
        // SAFETY: the argument of each of these kernels is longer than the offsets below.
        let word =
            |at: usize| unsafe { argument.cast::<u8>().add(at).cast::<u32>().read_unaligned() };
        let (sizes, is_causal) = match self.shape {
            Shape::Flash(_) => (flash_sizes(word, grid)?, self.is_causal),
            Shape::Efficient { block_queries } => efficient_sizes(word, grid, block_queries)?,
            Shape::EfficientBackward => (efficient_backward_sizes(word, grid)?, false),
        };
        let is_backward = matches!(
            self.shape,
            Shape::Flash(Direction::Backward) | Shape::EfficientBackward
        );
        Some(sizes.cost(
            is_backward.then_some(Direction::Backward),
            is_causal,
            self.format,
        ))
    }
}

/// The second or first flag among the template arguments behind the traits, whichever the kernel has: the flags of
/// both directions begin with dropout and causality.
fn is_causal(name: &str) -> bool {
    let Some((_, flags)) = name.rsplit_once(">, ") else {
        return false;
    };
    flags
        .split(',')
        .nth(1)
        .is_some_and(|flag| flag.trim() == "true")
}

/// Sizes that are believed: not more than what a launch can have.
fn size(word: u32) -> Option<u64> {
    (1..1 << 30).contains(&word).then_some(u64::from(word))
}

fn flash_sizes(word: impl Fn(usize) -> u32, grid: [u32; 3]) -> Option<Sizes> {
    let [heads, batch] = [word(flash::HEADS), word(flash::BATCH)];
    let is_known = grid[1..] == [batch, heads]
        && word(flash::KEY_HEADS).checked_mul(word(flash::HEADS_PER_KEY_HEAD)) == Some(heads)
        && word(flash::HEAD_DIM) <= 256;
    if !is_known {
        return None;
    }
    let head_dim = size(word(flash::HEAD_DIM))?;
    Some(Sizes {
        batch: size(batch)?,
        heads: size(heads)?,
        queries: size(word(flash::QUERIES))?,
        keys: size(word(flash::KEYS))?,
        head_dim,
        value_dim: head_dim,
    })
}

/// Whether a word is a factor for scores, which lies before the sizes.
fn is_scale(word: u32) -> bool {
    (1e-6..=16.0).contains(&f32::from_bits(word))
}

fn four_sizes(word: impl Fn(usize) -> u32, at: usize, grid: [u32; 3]) -> Option<Sizes> {
    const LONGEST_HEAD: u64 = 1 << 16;
    let [head_dim, value_dim] = [size(word(at))?, size(word(at + 4))?];
    let is_plausible = is_scale(word(at - 4)) && head_dim.max(value_dim) <= LONGEST_HEAD;
    is_plausible.then_some(Sizes {
        batch: size(grid[2])?,
        heads: size(grid[1])?,
        queries: size(word(at + 8))?,
        keys: size(word(at + 12))?,
        head_dim,
        value_dim,
    })
}

/// Seven or eight addresses, an offset, three more and perhaps a window come before the scale and the sizes.
fn efficient_sizes(
    word: impl Fn(usize) -> u32,
    grid: [u32; 3],
    block_queries: u32,
) -> Option<(Sizes, bool)> {
    [92, 96, 100, 104].into_iter().find_map(|at| {
        let sizes = four_sizes(&word, at, grid)?;
        let blocks = sizes.queries.div_ceil(u64::from(block_queries.max(1)));
        let is_masked = word(at + 20) & 0xff != 0;
        (blocks == u64::from(grid[0])).then_some((sizes, is_masked))
    })
}

/// Seventeen addresses and perhaps a window come before the scale and the sizes; the number of heads follows them.
fn efficient_backward_sizes(word: impl Fn(usize) -> u32, grid: [u32; 3]) -> Option<Sizes> {
    [140, 144].into_iter().find_map(|at| {
        let sizes = four_sizes(&word, at, grid)?;
        (word(at + 16) == grid[1]).then_some(sizes)
    })
}

impl Sizes {
    /// Forward two products, backward five: scores, what comes back to them, and three gradients.
    fn cost(self, backward: Option<Direction>, is_causal: bool, format: Format) -> Cost {
        let all = |sizes: &[u64]| {
            sizes
                .iter()
                .fold(1, |all: u64, one| all.saturating_mul(*one))
        };
        let (of_heads, of_values) = if backward.is_some() { (3, 2) } else { (1, 1) };
        let scores = all(&[self.batch, self.heads, self.queries, self.keys]);
        let products = of_heads * self.head_dim + of_values * self.value_dim;
        let operations = all(&[2, scores, products]) / if is_causal { 2 } else { 1 };
        let element = match format {
            Format::Half | Format::Brain => 2,
            _ => 4,
        };
        let rows = self.queries.saturating_add(self.keys);
        Cost {
            bytes: all(&[
                self.batch,
                self.heads,
                rows,
                self.head_dim + self.value_dim,
                element,
            ]),
            operations,
            format,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: &str = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, \
        cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, CAUSAL, false, \
        false, true, true, false, false>(pytorch_flash::Flash_fwd_params)";
    const FLASH_BACKWARD: &str = "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<\
        Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::half_t, Flash_kernel_traits<64, 128, \
        128, 8, cutlass::half_t> >, false, CAUSAL, false, false, true, true, false>(pytorch_flash::Flash_bwd_params)";

    /// An argument with these words at their offsets.
    fn argument(words: &[(usize, u32)]) -> [u32; 64] {
        let mut argument = [0; 64];
        for (at, word) in words {
            argument[at / 4] = *word;
        }
        argument
    }

    fn check(name: &str, words: &[(usize, u32)], grid: [u32; 3], expected: Option<(u64, Format)>) {
        let attention = Attention::of(&Signature::parse(name)).expect("a kernel of attention");
        let argument = argument(words);
        let arguments = [argument.as_ptr().cast::<c_void>()];
        // SAFETY: one argument, longer than any offset.
        let cost = unsafe { attention.cost(arguments.as_ptr(), grid) };
        let found = cost.map(|cost| (cost.operations, cost.format));
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn flash_attention_is_read_off_its_argument() {
        // 2 sequences, 8 heads on 4 of keys, 128 queries, 512 keys, 64 numbers a head.
        let words = [
            (96, 8),
            (100, 4),
            (104, 2),
            (176, 2),
            (180, 128),
            (184, 512),
            (192, 64),
        ];
        let scores = 2 * 8 * 128 * 512;
        let [whole, causal] = ["false", "true"].map(|causal| FLASH.replace("CAUSAL", causal));
        let grid = [1, 2, 8];
        check(&whole, &words, grid, Some((4 * scores * 64, Format::Brain)));
        check(
            &causal,
            &words,
            grid,
            Some((2 * scores * 64, Format::Brain)),
        );
        let backward = FLASH_BACKWARD.replace("CAUSAL", "false");
        check(
            &backward,
            &words,
            grid,
            Some((10 * scores * 64, Format::Half)),
        );
        // Another layout is not believed.
        check(&whole, &words, [1, 8, 2], None);
        check(&whole, &words[1..], grid, None);
    }

    #[test]
    fn efficient_attention_is_found_where_releases_put_it() {
        let forward = "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t, \
            cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)";
        let scale = 0.125f32.to_bits();
        let at = |at: usize, mask| {
            let sizes = [scale, 64, 64, 100, 512, 512, mask];
            let words = sizes.into_iter().enumerate();
            words
                .map(|(index, word)| (at - 4 + 4 * index, word))
                .collect::<Vec<_>>()
        };
        let grid = [2, 8, 3];
        let operations = 3 * 8 * 100 * 512 * 4 * 64;
        for place in [92, 96, 100, 104] {
            check(
                forward,
                &at(place, 0),
                grid,
                Some((operations, Format::Half)),
            );
            check(
                forward,
                &at(place, 1),
                grid,
                Some((operations / 2, Format::Half)),
            );
        }
        check(forward, &at(96, 0), [3, 8, 3], None);
        check(forward, &at(112, 0), grid, None);

        let backward = "fmha_cutlassB_f32_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<\
            cutlass::arch::Sm80, float, true, false, false, 64, 64, 64, false>::Params)";
        for place in [140, 144] {
            let mut words = at(place, 0);
            words[5].1 = 8;
            check(
                backward,
                &words,
                [1, 8, 3],
                Some((operations / 4 * 10, Format::Single)),
            );
            words[5].1 = 7;
            check(backward, &words, [1, 8, 3], None);
        }
    }

    #[test]
    fn other_kernels_are_none() {
        let name = "void pytorch_flash::flash_bwd_convert_dq_kernel<T>(pytorch_flash::Flash_bwd_params, int)";
        assert_eq!(Attention::of(&Signature::parse(name)), None);
    }
}
