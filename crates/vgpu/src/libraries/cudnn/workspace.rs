//! Scratch sizes that cuDNN chooses. Each is an estimate: the library's own choice depends on the kernel it picks.
//!
//! What is public is what each algorithm has to store. Kernels for tensor cores work on channels-last data, so data in
//! the other layout is copied over and back. A gradient of a half-precision filter that is summed in pieces is held in
//! single precision. Winograd's algorithm in separate steps holds transformed tiles in single precision: for filters of
//! three by three, 36 numbers for each 16 of the images and for each 9 of the filter. The largest is the one by Fourier
//! transforms of tiles, which single precision is documented for: each tile and each filter becomes a half spectrum of
//! 32 by 32.

use std::sync::Arc;

use super::backend::Node;
use super::tensor::element_bytes;
use crate::clock::{Cost, Format};
use crate::libraries::estimate::{Scratch, assume};
use crate::session::session;

/// Attributes of a tensor's descriptor.
mod tensor {
    pub(super) const DATA_TYPE: i32 = 901;
    pub(super) const DIMENSIONS: i32 = 902;
    pub(super) const STRIDES: i32 = 903;
}

/// How numbers of a `cudnnDataType_t` are multiplied.
pub(super) fn format(data_type: i32, singles: Format) -> Format {
    match data_type {
        1 => Format::Double,
        2 => Format::Half,
        9 => Format::Brain,
        3 | 5 | 6 | 7 | 8 | 12 | 13 => Format::Eighth,
        _ => singles,
    }
}

/// One of the three tensors of a convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) elements: u64,
    /// Bytes of an element.
    element: u64,
    pub(super) data_type: i32,
    channels_last: bool,
    /// The second dimension: channels of an image, or of one group's filter.
    channels: u64,
    /// Elements of one channel.
    plane: u64,
}

impl Operand {
    /// A tensor with these sizes and strides.
    pub(super) fn new(data_type: i32, dimensions: &[i64], strides: &[i64]) -> Self {
        let positive = |size: &i64| u64::try_from(*size).unwrap_or(0);
        let channels = dimensions.get(1).map_or(0, positive);
        Self {
            elements: dimensions.iter().map(positive).fold(1, u64::saturating_mul),
            element: element_bytes(data_type),
            data_type,
            channels_last: channels > 1 && strides.get(1) == Some(&1),
            channels,
            plane: dimensions
                .iter()
                .skip(2)
                .map(positive)
                .fold(1, u64::saturating_mul),
        }
    }

    pub(super) fn of(node: &Node) -> Self {
        let numbers = |attribute| -> Vec<i64> {
            let numbers = node.numbers(attribute);
            numbers.into_iter().map(u64::cast_signed).collect()
        };
        let data_type = node.enumeration(tensor::DATA_TYPE).unwrap_or(0);
        Self::new(
            data_type,
            &numbers(tensor::DIMENSIONS),
            &numbers(tensor::STRIDES),
        )
    }

    pub(super) fn bytes(self) -> u64 {
        self.elements.saturating_mul(self.element)
    }
}

/// What is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Result {
    Output,
    Input,
    Filter,
}

/// A convolution in one of its directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) image: Operand,
    pub(super) filter: Operand,
    pub(super) output: Operand,
    pub(super) result: Result,
}

/// Algorithms that are offered, in the order in which PyTorch tries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// What cuDNN would recommend.
    Recommended,
    /// The one with large scratch memory, which `cudnn.benchmark` also tries.
    Winograd,
    /// One without scratch memory, taken when there is no room.
    Direct,
}

impl Engine {
    pub(super) const ALL: [Self; 3] = [Self::Recommended, Self::Winograd, Self::Direct];

    /// The engine with this number.
    pub(super) fn numbered(number: u64) -> Self {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        Self::ALL.get(at).copied().unwrap_or(Self::Direct)
    }
}

impl Convolution {
    /// The convolution that an operation of a graph is.
    pub(super) fn of(operation: &Node) -> Option<Self> {
        // Attributes of filter, image and output in each direction.
        let (attributes, result) = match operation.kind {
            10 => ([703, 704, 705], Result::Output),
            11 => ([709, 710, 711], Result::Input),
            12 => ([715, 716, 717], Result::Filter),
            _ => return None,
        };
        let operand = |attribute| {
            let tensor = operation.nodes(attribute).first()?;
            Some(Operand::of(tensor))
        };
        Some(Self {
            filter: operand(attributes[0])?,
            image: operand(attributes[1])?,
            output: operand(attributes[2])?,
            result,
        })
    }

    /// What it asks of the device in any of its directions: each number of the output takes part in a multiply-add for
    /// each number of one filter. 32-bit numbers are multiplied as `singles` says.
    pub(super) fn cost(&self, singles: Format) -> Cost {
        let one_filter = self.filter.channels.saturating_mul(self.filter.plane);
        Cost {
            bytes: self
                .image
                .bytes()
                .saturating_add(self.filter.bytes())
                .saturating_add(self.output.bytes()),
            operations: self
                .output
                .elements
                .saturating_mul(one_filter)
                .saturating_mul(2),
            format: format(self.image.data_type, singles),
        }
    }

    /// Whether tensor cores of a device can compute with this type.
    fn on_tensor_cores(&self, capability: (u32, u32)) -> bool {
        match self.image.data_type {
            0 | 9 => capability.0 >= 8,  // single precision as TF32, bfloat16
            2 | 12 => capability.0 >= 7, // half precision, 8-bit floats
            _ => false,
        }
    }

    fn one_channel_each(&self) -> bool {
        self.filter.channels == 1 && self.image.channels > 1
    }

    fn recommended(&self, capability: (u32, u32)) -> u64 {
        if self.one_channel_each() {
            return 0;
        }
        let (image, filter, output) = (self.image, self.filter, self.output);
        if !self.on_tensor_cores(capability) {
            // The filter in the order or the transformed form that the kernel reads it in.
            return filter.bytes();
        }
        let in_pieces = match self.result {
            Result::Filter => filter.elements.saturating_mul(4),
            Result::Output | Result::Input => 0,
        };
        let turned = if image.channels_last {
            0
        } else {
            [image, filter, output]
                .into_iter()
                .map(Operand::bytes)
                .fold(0, u64::saturating_add)
        };
        turned.saturating_add(in_pieces)
    }

    fn winograd(&self) -> u64 {
        let images = self.image.elements.saturating_add(self.output.elements);
        let tiles = images.saturating_mul(36) / 16;
        let filter = self.filter.elements.saturating_mul(36) / 9;
        tiles.saturating_add(filter).saturating_mul(4)
    }

    fn fourier(&self) -> u64 {
        const SPECTRUM: u64 = 32 * 17 * 8;
        /// Elements of a tile that the borders of a small filter leave.
        const TILE: u64 = 30 * 30;
        const SINGLE: i32 = 0;
        if self.image.data_type != SINGLE || self.filter.plane < 2 {
            return 0;
        }
        let images = self.image.elements.saturating_add(self.output.elements);
        let tiles = images.div_ceil(TILE);
        let filters = self.filter.elements / self.filter.plane;
        tiles.saturating_add(filters).saturating_mul(SPECTRUM)
    }

    /// Scratch memory of one engine on a device.
    pub(super) fn scratch(&self, engine: Engine, capability: (u32, u32)) -> Scratch {
        let (recommended, winograd) = (self.recommended(capability), self.winograd());
        let likely = match engine {
            Engine::Recommended => recommended,
            Engine::Winograd => winograd,
            Engine::Direct => {
                return Scratch::default();
            }
        };
        Scratch {
            low: 0,
            likely,
            high: recommended.saturating_add(winograd.max(self.fourier())),
        }
    }
}

/// The capability of the device, and that its figures are estimates, which is said once.
pub(super) fn convolution_scratch(convolution: &Convolution, engine: Engine) -> Scratch {
    let capability = session().map_or((0, 0), |session| session.settings.device.compute_capability);
    assume(
        "the scratch memory of cuDNN convolutions",
        "copies in the layout that tensor cores need, between none and the tiles of Winograd's algorithm or of Fourier \
         transforms besides",
    );
    convolution.scratch(engine, capability)
}

/// Scratch memory of a plan for `operations` by the engine with a number.
pub(super) fn plan_scratch(operations: &[Arc<Node>], engine: u64) -> Scratch {
    let convolution = operations
        .iter()
        .find_map(|operation| Convolution::of(operation));
    match convolution {
        Some(convolution) => convolution_scratch(&convolution, Engine::numbered(engine)),
        // Attention and norms need what the graph itself names, which the caller adds on its own; a kernel that sums in
        // pieces holds its results once more in single precision.
        None => Scratch {
            low: 0,
            likely: 0,
            high: super::execute::outputs(operations)
                .iter()
                .map(|tensor| Operand::of(tensor).elements.saturating_mul(4))
                .fold(0, u64::saturating_add),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: i32 = 2;
    const SINGLE: i32 = 0;

    fn convolution(
        data_type: i32,
        channels_last: bool,
        filter_channels: i64,
        result: Result,
    ) -> Convolution {
        let operand = |channels, filter_channels: Option<i64>| {
            let dimensions = [4, filter_channels.unwrap_or(channels), 8, 8];
            let strides = if channels_last {
                [1024, 1, 128, 16]
            } else {
                [1024, 64, 8, 1]
            };
            Operand::new(data_type, &dimensions, &strides)
        };
        Convolution {
            image: operand(16, None),
            filter: operand(16, Some(filter_channels)),
            output: operand(16, None),
            result,
        }
    }

    #[test]
    fn what_is_recommended_depends_on_layout_type_and_device() {
        let check = |data_type, channels_last, channels, result, capability, expected| {
            let convolution = convolution(data_type, channels_last, channels, result);
            let scratch = convolution.scratch(Engine::Recommended, capability);
            assert_eq!(
                scratch.likely, expected,
                "{convolution:?} on {capability:?}"
            );
            assert!(scratch.low <= scratch.likely && scratch.likely < scratch.high);
            assert_eq!(
                convolution.scratch(Engine::Direct, capability),
                Scratch::default()
            );
        };
        // Each tensor has 4096 elements.
        check(HALF, false, 16, Result::Output, (8, 0), 3 * 8192);
        check(HALF, true, 16, Result::Output, (8, 0), 0);
        check(HALF, true, 16, Result::Filter, (8, 0), 16_384);
        check(HALF, false, 16, Result::Input, (6, 1), 8192);
        check(SINGLE, false, 16, Result::Output, (7, 5), 16_384);
        check(SINGLE, false, 16, Result::Output, (9, 0), 3 * 16_384);
        check(HALF, false, 1, Result::Output, (8, 0), 0);
    }
}
