//! Types that a kernel's name tells only indirectly.

use super::super::element::Element;

/// The element type of a lambda written inside PyTorch's dispatch over types, by the number of its branch:
/// `function(...)::{lambda()#1}::operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}` is the
/// fourth type of those that are dispatched over, which are all real types in a fixed order.
pub(super) fn dispatched(lambda: &str) -> Option<Element> {
    Some(match branch(lambda)? {
        1 => Element::U8,
        2 => Element::I8,
        3 => Element::I32,
        4 => Element::I64,
        5 => Element::I16,
        6 => Element::F64,
        7 => Element::F32,
        8 => Element::F16,
        9 => Element::BF16,
        _ => return None,
    })
}

/// The same where only floats are dispatched over.
pub(super) fn dispatched_float(lambda: &str) -> Option<Element> {
    Some(match branch(lambda)? {
        1 => Element::F64,
        2 => Element::F32,
        3 => Element::F16,
        4 => Element::BF16,
        _ => return None,
    })
}

/// The number of the innermost lambda without parameters.
fn branch(lambda: &str) -> Option<u32> {
    let (_, number) = lambda.rsplit_once("{lambda()#")?;
    number.split('}').next()?.parse().ok()
}
