//! What an element-wise kernel does to the elements, read off the C++ type of its functor.
//!
//! The functor's type names the operation, and its bytes hold the scalars that it captured. A lambda is known by the
//! function that it is written in and by the types of its parameters; what it captures is laid out in the order of
//! first use. What is not listed here is not carried out, and its output stays unknown.

use super::arithmetic::{Binary, Unary, add_scaled, floor_divide};
use super::element::{Element, Value};
use super::signature::split_at_commas;

/// What is done to the operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// The value in the functor.
    Fill,
    /// Equal or not equal, by a number in the functor's first bytes.
    Equality,
    /// Greater or equal, greater, less or equal, less, by a number in the functor's first bytes.
    Order,
    Unary(Unary),
    Binary(Binary),
    /// The first operand and `alpha` times the second; `alpha` lies at this offset in the functor.
    Add {
        alpha_at: usize,
    },
    /// The second operand where the first is true, else the third.
    Choose,
    /// The quotient's floor, with the divisor and its inverse in the functor.
    FloorByScalar,
    /// Between two limits; which of them hold is a number in the functor's first bytes.
    ClampScalar,
    Clamp,
    /// The first and `value` times the product or quotient of the others.
    AddProduct {
        value_at: usize,
    },
    AddQuotient {
        value_at: usize,
    },
    /// From the first to the second by a weight.
    Interpolate,
    /// Replaces what is not a number and the infinities by three values in the functor.
    Finite,
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Input(usize),
    /// A scalar at this offset in the functor.
    Scalar(usize),
}

/// An element-wise operation: what to do, with what, in which type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    action: Action,
    operands: Vec<Operand>,
    /// The types of the functor's parameters.
    pub(crate) inputs: Vec<Element>,
    /// The type it computes in.
    computing: Element,
    /// The type of the scalars in the functor.
    scalar: Element,
    /// The type the functor returns.
    pub(crate) output: Element,
    /// Bytes of what the functor holds.
    state_len: usize,
}

/// Splits `Name<a, b<c>, d>` into the name and its arguments.
fn template(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = text.split_once('<')?;
    Some((name, split_at_commas(rest.trim_end().strip_suffix('>')?)))
}

fn last_segment(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// A lambda: the function that it is written in, its parameters, and which of several of that function it is.
#[derive(Debug, PartialEq)]
struct Lambda<'a> {
    function: &'a str,
    parameters: Vec<Element>,
    number: u32,
}

impl<'a> Lambda<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (outside, inside) = text.trim().rsplit_once("::{lambda(")?;
        let (parameters, number) = inside.split_once(')')?;
        let number = number.strip_prefix('#')?.strip_suffix('}')?.parse().ok()?;
        let parameters: Option<Vec<Element>> = split_at_commas(parameters)
            .into_iter()
            .map(Element::named)
            .collect();
        Some(Self {
            function: enclosing_function(outside)?,
            parameters: parameters?,
            number,
        })
    }
}

/// The name of the function at the start of `void a::(anonymous namespace)::name<T>(parameters)::...`.
pub(crate) fn enclosing_function(text: &str) -> Option<&str> {
    const ANONYMOUS: &str = "(anonymous namespace)";
    let mut from = 0;
    loop {
        let at = from + text[from..].find(['(', '<'])?;
        if text[at..].starts_with(ANONYMOUS) {
            from = at + ANONYMOUS.len();
            continue;
        }
        return text[..at].rsplit([':', ' ']).next();
    }
}

/// The action of a binary functor such as `BitwiseAndFunctor<long>`, the type that it computes in, and the bytes of
/// its own state.
fn binary_action(text: &str) -> Option<(Action, Element, usize)> {
    if let Some(lambda) = Lambda::of(text) {
        let [left, right] = lambda.parameters[..] else {
            return None;
        };
        let action = match lambda.function {
            "remainder_kernel_cuda" => Binary::Remainder,
            "fmod_kernel_cuda" => Binary::Modulo,
            "div_floor_kernel_cuda" => Binary::FloorDivide,
            "div_trunc_kernel_cuda" => Binary::TruncateDivide,
            "lshift_kernel_cuda" => Binary::ShiftLeft,
            "rshift_kernel_cuda" => Binary::ShiftRight,
            "logical_and_kernel_cuda" => Binary::LogicalAnd,
            "logical_or_kernel_cuda" => Binary::LogicalOr,
            "logical_xor_kernel_cuda" => Binary::LogicalXor,
            "maximum_kernel_cuda" | "max_elementwise_kernel_cuda" => Binary::Maximum,
            "minimum_kernel_cuda" | "min_elementwise_kernel_cuda" => Binary::Minimum,
            "fmax_kernel_cuda" => Binary::FloatMaximum,
            "fmin_kernel_cuda" => Binary::FloatMinimum,
            "atan2_kernel_cuda" => Binary::ArcTangent,
            "mse_kernel_cuda" => Binary::SquaredDifference,
            "pow_tensor_tensor_kernel" => Binary::Power,
            _ => return None,
        };
        return (left == right).then_some((Action::Binary(action), left, 0));
    }
    let (name, arguments) = template(text)?;
    let (action, state) = match last_segment(name) {
        "CompareEqFunctor" => (Action::Equality, 4),
        "CompareFunctor" => (Action::Order, 4),
        "BitwiseAndFunctor" => (Action::Binary(Binary::And), 0),
        "BitwiseOrFunctor" => (Action::Binary(Binary::Or), 0),
        "BitwiseXorFunctor" => (Action::Binary(Binary::Xor), 0),
        "MulFunctor" => (Action::Binary(Binary::Multiply), 0),
        "DivFunctor" => (Action::Binary(Binary::Divide), 0),
        _ => return None,
    };
    Some((action, Element::named(arguments.first()?)?, state))
}

/// The function of one value that is written in this function.
fn unary_action(function: &str) -> Option<Unary> {
    Some(match function {
        "direct_copy_kernel_cuda" => Unary::Identity,
        "neg_kernel_cuda" => Unary::Negative,
        "sign_kernel_cuda" => Unary::Sign,
        "floor_kernel_cuda" => Unary::Floor,
        "ceil_kernel_cuda" => Unary::Ceil,
        "round_kernel_cuda" => Unary::Round,
        "trunc_kernel_cuda" => Unary::Truncate,
        "frac_kernel_cuda" => Unary::Fraction,
        "sqrt_kernel_cuda" => Unary::SquareRoot,
        "rsqrt_kernel_cuda" => Unary::InverseSquareRoot,
        "reciprocal_kernel_cuda" => Unary::Reciprocal,
        "exp_kernel_cuda" => Unary::Exp,
        "exp2_kernel_cuda" => Unary::Exp2,
        "expm1_kernel_cuda" => Unary::ExpMinusOne,
        "log_kernel_cuda" => Unary::Log,
        "log2_kernel_cuda" => Unary::Log2,
        "log10_kernel_cuda" => Unary::Log10,
        "log1p_kernel_cuda" => Unary::LogOnePlus,
        "sigmoid_kernel_cuda" => Unary::Sigmoid,
        "tanh_kernel_cuda" => Unary::Tanh,
        "sin_kernel_cuda" => Unary::Sin,
        "cos_kernel_cuda" => Unary::Cos,
        "tan_kernel_cuda" => Unary::Tan,
        "silu_kernel" => Unary::Silu,
        "bitwise_not_kernel_cuda" => Unary::BitNot,
        "logical_not_kernel_cuda" => Unary::LogicalNot,
        "isposinf_kernel_impl" => Unary::IsPositiveInfinity,
        "isneginf_kernel_impl" => Unary::IsNegativeInfinity,
        "signbit_kernel_cuda" => Unary::SignBit,
        _ => return None,
    })
}

impl Operation {
    /// The operation of a functor by its C++ type.
    pub(crate) fn of(functor: &str) -> Option<Self> {
        if functor.trim_end().ends_with('}') {
            return Self::of_lambda(functor);
        }
        let (name, arguments) = template(functor)?;
        let first = Element::named(arguments.first()?);
        match (last_segment(name), arguments.as_slice()) {
            ("FillFunctor", [_]) => {
                let element = first?;
                Some(Self {
                    action: Action::Fill,
                    operands: vec![Operand::Scalar(0)],
                    inputs: Vec::new(),
                    computing: element,
                    scalar: element,
                    output: element,
                    state_len: element.len(),
                })
            }
            ("AbsFunctor", [_]) => Some(Self::unary(Unary::Absolute, first?)),
            ("CompareFunctor", [_]) => {
                let element = first?;
                let mut operation = Self::binary(Action::Order, element, element, Element::Bool);
                operation.state_len = 4;
                Some(operation)
            }
            (
                "BinaryFunctor" | "AUnaryFunctor" | "BUnaryFunctor",
                [left, right, output, action],
            ) => Self::of_binary(
                last_segment(name),
                [
                    Element::named(left)?,
                    Element::named(right)?,
                    Element::named(output)?,
                ],
                action,
            ),
            // These hold the scalar, if there is one, and then `alpha`, in the type that is computed in.
            ("CUDAFunctor_add", [_]) => {
                let element = first?;
                let action = Action::Add { alpha_at: 0 };
                let mut operation = Self::binary(action, element, element.computing(), element);
                operation.state_len = element.computing().len();
                Some(operation)
            }
            ("CUDAFunctorOnSelf_add" | "CUDAFunctorOnOther_add", [_]) => {
                let element = first?;
                let computing = element.computing();
                let is_first = last_segment(name) == "CUDAFunctorOnSelf_add";
                Some(Self {
                    action: Action::Add {
                        alpha_at: computing.len(),
                    },
                    operands: if is_first {
                        vec![Operand::Input(0), Operand::Scalar(0)]
                    } else {
                        vec![Operand::Scalar(0), Operand::Input(0)]
                    },
                    inputs: vec![element],
                    computing,
                    scalar: computing,
                    output: element,
                    state_len: computing.len() * 2,
                })
            }
            _ => None,
        }
    }

    fn of_binary(name: &str, types: [Element; 3], action: &str) -> Option<Self> {
        let [left, right, output] = types;
        let (action, held, state) = binary_action(action)?;
        let computing = held.computing();
        if left != right || left.computing() != computing {
            return None;
        }
        let scalar_at = state.max(1).next_multiple_of(held.len());
        let scalar = Operand::Scalar(scalar_at);
        let (operands, inputs, state_len) = match name {
            "BinaryFunctor" => (
                vec![Operand::Input(0), Operand::Input(1)],
                vec![left, right],
                state,
            ),
            "AUnaryFunctor" => (
                vec![scalar, Operand::Input(0)],
                vec![right],
                scalar_at + held.len(),
            ),
            _ => (
                vec![Operand::Input(0), scalar],
                vec![left],
                scalar_at + held.len(),
            ),
        };
        Some(Self {
            action,
            operands,
            inputs,
            computing,
            scalar: held,
            output,
            state_len,
        })
    }

    /// The operation of a lambda, by the function it is written in.
    #[expect(
        clippy::too_many_lines,
        reason = "a table: one arm for each function with a lambda"
    )]
    fn of_lambda(functor: &str) -> Option<Self> {
        let lambda = Lambda::of(functor)?;
        let element = *lambda.parameters.first()?;
        let computing = element.computing();
        match (lambda.function, lambda.parameters.as_slice()) {
            ("converting_copy_kernel_cuda", [_]) => {
                let (_, types) = functor.split_once("converting_copy_kernel_cuda<")?;
                let (from, to) = types.split_once('>')?.0.split_once(',')?;
                let mut operation = Self::unary(Unary::Identity, element);
                operation.output = Element::named(to)?;
                operation.computing = operation.output;
                (Element::named(from)? == element).then_some(operation)
            }
            ("bfloat16_copy_kernel_cuda" | "float16_copy_kernel_cuda", [_]) => {
                let mut operation = Self::unary(Unary::Identity, element);
                operation.output = if lambda.function.starts_with('b') {
                    Element::BF16
                } else {
                    Element::F16
                };
                operation.computing = operation.output;
                Some(operation)
            }
            // The comparison and then the scalar, as in a functor of the two.
            ("compare_scalar_kernel", [_]) => {
                let at = 4usize.next_multiple_of(element.len());
                Some(Self {
                    action: Action::Order,
                    operands: vec![Operand::Input(0), Operand::Scalar(at)],
                    inputs: vec![element],
                    computing,
                    scalar: element,
                    output: Element::Bool,
                    state_len: at + element.len(),
                })
            }
            // The divisor and its inverse.
            ("div_floor_kernel_cuda", [_]) if !element.is_whole() => Some(Self {
                action: Action::FloorByScalar,
                operands: vec![
                    Operand::Input(0),
                    Operand::Scalar(0),
                    Operand::Scalar(computing.len()),
                ],
                inputs: vec![element],
                computing,
                scalar: computing,
                output: element,
                state_len: computing.len() * 2,
            }),
            ("masked_fill_kernel", [_, Element::Bool]) => Some(Self {
                action: Action::Choose,
                operands: vec![Operand::Input(1), Operand::Scalar(0), Operand::Input(0)],
                inputs: lambda.parameters.clone(),
                computing: element,
                scalar: element,
                output: element,
                state_len: element.len(),
            }),
            ("where_kernel_impl", [Element::Bool, yes, no]) if yes == no => Some(Self {
                action: Action::Choose,
                operands: vec![Operand::Input(0), Operand::Input(1), Operand::Input(2)],
                inputs: lambda.parameters.clone(),
                computing: *yes,
                scalar: *yes,
                output: *yes,
                state_len: 0,
            }),
            ("launch_clamp_scalar", [_]) => {
                let first = 4usize.next_multiple_of(computing.len());
                Some(Self {
                    action: Action::ClampScalar,
                    operands: vec![
                        Operand::Input(0),
                        Operand::Scalar(first),
                        Operand::Scalar(first + computing.len()),
                    ],
                    inputs: vec![element],
                    computing,
                    scalar: computing,
                    output: element,
                    state_len: first + computing.len() * 2,
                })
            }
            ("clamp_kernel_impl", [_, lower, upper]) if lower == upper && *lower == element => {
                let inputs = lambda.parameters.clone();
                Some(Self::of_inputs(Action::Clamp, inputs, element, element, 0))
            }
            ("addcmul_cuda_kernel" | "addcdiv_cuda_kernel", [_, first, second])
                if first == second && *first == element =>
            {
                let inputs = lambda.parameters.clone();
                let action = if lambda.function == "addcmul_cuda_kernel" {
                    Action::AddProduct { value_at: 0 }
                } else {
                    Action::AddQuotient { value_at: 0 }
                };
                let len = computing.len();
                Some(Self::of_inputs(action, inputs, computing, element, len))
            }
            ("lerp_scalar_kernel", [_, end]) if *end == element => Some(Self {
                action: Action::Interpolate,
                operands: vec![Operand::Input(0), Operand::Input(1), Operand::Scalar(0)],
                inputs: lambda.parameters.clone(),
                computing,
                scalar: computing,
                output: element,
                state_len: computing.len(),
            }),
            ("nan_to_num_kernel_cuda", [_]) if !element.is_whole() => {
                let inputs = vec![element];
                let len = element.len() * 3;
                let mut operation =
                    Self::of_inputs(Action::Finite, inputs, computing, element, len);
                operation.scalar = element;
                Some(operation)
            }
            ("pow_tensor_scalar_kernel_impl", [_]) => {
                Self::of_power(functor, element, lambda.number)
            }
            (function, [_]) => {
                let mut operation = Self::unary(unary_action(function)?, element);
                if matches!(
                    operation.action,
                    Action::Unary(
                        Unary::LogicalNot
                            | Unary::IsPositiveInfinity
                            | Unary::IsNegativeInfinity
                            | Unary::SignBit
                    )
                ) {
                    operation.output = Element::Bool;
                }
                Some(operation)
            }
            (_, [_, second]) if *second == element => {
                let (action, held, _) = binary_action(functor)?;
                Some(Self::binary(action, element, held.computing(), element))
            }
            _ => None,
        }
    }

    /// `pow_tensor_scalar_kernel_impl<base, exponent>` has one lambda for each of the powers that are products.
    fn of_power(functor: &str, element: Element, number: u32) -> Option<Self> {
        let (_, types) = functor.split_once("pow_tensor_scalar_kernel_impl<")?;
        let (_, exponent) = types.split_once('>')?.0.split_once(',')?;
        let exponent = Element::named(exponent)?;
        Some(match number {
            1 => Self::unary(Unary::Square, element),
            2 => Self::unary(Unary::Cube, element),
            3 if !element.is_whole() => Self::unary(Unary::InverseSquare, element),
            4 if exponent.computing() == element.computing() => Self {
                action: Action::Binary(Binary::Power),
                operands: vec![Operand::Input(0), Operand::Scalar(0)],
                inputs: vec![element],
                computing: element.computing(),
                scalar: exponent,
                output: element,
                state_len: exponent.len(),
            },
            _ => return None,
        })
    }

    fn unary(function: Unary, element: Element) -> Self {
        let computing = element.computing();
        Self::of_inputs(
            Action::Unary(function),
            vec![element],
            computing,
            element,
            0,
        )
    }

    fn binary(action: Action, element: Element, computing: Element, output: Element) -> Self {
        Self::of_inputs(action, vec![element, element], computing, output, 0)
    }

    fn of_inputs(
        action: Action,
        inputs: Vec<Element>,
        computing: Element,
        output: Element,
        state_len: usize,
    ) -> Self {
        Self {
            action,
            operands: (0..inputs.len()).map(Operand::Input).collect(),
            inputs,
            computing,
            scalar: computing,
            output,
            state_len,
        }
    }

    /// Number of tensors it reads.
    pub(crate) fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Whether it adds, in a type with a fraction.
    pub(crate) fn is_float_sum(&self) -> bool {
        matches!(self.action, Action::Add { .. }) && !self.output.is_whole()
    }

    /// Bytes of the functor that are looked at.
    pub(crate) fn functor_len(&self) -> usize {
        self.state_len
    }

    /// Alignment of the functor, and its size as C++ has it.
    pub(crate) fn functor_layout(&self) -> (usize, usize) {
        let starts_with_number = matches!(
            self.action,
            Action::Equality | Action::Order | Action::ClampScalar
        );
        let scalars = if self.state_len > usize::from(starts_with_number) * 4 {
            self.scalar.len()
        } else {
            1
        };
        let align = scalars.max(if starts_with_number { 4 } else { 1 });
        (align, self.state_len.max(1).next_multiple_of(align))
    }

    /// The result for one element of each input; `None` when the functor's bytes make no sense.
    pub(crate) fn apply(&self, functor: &[u8], inputs: &[Value]) -> Option<Value> {
        let scalar = |at: usize| self.scalar.read(functor.get(at..)?);
        let operand = |index: usize| match *self.operands.get(index)? {
            Operand::Input(input) => inputs.get(input).copied(),
            Operand::Scalar(at) => scalar(at),
        };
        let number = || Element::I32.read(functor).map(Value::as_i64);
        let first = operand(0)?;
        let computing = self.computing;
        let order = |left, right| computing.compare(left, right);
        let result = match self.action {
            Action::Fill => first,
            Action::Unary(function) => function.apply(computing, first)?,
            Action::Binary(function) => function.apply(computing, first, operand(1)?)?,
            Action::Equality => {
                let equal = order(first, operand(1)?) == Some(std::cmp::Ordering::Equal);
                match number()? {
                    0 => Value::truth(equal),
                    1 => Value::truth(!equal),
                    _ => return None,
                }
            }
            Action::Order => {
                let order = order(first, operand(1)?);
                let holds = |wanted: fn(std::cmp::Ordering) -> bool| {
                    Value::truth(order.is_some_and(wanted))
                };
                match number()? {
                    0 => holds(std::cmp::Ordering::is_ge),
                    1 => holds(std::cmp::Ordering::is_gt),
                    2 => holds(std::cmp::Ordering::is_le),
                    3 => holds(std::cmp::Ordering::is_lt),
                    _ => return None,
                }
            }
            Action::Add { alpha_at } => {
                let result = add_scaled(computing, first, scalar(alpha_at)?, operand(1)?);
                if computing == Element::Bool {
                    Value::truth(
                        first.is_true() || (scalar(alpha_at)?.is_true() && operand(1)?.is_true()),
                    )
                } else {
                    result
                }
            }
            Action::FloorByScalar => {
                let (divisor, inverse) = (operand(1)?.as_f64(), operand(2)?.as_f64());
                let quotient =
                    floor_divide(computing, first.as_f64(), divisor, |value| value * inverse);
                Value::Float(quotient)
            }
            Action::Choose if first.is_true() => operand(1)?,
            Action::Choose => operand(2)?,
            Action::ClampScalar => {
                let (lower, upper) = match number()? {
                    0 => (Some(operand(1)?), None),
                    1 => (None, Some(operand(1)?)),
                    2 => (Some(operand(1)?), Some(operand(2)?)),
                    _ => return None,
                };
                clamp(computing, first, lower, upper)?
            }
            Action::Clamp => clamp(computing, first, operand(1), operand(2))?,
            Action::AddProduct { value_at } => {
                let value = scalar(value_at)?;
                let scaled = Binary::Multiply.apply(computing, value, operand(1)?)?;
                add_scaled(computing, first, scaled, operand(2)?)
            }
            Action::AddQuotient { value_at } => {
                let quotient = Binary::Divide.apply(computing, operand(1)?, operand(2)?)?;
                add_scaled(computing, first, scalar(value_at)?, quotient)
            }
            Action::Interpolate => {
                let (end, weight) = (operand(1)?.as_f64(), operand(2)?.as_f64());
                let (start, step) = (first.as_f64(), |value: f64| {
                    computing.convert(Value::Float(value))
                });
                let difference = step(end - start);
                if weight.abs() < 0.5 {
                    add_scaled(computing, first, step(weight), difference)
                } else {
                    let back = step(1.0 - weight).as_f64();
                    add_scaled(computing, operand(1)?, step(-back), difference)
                }
            }
            Action::Finite => match first {
                Value::Float(value) if value.is_nan() => scalar(0)?,
                Value::Float(f64::INFINITY) => scalar(self.output.len())?,
                Value::Float(f64::NEG_INFINITY) => scalar(self.output.len() * 2)?,
                other => other,
            },
        };
        Some(self.output.convert(result))
    }
}

/// `value` between the limits that there are; what is not a number stays so.
fn clamp(
    element: Element,
    value: Value,
    lower: Option<Value>,
    upper: Option<Value>,
) -> Option<Value> {
    let limits = [Some(value), lower, upper];
    if let Some(nan) = limits.into_iter().flatten().find(|each| each.is_nan()) {
        return Some(nan);
    }
    let mut clamped = value;
    if let Some(lower) = lower
        && element.compare(clamped, lower)?.is_lt()
    {
        clamped = lower;
    }
    if let Some(upper) = upper
        && element.compare(upper, clamped)?.is_lt()
    {
        clamped = upper;
    }
    Some(clamped)
}

#[cfg(test)]
mod tests {
    use super::Value::{Float, Int};
    use super::*;

    fn check(functor: &str, state: &[u8], inputs: &[Value], expected: Value) {
        let operation = Operation::of(functor).unwrap_or_else(|| panic!("{functor} is not known"));
        assert!(state.len() >= operation.functor_len(), "{functor}");
        assert_eq!(operation.n_inputs(), inputs.len(), "{functor}");
        assert_eq!(operation.apply(state, inputs), Some(expected), "{functor}");
    }

    fn ints(values: &[i32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    fn longs(values: &[i64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    #[test]
    fn does_what_the_functor_says() {
        let eq = "at::native::(anonymous namespace)::CompareEqFunctor<long>";
        let binary = format!("at::native::BinaryFunctor<long, long, bool, {eq} >");
        check(&binary, &ints(&[0]), &[Int(3), Int(3)], Int(1));
        check(&binary, &ints(&[1]), &[Int(3), Int(3)], Int(0));
        let unary = format!("at::native::AUnaryFunctor<long, long, bool, {eq} >");
        check(&unary, &longs(&[0, 5]), &[Int(5)], Int(1));
        let order = "at::native::(anonymous namespace)::CompareFunctor<float>";
        let below = [ints(&[3]), floats(&[2.5])].concat();
        let unary = format!("at::native::BUnaryFunctor<float, float, bool, {order} >");
        check(&unary, &below, &[Float(2.0)], Int(1));
        check(&unary, &below, &[Float(f64::NAN)], Int(0));
        check(
            "at::native::CUDAFunctorOnSelf_add<long>",
            &longs(&[10, 2]),
            &[Int(1)],
            Int(21),
        );
        check(
            "at::native::CUDAFunctorOnOther_add<long>",
            &longs(&[1, -1]),
            &[Int(5)],
            Int(-4),
        );
        let largest = Int(i64::from(i32::MAX));
        check(
            "at::native::CUDAFunctor_add<int>",
            &ints(&[1]),
            &[largest, Int(1)],
            Int(i64::from(i32::MIN)),
        );
        check(
            "at::native::CUDAFunctor_add<c10::Half>",
            &floats(&[1.0]),
            &[Float(2048.0), Float(1.0)],
            Float(2048.0),
        );
        check("at::native::FillFunctor<int>", &ints(&[7]), &[], Int(7));
    }

    #[test]
    fn lambdas_are_known_by_the_function_they_are_written_in() {
        let check = |function: &str, parameters: &str, state: &[u8], inputs: &[Value], expected| {
            let lambda = format!(
                "at::native::(anonymous namespace)::{function}(at::TensorIteratorBase&)::{{lambda()#1}}::operator()() const::{{lambda()#4}}::operator()() const::{{lambda({parameters})#1}}"
            );
            check(&lambda, state, inputs, expected);
        };
        check(
            "direct_copy_kernel_cuda",
            "float",
            &[],
            &[Float(1.5)],
            Float(1.5),
        );
        check("bitwise_not_kernel_cuda", "bool", &[], &[Int(1)], Int(0));
        check("bitwise_not_kernel_cuda", "int", &[], &[Int(0)], Int(-1));
        check("logical_not_kernel_cuda", "long", &[], &[Int(5)], Int(0));
        check(
            "bfloat16_copy_kernel_cuda",
            "float",
            &[],
            &[Float(257.0)],
            Float(256.0),
        );
        check(
            "where_kernel_impl",
            "bool, unsigned long, unsigned long",
            &[],
            &[Int(0), Int(4), Int(5)],
            Int(5),
        );
        check(
            "masked_fill_kernel",
            "long, bool",
            &longs(&[9]),
            &[Int(4), Int(1)],
            Int(9),
        );
        check(
            "launch_clamp_scalar",
            "int",
            &ints(&[0, 2, 2]),
            &[Int(1)],
            Int(2),
        );
        check(
            "launch_clamp_scalar",
            "int",
            &ints(&[1, 2, 2]),
            &[Int(3)],
            Int(2),
        );
        check(
            "launch_clamp_scalar",
            "int",
            &ints(&[2, 1, 2]),
            &[Int(3)],
            Int(2),
        );
        check(
            "compare_scalar_kernel<long>",
            "long",
            &longs(&[2, 7]),
            &[Int(7)],
            Int(1),
        );
        check(
            "addcmul_cuda_kernel",
            "float, float, float",
            &floats(&[2.0]),
            &[Float(1.0), Float(3.0), Float(4.0)],
            Float(25.0),
        );
    }

    #[test]
    fn leaves_the_rest_alone() {
        for functor in [
            "at::native::BinaryFunctor<long, int, bool, at::native::BitwiseAndFunctor<long> >",
            "at::native::SomethingNew<float>",
            "at::native::new_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}",
            "at::native::CUDAFunctor_add<c10::complex<float> >",
            "int",
            "",
        ] {
            assert_eq!(Operation::of(functor), None, "{functor}");
        }
    }
}
