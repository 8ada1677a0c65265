//! The arithmetic of element-wise kernels on single values.
//!
//! Whole numbers wrap at the width of their type. Floats are computed in double precision and rounded to the type that
//! the kernel computes in: for sums, products, quotients and square roots that gives the bits of the GPU, because
//! double precision has more than twice the digits; transcendental functions may differ in the last digit, as they do
//! between GPUs and CPUs.

use super::element::{Element, Value};

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Identity,
    Absolute,
    Negative,
    Sign,
    Floor,
    Ceil,
    Round,
    Truncate,
    Fraction,
    SquareRoot,
    InverseSquareRoot,
    Reciprocal,
    Exp,
    Exp2,
    ExpMinusOne,
    Log,
    Log2,
    Log10,
    LogOnePlus,
    Sigmoid,
    Tanh,
    Sin,
    Cos,
    Tan,
    Silu,
    Square,
    Cube,
    InverseSquare,
    BitNot,
    LogicalNot,
    IsPositiveInfinity,
    IsNegativeInfinity,
    SignBit,
}

/// A function of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    TruncateDivide,
    Remainder,
    Modulo,
    Power,
    Maximum,
    Minimum,
    /// The same, but what is not a number loses.
    FloatMaximum,
    FloatMinimum,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    SquaredDifference,
    ArcTangent,
}

impl Unary {
    /// The function's value, computed in `element`.
    pub(crate) fn apply(self, element: Element, value: Value) -> Option<Value> {
        if matches!(self, Self::Identity) {
            return Some(element.convert(value));
        }
        if matches!(self, Self::LogicalNot) {
            return Some(Value::truth(!value.is_true()));
        }
        let result = match value {
            Value::Int(int) => Value::Int(self.of_int(element, int)?),
            Value::Float(float) => match self {
                Self::IsPositiveInfinity => return Some(Value::truth(float == f64::INFINITY)),
                Self::IsNegativeInfinity => return Some(Value::truth(float == f64::NEG_INFINITY)),
                Self::SignBit => return Some(Value::truth(float.is_sign_negative())),
                _ => Value::Float(self.of_float(element, float)?),
            },
        };
        Some(element.convert(result))
    }

    fn of_int(self, element: Element, value: i64) -> Option<i64> {
        if element == Element::U64 && matches!(self, Self::Absolute | Self::Sign) {
            return None;
        }
        Some(match self {
            Self::Absolute => value.wrapping_abs(),
            Self::Negative => value.wrapping_neg(),
            Self::Sign => value.signum(),
            Self::Floor | Self::Ceil | Self::Round | Self::Truncate => value,
            Self::BitNot if element == Element::Bool => i64::from(value == 0),
            Self::BitNot => !value,
            Self::Square => value.wrapping_mul(value),
            Self::Cube => value.wrapping_mul(value).wrapping_mul(value),
            Self::SignBit => i64::from(value < 0),
            _ => return None,
        })
    }

    fn of_float(self, element: Element, x: f64) -> Option<f64> {
        let step = |value: f64| match element.convert(Value::Float(value)) {
            Value::Float(value) => value,
            Value::Int(value) => value as f64,
        };
        Some(match self {
            Self::Absolute => x.abs(),
            Self::Negative => -x,
            Self::Sign if x > 0.0 => 1.0,
            Self::Sign if x < 0.0 => -1.0,
            Self::Sign => 0.0,
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round_ties_even(),
            Self::Truncate => x.trunc(),
            Self::Fraction => x - x.trunc(),
            Self::SquareRoot => x.sqrt(),
            Self::InverseSquareRoot => 1.0 / x.sqrt(),
            Self::Reciprocal => 1.0 / x,
            Self::Exp => x.exp(),
            Self::Exp2 => x.exp2(),
            Self::ExpMinusOne => x.exp_m1(),
            Self::Log => x.ln(),
            Self::Log2 => x.log2(),
            Self::Log10 => x.log10(),
            Self::LogOnePlus => x.ln_1p(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tan => x.tan(),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Square => x * x,
            Self::Cube => step(x * x) * x,
            Self::InverseSquare => 1.0 / step(x * x),
            _ => return None,
        })
    }
}

impl Binary {
    /// The function's value, computed in `element`.
    pub(crate) fn apply(self, element: Element, left: Value, right: Value) -> Option<Value> {
        match self {
            Self::LogicalAnd => return Some(Value::truth(left.is_true() && right.is_true())),
            Self::LogicalOr => return Some(Value::truth(left.is_true() || right.is_true())),
            Self::LogicalXor => return Some(Value::truth(left.is_true() != right.is_true())),
            Self::Maximum | Self::Minimum | Self::FloatMaximum | Self::FloatMinimum => {
                return self.extreme(element, left, right);
            }
            _ => {}
        }
        let result = match (left, right) {
            (Value::Int(left), Value::Int(right)) => {
                Value::Int(self.of_ints(element, left, right)?)
            }
            (left, right) => {
                Value::Float(self.of_floats(element, left.as_f64(), right.as_f64())?)
            }
        };
        Some(element.convert(result))
    }

    fn extreme(self, element: Element, left: Value, right: Value) -> Option<Value> {
        let nan_wins = matches!(self, Self::Maximum | Self::Minimum);
        if left.is_nan() || right.is_nan() {
            return Some(if left.is_nan() == nan_wins {
                left
            } else {
                right
            });
        }
        let order = element.compare(left, right)?;
        let takes_left = match self {
            Self::Maximum | Self::FloatMaximum => order.is_ge(),
            _ => order.is_le(),
        };
        Some(if takes_left { left } else { right })
    }

    fn of_ints(self, element: Element, left: i64, right: i64) -> Option<i64> {
        let is_division = matches!(
            self,
            Self::Divide
                | Self::FloorDivide
                | Self::TruncateDivide
                | Self::Remainder
                | Self::Modulo
                | Self::Power
                | Self::ShiftRight
        );
        if is_division && element == Element::U64 {
            return None;
        }
        let bits = (element.len() * 8) as i64;
        Some(match self {
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::Multiply if element == Element::Bool => left & right,
            Self::Multiply => left.wrapping_mul(right),
            Self::FloorDivide => {
                let quotient = left.checked_div(right)?;
                if left % right != 0 && (left < 0) != (right < 0) {
                    quotient - 1
                } else {
                    quotient
                }
            }
            Self::TruncateDivide => left.checked_div(right)?,
            Self::Remainder => {
                let rest = left.checked_rem(right)?;
                if rest != 0 && (rest < 0) != (right < 0) {
                    rest + right
                } else {
                    rest
                }
            }
            Self::Modulo => left.checked_rem(right)?,
            Self::Power => match u32::try_from(right) {
                Ok(exponent) => left.wrapping_pow(exponent),
                Err(_) if left == 1 => 1,
                Err(_) if left == -1 => 1 - 2 * (right & 1),
                Err(_) if right < 0 => 0,
                Err(_) => return None,
            },
            Self::And => left & right,
            Self::Or => left | right,
            Self::Xor => left ^ right,
            Self::ShiftLeft if (0..bits).contains(&right) => left.wrapping_shl(right as u32),
            Self::ShiftRight if (0..bits).contains(&right) => left >> right,
            Self::SquaredDifference => left
                .wrapping_sub(right)
                .wrapping_mul(left.wrapping_sub(right)),
            _ => return None,
        })
    }

    fn of_floats(self, element: Element, x: f64, y: f64) -> Option<f64> {
        let step = |value: f64| element.convert(Value::Float(value)).as_f64();
        Some(match self {
            Self::Add => x + y,
            Self::Subtract => x - y,
            Self::Multiply => x * y,
            Self::Divide => x / y,
            Self::TruncateDivide => step(x / y).trunc(),
            Self::FloorDivide if y == 0.0 => x / y,
            Self::FloorDivide => floor_divide(element, x, y, |value| value / y),
            Self::Remainder => {
                let modulo = x % y;
                if modulo != 0.0 && (y < 0.0) != (modulo < 0.0) {
                    modulo + y
                } else {
                    modulo
                }
            }
            Self::Modulo => x % y,
            Self::Power => x.powf(y),
            Self::SquaredDifference => {
                let difference = step(x - y);
                difference * difference
            }
            Self::ArcTangent => x.atan2(y),
            _ => return None,
        })
    }
}

/// The floor of `x / y` by way of the remainder, as kernels compute it; `divide` divides by `y`.
pub(crate) fn floor_divide(element: Element, x: f64, y: f64, divide: impl Fn(f64) -> f64) -> f64 {
    let step = |value: f64| element.convert(Value::Float(value)).as_f64();
    let modulo = x % y;
    let mut quotient = step(divide(step(x - modulo)));
    if modulo != 0.0 && (y < 0.0) != (modulo < 0.0) {
        quotient = step(quotient - 1.0);
    }
    if quotient == 0.0 {
        return 0.0f64.copysign(divide(x));
    }
    let floored = quotient.floor();
    if quotient - floored > 0.5 {
        floored + 1.0
    } else {
        floored
    }
}

/// `left + alpha * right` as kernels compute it: floats with one rounding, because compilers fuse the two.
pub(crate) fn add_scaled(element: Element, left: Value, alpha: Value, right: Value) -> Value {
    let result = match (left, alpha, right) {
        (Value::Int(left), Value::Int(alpha), Value::Int(right)) => {
            Value::Int(left.wrapping_add(alpha.wrapping_mul(right)))
        }
        (left, alpha, right) => {
            let (left, alpha, right) = (left.as_f64(), alpha.as_f64(), right.as_f64());
            Value::Float(if element == Element::F32 {
                f64::from((alpha as f32).mul_add(right as f32, left as f32))
            } else {
                alpha.mul_add(right, left)
            })
        }
    };
    element.convert(result)
}

#[cfg(test)]
mod tests {
    use super::Value::{Float, Int};
    use super::*;

    fn unary(function: Unary, element: Element, value: Value, expected: Value) {
        assert_eq!(
            function.apply(element, value),
            Some(expected),
            "{function:?} {value:?}"
        );
    }

    fn binary(
        function: Binary,
        element: Element,
        left: Value,
        right: Value,
        expected: Option<Value>,
    ) {
        assert_eq!(
            function.apply(element, left, right),
            expected,
            "{function:?} {left:?} {right:?}"
        );
    }

    #[test]
    fn functions_of_one_value() {
        unary(Unary::Absolute, Element::I8, Int(-128), Int(-128));
        unary(Unary::Negative, Element::U8, Int(1), Int(255));
        unary(Unary::Round, Element::F32, Float(2.5), Float(2.0));
        unary(Unary::Sign, Element::F64, Float(-3.0), Float(-1.0));
        unary(Unary::BitNot, Element::Bool, Int(1), Int(0));
        unary(Unary::LogicalNot, Element::F32, Float(0.0), Int(1));
        unary(
            Unary::SquareRoot,
            Element::F32,
            Float(2.0),
            Float(f64::from(2f32.sqrt())),
        );
        unary(
            Unary::IsPositiveInfinity,
            Element::F32,
            Float(f64::INFINITY),
            Int(1),
        );
    }

    #[test]
    fn functions_of_two_values() {
        binary(
            Binary::FloorDivide,
            Element::I64,
            Int(-7),
            Int(2),
            Some(Int(-4)),
        );
        binary(
            Binary::TruncateDivide,
            Element::I64,
            Int(-7),
            Int(2),
            Some(Int(-3)),
        );
        binary(
            Binary::Remainder,
            Element::I64,
            Int(-7),
            Int(3),
            Some(Int(2)),
        );
        binary(Binary::Modulo, Element::I64, Int(-7), Int(3), Some(Int(-1)));
        binary(Binary::Remainder, Element::I64, Int(1), Int(0), None);
        binary(Binary::Power, Element::I32, Int(3), Int(4), Some(Int(81)));
        binary(Binary::Power, Element::I64, Int(2), Int(-1), Some(Int(0)));
        binary(
            Binary::Maximum,
            Element::F32,
            Float(1.0),
            Float(2.0),
            Some(Float(2.0)),
        );
        binary(
            Binary::FloatMaximum,
            Element::F32,
            Float(f64::NAN),
            Float(2.0),
            Some(Float(2.0)),
        );
        binary(
            Binary::FloorDivide,
            Element::F32,
            Float(-1.0),
            Float(0.0),
            Some(Float(f64::NEG_INFINITY)),
        );
        binary(
            Binary::FloorDivide,
            Element::F32,
            Float(7.5),
            Float(2.0),
            Some(Float(3.0)),
        );
        binary(Binary::ShiftLeft, Element::I32, Int(1), Int(33), None);
        binary(
            Binary::Divide,
            Element::F32,
            Float(1.0),
            Float(3.0),
            Some(Float(f64::from(1f32 / 3.0))),
        );
        assert!(
            Binary::Maximum
                .apply(Element::F32, Float(f64::NAN), Float(2.0))
                .unwrap()
                .is_nan()
        );
    }
}
