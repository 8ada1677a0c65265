//! Arithmetic of collectives: the types of elements NCCL has, and how the elements of several ranks become one.

use std::ffi::c_int;

/// `ncclDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataType {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    /// The two kinds of float of 8 bits, whose sums are not computed here.
    F8,
}

/// What is made of the elements of all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    Average,
    /// The sum of what each rank has multiplied by its own factor, `None` when that is not known.
    ScaledSum(Option<f64>),
}

impl DataType {
    pub(super) fn from_code(code: c_int) -> Option<Self> {
        Some(match code {
            0 => Self::I8,
            1 => Self::U8,
            2 => Self::I32,
            3 => Self::U32,
            4 => Self::I64,
            5 => Self::U64,
            6 => Self::F16,
            7 => Self::F32,
            8 => Self::F64,
            9 => Self::Bf16,
            10 | 11 => Self::F8,
            _ => return None,
        })
    }

    /// Bytes of an element.
    pub(super) fn len(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::F8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::F32 | Self::F64 | Self::Bf16 | Self::F8
        )
    }

    fn float(self, bytes: &[u8]) -> Option<f64> {
        Some(match self {
            Self::F16 => half(u16::from_ne_bytes(bytes.try_into().ok()?)),
            Self::Bf16 => {
                let bits = u16::from_ne_bytes(bytes.try_into().ok()?);
                f64::from(f32::from_bits(u32::from(bits) << 16))
            }
            Self::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().ok()?)),
            Self::F64 => f64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The nearest number of this type.
    fn put_float(self, value: f64, out: &mut [u8]) {
        match self {
            Self::F16 => out.copy_from_slice(&to_half(value).to_ne_bytes()),
            Self::Bf16 => out.copy_from_slice(&to_bfloat(value as f32).to_ne_bytes()),
            Self::F32 => out.copy_from_slice(&(value as f32).to_ne_bytes()),
            Self::F64 => out.copy_from_slice(&value.to_ne_bytes()),
            _ => {}
        }
    }

    fn whole(self, bytes: &[u8]) -> Option<i128> {
        Some(match self {
            Self::I8 => i128::from(i8::from_ne_bytes(bytes.try_into().ok()?)),
            Self::U8 => i128::from(*bytes.first()?),
            Self::I32 => i128::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            Self::U32 => i128::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            Self::I64 => i128::from(i64::from_ne_bytes(bytes.try_into().ok()?)),
            Self::U64 => i128::from(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => return None,
        })
    }

    /// The element that the ranks' elements become; `None` when that is not computed here.
    pub(super) fn reduce(self, by: Reduction, elements: &[&[u8]], out: &mut [u8]) -> Option<()> {
        if self.is_float() {
            let values = elements
                .iter()
                .map(|bytes| self.float(bytes))
                .collect::<Option<Vec<_>>>()?;
            let sum = || values.iter().sum::<f64>();
            let value = match by {
                Reduction::Sum => sum(),
                Reduction::Product => values.iter().product(),
                Reduction::Max => values.into_iter().reduce(f64::max)?,
                Reduction::Min => values.into_iter().reduce(f64::min)?,
                Reduction::Average => sum() / elements.len() as f64,
                Reduction::ScaledSum(factor) => sum() * factor?,
            };
            self.put_float(value, out);
            return Some(());
        }
        let values = elements
            .iter()
            .map(|bytes| self.whole(bytes))
            .collect::<Option<Vec<_>>>()?;
        let sum = || {
            values
                .iter()
                .fold(0, |sum: i128, value| sum.wrapping_add(*value))
        };
        let value = match by {
            Reduction::Sum => sum(),
            Reduction::Product => values
                .iter()
                .fold(1, |product: i128, value| product.wrapping_mul(*value)),
            Reduction::Max => values.into_iter().max()?,
            Reduction::Min => values.into_iter().min()?,
            Reduction::Average => sum() / elements.len() as i128,
            Reduction::ScaledSum(_) => return None,
        };
        out.copy_from_slice(&value.to_le_bytes()[..self.len()]);
        Some(())
    }

    /// The number in `bytes`, as a factor.
    pub(super) fn factor(self, bytes: &[u8]) -> Option<f64> {
        self.float(bytes)
    }
}

/// The value of a float of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 1023);
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    }
}

/// The nearest float of 16 bits, of two the even one.
fn to_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if size.is_nan() {
        return 0x7e00;
    }
    // Halfway between the largest one and what would follow it.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    let exponent = if size < 2_f64.powi(-14) {
        -14
    } else {
        size.log2().floor() as i32
    };
    let steps = (size * 2_f64.powi(10 - exponent)).round_ties_even() as u32;
    // A fraction that rounds up to the next power of two carries into the exponent, as it should.
    let bits = if exponent == -14 && steps < 1024 {
        steps
    } else {
        ((exponent + 14) as u32) * 1024 + steps
    };
    sign | bits as u16
}

/// The nearest bfloat16, of two the even one.
fn to_bfloat(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fc0;
    }
    let round = 0x7fff + (bits >> 16 & 1);
    ((bits + round) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(
        kind: DataType,
        by: Reduction,
        elements: &[[u8; N]],
        expected: Option<[u8; N]>,
    ) {
        let elements: Vec<&[u8]> = elements.iter().map(<[u8; N]>::as_slice).collect();
        let mut out = [0; N];
        let done = kind.reduce(by, &elements, &mut out);
        assert_eq!(done.map(|()| out), expected, "{kind:?} {by:?}");
    }

    #[test]
    fn elements_of_ranks_become_one() {
        let ints = [3_i32, -5, 4].map(i32::to_ne_bytes);
        check(
            DataType::I32,
            Reduction::Sum,
            &ints,
            Some(2_i32.to_ne_bytes()),
        );
        check(
            DataType::I32,
            Reduction::Product,
            &ints,
            Some((-60_i32).to_ne_bytes()),
        );
        check(
            DataType::I32,
            Reduction::Max,
            &ints,
            Some(4_i32.to_ne_bytes()),
        );
        check(
            DataType::I32,
            Reduction::Min,
            &ints,
            Some((-5_i32).to_ne_bytes()),
        );
        check(DataType::U8, Reduction::Sum, &[[200], [100]], Some([44]));
        let large = [i64::MAX, 1].map(i64::to_ne_bytes);
        check(
            DataType::I64,
            Reduction::Sum,
            &large,
            Some(i64::MIN.to_ne_bytes()),
        );
        let floats = [1.5_f32, 2.5].map(f32::to_ne_bytes);
        check(
            DataType::F32,
            Reduction::Sum,
            &floats,
            Some(4_f32.to_ne_bytes()),
        );
        check(
            DataType::F32,
            Reduction::Average,
            &floats,
            Some(2_f32.to_ne_bytes()),
        );
        let scaled = Reduction::ScaledSum(Some(0.25));
        check(DataType::F32, scaled, &floats, Some(1_f32.to_ne_bytes()));
        check(DataType::F32, Reduction::ScaledSum(None), &floats, None);
        check(DataType::F8, Reduction::Sum, &[[1], [2]], None);
        let brains = [0x3f80_u16, 0x4000].map(u16::to_ne_bytes);
        check(
            DataType::Bf16,
            Reduction::Sum,
            &brains,
            Some(0x4040_u16.to_ne_bytes()),
        );
    }

    #[test]
    fn every_half_float_survives() {
        for bits in 0..=u16::MAX {
            let value = half(bits);
            if value.is_nan() {
                assert!(half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), bits, "{value}");
            }
        }
        assert_eq!(to_half(65519.0), 0x7bff);
        assert_eq!(to_half(65520.0), 0x7c00);
        assert_eq!(
            to_half(1.0 + 2_f64.powi(-11)),
            0x3c00,
            "a tie goes to the even one"
        );
        assert_eq!(to_bfloat(1.0 + 2_f32.powi(-8)), 0x3f80);
    }
}
