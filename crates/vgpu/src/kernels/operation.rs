//! Element-wise kernels that are carried out when all of their input is known and small: comparisons, logic, sums and
//! products of whole numbers, and conversions. They decide what scripts branch on, such as whether a mask hides
//! anything.
//!
//! The functor's type names the operation, and its bytes hold the scalar it is applied with. What is not listed here
//! is not carried out, and its output stays unknown.

use super::element::{Element, Value};

/// Kernels on more elements are not carried out.
pub(crate) const MAX_ELEMENTS: usize = 1 << 17;

/// What is done to the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Equal or not equal, by a number in the functor's first bytes.
    Equality,
    /// Greater or equal, greater, less or equal, less, by a number in the functor's first bytes.
    Order,
    And,
    Or,
    Xor,
    Not,
    Multiply,
    /// The first operand and `alpha` times the second; `alpha` lies at this offset in the functor.
    Add {
        alpha_at: usize,
    },
    Convert,
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Input(usize),
    /// A scalar at this offset in the functor.
    Scalar(usize),
}

/// An element-wise operation: what to do, with what, in which type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    action: Action,
    operands: Vec<Operand>,
    /// The type the functor computes with.
    pub(crate) input: Element,
    /// The type the functor returns.
    pub(crate) output: Element,
}

/// Splits `Name<a, b<c>, d>` into the name and its arguments.
fn template(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = text.split_once('<')?;
    Some((
        name,
        super::signature::split_at_commas(rest.trim_end().strip_suffix('>')?),
    ))
}

fn last_segment(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// The action of a binary functor such as `BitwiseAndFunctor<long>`, and the bytes of its own state.
fn binary_action(text: &str) -> Option<(Action, usize)> {
    let (name, _) = template(text)?;
    Some(match last_segment(name) {
        "CompareEqFunctor" => (Action::Equality, 4),
        "CompareFunctor" => (Action::Order, 4),
        "BitwiseAndFunctor" => (Action::And, 1),
        "BitwiseOrFunctor" => (Action::Or, 1),
        "BitwiseXorFunctor" => (Action::Xor, 1),
        "MulFunctor" => (Action::Multiply, 1),
        _ => return None,
    })
}

impl Operation {
    /// The operation of a functor by its C++ type.
    pub(crate) fn of(functor: &str) -> Option<Self> {
        if let Some(operation) = Self::of_lambda(functor) {
            return Some(operation);
        }
        let (name, arguments) = template(functor)?;
        match (last_segment(name), arguments.as_slice()) {
            ("CompareFunctor", [element]) => {
                let operands = vec![Operand::Input(0), Operand::Input(1)];
                Self::new(Action::Order, operands, element, "bool")
            }
            ("BinaryFunctor", [left, right, output, action]) if left == right => {
                let (action, _) = binary_action(action)?;
                Self::new(
                    action,
                    vec![Operand::Input(0), Operand::Input(1)],
                    left,
                    output,
                )
            }
            ("AUnaryFunctor", [left, right, output, action]) if left == right => {
                let (action, state) = binary_action(action)?;
                let scalar = Operand::Scalar(state.next_multiple_of(Element::named(left)?.len()));
                Self::new(action, vec![scalar, Operand::Input(0)], left, output)
            }
            ("BUnaryFunctor", [left, right, output, action]) if left == right => {
                let (action, state) = binary_action(action)?;
                let scalar = Operand::Scalar(state.next_multiple_of(Element::named(left)?.len()));
                Self::new(action, vec![Operand::Input(0), scalar], left, output)
            }
            ("CUDAFunctor_add", [element]) => {
                let action = Action::Add { alpha_at: 0 };
                Self::whole(action, vec![Operand::Input(0), Operand::Input(1)], element)
            }
            // These two hold the scalar and then `alpha`.
            ("CUDAFunctorOnSelf_add", [element]) => {
                let action = Action::Add {
                    alpha_at: Element::named(element)?.len(),
                };
                Self::whole(action, vec![Operand::Input(0), Operand::Scalar(0)], element)
            }
            ("CUDAFunctorOnOther_add", [element]) => {
                let action = Action::Add {
                    alpha_at: Element::named(element)?.len(),
                };
                Self::whole(action, vec![Operand::Scalar(0), Operand::Input(0)], element)
            }
            _ => None,
        }
    }

    /// The operation of a lambda, by the function it is written in.
    fn of_lambda(functor: &str) -> Option<Self> {
        let (function, lambda) = functor.rsplit_once("::{lambda(")?;
        let element = lambda.split_once(')')?.0;
        if let Some((_, types)) = function.split_once("converting_copy_kernel_cuda<") {
            let (from, to) = types.split_once('>')?.0.split_once(',')?;
            Self::new(Action::Convert, vec![Operand::Input(0)], from, to)
                .filter(|_| from == element)
        } else if function.contains("direct_copy_kernel_cuda(") {
            Self::new(Action::Convert, vec![Operand::Input(0)], element, element)
        } else if function.contains("bitwise_not_kernel_cuda(") {
            Self::whole(Action::Not, vec![Operand::Input(0)], element)
        } else if function.contains("compare_scalar_kernel<") {
            // The comparison and then the scalar, as in a functor of the two.
            let scalar = Operand::Scalar(4usize.next_multiple_of(Element::named(element)?.len()));
            Self::new(
                Action::Order,
                vec![Operand::Input(0), scalar],
                element,
                "bool",
            )
        } else {
            None
        }
    }

    fn new(action: Action, operands: Vec<Operand>, input: &str, output: &str) -> Option<Self> {
        let (input, output) = (Element::named(input)?, Element::named(output)?);
        let is_arithmetic = matches!(action, Action::Multiply | Action::Add { .. });
        // Products of floats are left out: the kernels may fuse them, and nothing that matters is decided by them.
        (input.is_whole() || !is_arithmetic).then_some(Self {
            action,
            operands,
            input,
            output,
        })
    }

    fn whole(action: Action, operands: Vec<Operand>, element: &str) -> Option<Self> {
        Self::new(action, operands, element, element).filter(|operation| operation.input.is_whole())
    }

    /// Number of tensors it reads.
    pub(crate) fn n_inputs(&self) -> usize {
        self.operands
            .iter()
            .filter(|operand| matches!(operand, Operand::Input(_)))
            .count()
    }

    /// Bytes of the functor that are looked at.
    pub(crate) fn functor_len(&self) -> usize {
        let scalar = |operand: &Operand| match operand {
            Operand::Scalar(at) => at + self.input.len(),
            Operand::Input(_) => 0,
        };
        let state = match self.action {
            Action::Equality | Action::Order => 4,
            Action::Add { alpha_at } => alpha_at + self.input.len(),
            _ => 0,
        };
        self.operands
            .iter()
            .map(scalar)
            .max()
            .unwrap_or(0)
            .max(state)
    }

    /// The result for one element of each input; `None` when the functor's bytes make no sense.
    pub(crate) fn apply(&self, functor: &[u8], inputs: &[Value]) -> Option<Value> {
        let operand = |index: usize| match *self.operands.get(index)? {
            Operand::Input(input) => inputs.get(input).copied(),
            Operand::Scalar(at) => self.input.read(functor.get(at..)?),
        };
        let number = || Element::I32.read(functor);
        let first = operand(0)?;
        let result = match self.action {
            Action::Convert => first,
            Action::Not => match (first, self.input) {
                (value, Element::Bool) => truth(!value.is_true()),
                (Value::Int(value), _) => Value::Int(!value),
                (Value::Float(_), _) => return None,
            },
            Action::Equality => {
                let equal = compare(first, operand(1)?) == Some(std::cmp::Ordering::Equal);
                match number()? {
                    Value::Int(0) => truth(equal),
                    Value::Int(1) => truth(!equal),
                    _ => return None,
                }
            }
            Action::Order => {
                let order = compare(first, operand(1)?);
                let holds =
                    |wanted: fn(std::cmp::Ordering) -> bool| truth(order.is_some_and(wanted));
                match number()? {
                    Value::Int(0) => holds(std::cmp::Ordering::is_ge),
                    Value::Int(1) => holds(std::cmp::Ordering::is_gt),
                    Value::Int(2) => holds(std::cmp::Ordering::is_le),
                    Value::Int(3) => holds(std::cmp::Ordering::is_lt),
                    _ => return None,
                }
            }
            Action::And | Action::Or | Action::Xor | Action::Multiply | Action::Add { .. } => {
                let (Value::Int(left), Value::Int(right)) = (first, operand(1)?) else {
                    return None;
                };
                Value::Int(match self.action {
                    Action::And => left & right,
                    Action::Or => left | right,
                    Action::Xor => left ^ right,
                    Action::Multiply => left.wrapping_mul(right),
                    _ => {
                        let Action::Add { alpha_at } = self.action else {
                            return None;
                        };
                        let Some(Value::Int(alpha)) = self.input.read(functor.get(alpha_at..)?)
                        else {
                            return None;
                        };
                        left.wrapping_add(alpha.wrapping_mul(right))
                    }
                })
            }
        };
        Some(self.output.convert(result))
    }
}

fn truth(holds: bool) -> Value {
    Value::Int(i64::from(holds))
}

fn compare(left: Value, right: Value) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(&right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(&right),
        _ => None,
    }
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

    #[test]
    fn does_what_the_functor_says() {
        let eq = "at::native::(anonymous namespace)::CompareEqFunctor<long>";
        check(
            &format!("at::native::BinaryFunctor<long, long, bool, {eq} >"),
            &ints(&[0]),
            &[Int(3), Int(3)],
            Int(1),
        );
        check(
            &format!("at::native::BinaryFunctor<long, long, bool, {eq} >"),
            &ints(&[1]),
            &[Int(3), Int(3)],
            Int(0),
        );
        check(
            &format!("at::native::AUnaryFunctor<long, long, bool, {eq} >"),
            &longs(&[0, 5]),
            &[Int(5)],
            Int(1),
        );
        let order = "at::native::(anonymous namespace)::CompareFunctor<float>";
        let state = [ints(&[3]), 2.5f32.to_ne_bytes().to_vec()].concat();
        check(
            &format!("at::native::BUnaryFunctor<float, float, bool, {order} >"),
            &state,
            &[Float(2.0)],
            Int(1),
        );
        check(
            &format!("at::native::BUnaryFunctor<float, float, bool, {order} >"),
            &state,
            &[Float(f64::NAN)],
            Int(0),
        );
        let lambda = "void at::native::compare_scalar_kernel<long>(at::TensorIteratorBase&, at::native::(anonymous namespace)::OpType, long)::{lambda(long)#1}";
        check(lambda, &longs(&[2, 7]), &[Int(7)], Int(1));
        check(
            "at::native::BinaryFunctor<bool, bool, bool, at::native::BitwiseAndFunctor<bool> >",
            &[],
            &[Int(1), Int(0)],
            Int(0),
        );
        check(
            "at::native::bitwise_not_kernel_cuda(at::TensorIteratorBase&)::{lambda(bool)#1}",
            &[],
            &[Int(1)],
            Int(0),
        );
        check(
            "at::native::bitwise_not_kernel_cuda(at::TensorIteratorBase&)::{lambda(int)#1}",
            &[],
            &[Int(0)],
            Int(-1),
        );
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
        check(
            "at::native::CUDAFunctor_add<int>",
            &ints(&[1]),
            &[Int(i64::from(i32::MAX)), Int(1)],
            Int(i64::from(i32::MIN)),
        );
        check(
            "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}",
            &[],
            &[Float(1.5)],
            Float(1.5),
        );
    }

    #[test]
    fn leaves_the_rest_alone() {
        for functor in [
            "at::native::CUDAFunctor_add<float>",
            "at::native::CUDAFunctor_add<c10::BFloat16>",
            "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >",
            "at::native::BinaryFunctor<long, int, bool, at::native::BitwiseAndFunctor<long> >",
            "at::native::AbsFunctor<float>",
            "int",
            "",
        ] {
            assert_eq!(Operation::of(functor), None, "{functor}");
        }
    }
}
