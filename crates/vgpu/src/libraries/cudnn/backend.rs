//! Backend descriptors: trees of attributes by number, through which convolutions and attention are described.
//!
//! An attribute may be other descriptors. They are kept by value, as they are when they are set: the caller is free to
//! end its handles once a plan is made. Getting such an attribute fills descriptors that the caller made for it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use super::object;
use super::{CudnnStatus, engines};
use crate::status::put;

/// Attribute type of other descriptors.
pub(super) const DESCRIPTORS: i32 = 15;

/// What an attribute was set to.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Bytes { of: i32, bytes: Vec<u8> },
    Nodes(Vec<Arc<Node>>),
}

impl Value {
    fn kind(&self) -> i32 {
        match self {
            Self::Bytes { of, .. } => *of,
            Self::Nodes(_) => DESCRIPTORS,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Bytes { of, bytes } => bytes.len() / element_size(*of),
            Self::Nodes(nodes) => nodes.len(),
        }
    }
}

/// One descriptor.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) kind: i32,
    pub(super) finalized: bool,
    pub(super) attributes: HashMap<i32, Value>,
}

impl Node {
    /// The descriptors that an attribute holds.
    pub(super) fn nodes(&self, attribute: i32) -> &[Arc<Node>] {
        match self.attributes.get(&attribute) {
            Some(Value::Nodes(nodes)) => nodes,
            _ => &[],
        }
    }

    /// The 64-bit numbers or addresses that an attribute holds.
    pub(super) fn numbers(&self, attribute: i32) -> Vec<u64> {
        match self.attributes.get(&attribute) {
            Some(Value::Bytes { bytes, .. }) => bytes
                .chunks_exact(8)
                .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()))
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Node {
    /// The C enumeration that an attribute holds.
    pub(super) fn enumeration(&self, attribute: i32) -> Option<i32> {
        match self.attributes.get(&attribute)? {
            Value::Bytes { bytes, .. } => {
                Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
            }
            Value::Nodes(_) => None,
        }
    }
}

/// Bytes of one element of an attribute type; those not listed are C enumerations.
fn element_size(kind: i32) -> usize {
    match kind {
        2 | 24 => 1,
        0 | 3 | 5 | 6 | DESCRIPTORS => 8,
        26 => 16,
        _ => 4,
    }
}

/// The current state of a descriptor.
pub(super) fn node(handle: u64) -> Result<Arc<Node>, CudnnStatus> {
    object::look(handle, |node: &mut Arc<Node>| node.clone())
}

/// Makes a descriptor of a kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(kind: i32, out: *mut u64) -> CudnnStatus {
    // SAFETY: the caller passes a place for a handle or null.
    unsafe {
        object::create(out, || {
            Arc::new(Node {
                kind,
                ..Node::default()
            })
        })
    }
}

/// Ends a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendDestroyDescriptor(descriptor: u64) -> CudnnStatus {
    object::destroy::<Arc<Node>>(descriptor)
}

/// Clears a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendInitialize(descriptor: u64) -> CudnnStatus {
    object::change(descriptor, |node: &mut Arc<Node>| {
        *node = Arc::new(Node {
            kind: node.kind,
            ..Node::default()
        });
    })
}

/// Completes a descriptor; every graph is supported.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendFinalize(descriptor: u64) -> CudnnStatus {
    object::change(descriptor, |node: &mut Arc<Node>| {
        Arc::make_mut(node).finalized = true;
    })
}

/// Sets an attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: u64,
    attribute: i32,
    kind: i32,
    count: i64,
    elements: *const c_void,
) -> CudnnStatus {
    let Some(size) = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(element_size(kind)))
    else {
        return CudnnStatus::BAD_PARAM;
    };
    if size > 0 && elements.is_null() {
        return CudnnStatus::NULL_POINTER;
    }
    let mut bytes = vec![0u8; size];
    if size > 0 {
        // SAFETY: not null, and the caller passes `count` elements of the type.
        unsafe { std::ptr::copy_nonoverlapping(elements.cast::<u8>(), bytes.as_mut_ptr(), size) };
    }
    let value = if kind == DESCRIPTORS {
        let handles = bytes
            .chunks_exact(8)
            .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()));
        match handles.map(node).collect() {
            Ok(nodes) => Value::Nodes(nodes),
            Err(error) => return error,
        }
    } else {
        Value::Bytes { of: kind, bytes }
    };
    object::change(descriptor, |node: &mut Arc<Node>| {
        Arc::make_mut(node).attributes.insert(attribute, value);
    })
}

/// An attribute: its number of elements, and as many of them as are asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: u64,
    attribute: i32,
    kind: i32,
    requested: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> CudnnStatus {
    let value = node(descriptor).and_then(|node| {
        if !node.finalized {
            return Err(CudnnStatus::NOT_FINALIZED);
        }
        let value =
            engines::answer(&node, attribute).or_else(|| node.attributes.get(&attribute).cloned());
        value.ok_or(CudnnStatus::NOT_SUPPORTED)
    });
    // Of descriptors as many are counted as are given: the caller takes that many from what it made.
    let counted = value.as_ref().map_or(0, |value| match value {
        Value::Nodes(nodes) if requested > 0 => requested.min(nodes.len() as i64),
        value => value.count() as i64,
    });
    // SAFETY: the caller passes a place for a count or null.
    unsafe { put(count, counted) };
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            if error == CudnnStatus::NOT_SUPPORTED {
                crate::unsupported::unsupported("cudnnBackendGetAttribute", "libcudnn.so.9");
            }
            return error;
        }
    };
    if value.kind() != kind {
        return CudnnStatus::ATTRIBUTE_TYPE;
    }
    let wanted = usize::try_from(requested).unwrap_or(0).min(value.count());
    if elements.is_null() || wanted == 0 {
        return CudnnStatus::SUCCESS;
    }
    match &value {
        // SAFETY: not null, and the caller has room for as many elements as it asks for.
        Value::Bytes { bytes, .. } => unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                elements.cast(),
                wanted * element_size(kind),
            );
        },
        Value::Nodes(nodes) => {
            for (index, found) in nodes[..wanted].iter().enumerate() {
                // SAFETY: as above; the elements are handles of descriptors that the caller made.
                let target = unsafe { elements.cast::<u64>().add(index).read_unaligned() };
                let filled = object::look(target, |node: &mut Arc<Node>| {
                    let same = node.kind == found.kind;
                    if same {
                        *node = found.clone();
                    }
                    same
                });
                match filled {
                    Ok(true) => {}
                    Ok(false) => return CudnnStatus::DESCRIPTOR_TYPE,
                    Err(error) => return error,
                }
            }
        }
    }
    CudnnStatus::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_size_of_their_type() {
        let check = |kind, expected| assert_eq!(element_size(kind), expected, "type {kind}");
        check(0, 8); // handle
        check(1, 4); // data type
        check(2, 1); // boolean
        check(3, 8); // 64-bit integer
        check(4, 4); // float
        check(5, 8); // double
        check(6, 8); // pointer
        check(15, 8); // descriptor
        check(23, 4); // 32-bit integer
        check(24, 1); // character
        check(26, 16); // fraction
    }
}
