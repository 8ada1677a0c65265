//! Attributes that cuDNN answers rather than keeps: which engines run a graph and what they need.
//!
//! A convolution has three engines, which differ in their scratch memory alone; every other graph has one. None has
//! knobs or notes. A note would make PyTorch drop the engine when it must be deterministic or must not use TF32, and
//! then no engine would be left.

use std::collections::HashMap;
use std::sync::Arc;

use super::backend::{Node, Value};
use super::workspace::{Engine, plan_scratch};
use crate::libraries::estimate::{Scratch, foresee};
use crate::session::session;

/// Kinds of descriptors.
pub(super) mod kind {
    pub(in super::super) const ENGINE: i32 = 2;
    pub(in super::super) const ENGINE_CONFIG: i32 = 3;
    pub(in super::super) const HEURISTICS: i32 = 4;
    pub(in super::super) const PLAN: i32 = 5;
    pub(in super::super) const CONVOLUTION_OPERATIONS: std::ops::RangeInclusive<i32> = 10..=12;
    pub(in super::super) const GRAPH: i32 = 15;
    pub(in super::super) const VARIANT_PACK: i32 = 16;
    pub(in super::super) const KERNEL_CACHE: i32 = 34;
}

/// Numbers of attributes.
pub(super) mod attribute {
    pub(in super::super) const HEURISTICS_GRAPH: i32 = 201;
    pub(in super::super) const HEURISTICS_RESULTS: i32 = 202;
    pub(in super::super) const CONFIG_ENGINE: i32 = 300;
    pub(in super::super) const CONFIG_INTERMEDIATES: i32 = 301;
    pub(in super::super) const CONFIG_KNOBS: i32 = 302;
    pub(in super::super) const CONFIG_WORKSPACE: i32 = 303;
    pub(in super::super) const CONFIG_SHARED_MEMORY: i32 = 304;
    pub(in super::super) const PLAN_CONFIG: i32 = 401;
    pub(in super::super) const PLAN_WORKSPACE: i32 = 402;
    pub(in super::super) const PLAN_INTERMEDIATES: i32 = 403;
    pub(in super::super) const GRAPH_OPERATIONS: i32 = 801;
    pub(in super::super) const GRAPH_ENGINE_COUNT: i32 = 802;
    pub(in super::super) const ENGINE_GRAPH: i32 = 1300;
    pub(in super::super) const ENGINE_INDEX: i32 = 1301;
    pub(in super::super) const ENGINE_KNOBS: i32 = 1302;
    pub(in super::super) const ENGINE_NUMERICAL_NOTES: i32 = 1303;
    pub(in super::super) const ENGINE_LAYOUTS: i32 = 1304;
    pub(in super::super) const ENGINE_BEHAVIOR_NOTES: i32 = 1305;
    pub(in super::super) const CACHE_HAS_KERNEL: i32 = 2401;
}

/// Attribute types.
mod of {
    pub(super) const BOOLEAN: i32 = 2;
    pub(super) const INT64: i32 = 3;
    pub(super) const NUMERICAL_NOTE: i32 = 11;
    pub(super) const BEHAVIOR_NOTE: i32 = 19;
    pub(super) const INT32: i32 = 23;
}

fn int64(value: u64) -> Value {
    Value::Bytes {
        of: of::INT64,
        bytes: value.to_ne_bytes().to_vec(),
    }
}

fn none_of(of: i32) -> Value {
    Value::Bytes {
        of,
        bytes: Vec::new(),
    }
}

/// The answer to an attribute that is not simply kept.
pub(super) fn answer(node: &Node, attribute: i32) -> Option<Value> {
    let kept = node.attributes.contains_key(&attribute);
    match (node.kind, attribute) {
        (kind::HEURISTICS, attribute::HEURISTICS_RESULTS) => Some(Value::Nodes(
            node.nodes(attribute::HEURISTICS_GRAPH)
                .iter()
                .flat_map(|graph| {
                    let numbers = 0..engine_count(graph);
                    numbers.map(|number| Arc::new(configuration(graph, number)))
                })
                .collect(),
        )),
        (kind::ENGINE_CONFIG, attribute::CONFIG_WORKSPACE)
        | (kind::PLAN, attribute::PLAN_WORKSPACE) => {
            let scratch = scratch(node);
            if let Some(session) = session() {
                foresee(session, scratch);
            }
            Some(int64(scratch.likely))
        }
        (kind::ENGINE_CONFIG, attribute::CONFIG_SHARED_MEMORY) => Some(Value::Bytes {
            of: of::INT32,
            bytes: 0i32.to_ne_bytes().to_vec(),
        }),
        (kind::ENGINE_CONFIG, attribute::CONFIG_KNOBS | attribute::CONFIG_INTERMEDIATES)
            if !kept =>
        {
            Some(Value::Nodes(Vec::new()))
        }
        (kind::PLAN, attribute::PLAN_INTERMEDIATES) => Some(none_of(of::INT64)),
        (kind::GRAPH, attribute::GRAPH_ENGINE_COUNT) => Some(int64(engine_count(node))),
        (kind::ENGINE, attribute::ENGINE_KNOBS | attribute::ENGINE_LAYOUTS) => {
            Some(Value::Nodes(Vec::new()))
        }
        (kind::ENGINE, attribute::ENGINE_NUMERICAL_NOTES) => Some(none_of(of::NUMERICAL_NOTE)),
        (kind::ENGINE, attribute::ENGINE_BEHAVIOR_NOTES) => Some(none_of(of::BEHAVIOR_NOTE)),
        (kind::KERNEL_CACHE, attribute::CACHE_HAS_KERNEL) => Some(Value::Bytes {
            of: of::BOOLEAN,
            bytes: vec![0],
        }),
        _ => None,
    }
}

/// How many engines run a graph.
fn engine_count(graph: &Node) -> u64 {
    let operations = graph.nodes(attribute::GRAPH_OPERATIONS);
    if operations
        .iter()
        .any(|operation| kind::CONVOLUTION_OPERATIONS.contains(&operation.kind))
    {
        Engine::ALL.len() as u64
    } else {
        1
    }
}

/// The one configuration of an engine of a graph.
fn configuration(graph: &Arc<Node>, number: u64) -> Node {
    let engine = Node {
        kind: kind::ENGINE,
        finalized: true,
        attributes: HashMap::from([
            (attribute::ENGINE_GRAPH, Value::Nodes(vec![graph.clone()])),
            (attribute::ENGINE_INDEX, int64(number)),
        ]),
    };
    Node {
        kind: kind::ENGINE_CONFIG,
        finalized: true,
        attributes: HashMap::from([(
            attribute::CONFIG_ENGINE,
            Value::Nodes(vec![Arc::new(engine)]),
        )]),
    }
}

fn engine(node: &Node) -> Option<&Node> {
    let first = |node, attribute| Node::nodes(node, attribute).first().map(AsRef::as_ref);
    let configuration = if node.kind == kind::PLAN {
        first(node, attribute::PLAN_CONFIG)
    } else {
        Some(node)
    };
    first(configuration?, attribute::CONFIG_ENGINE)
}

/// The operations of a plan or of an engine configuration.
pub(super) fn operations(node: &Node) -> &[Arc<Node>] {
    engine(node)
        .and_then(|engine| engine.nodes(attribute::ENGINE_GRAPH).first())
        .map_or(&[], |graph| graph.nodes(attribute::GRAPH_OPERATIONS))
}

/// The scratch memory of a plan or of an engine configuration.
pub(super) fn scratch(node: &Node) -> Scratch {
    let number =
        engine(node).and_then(|engine| engine.numbers(attribute::ENGINE_INDEX).first().copied());
    plan_scratch(operations(node), number.unwrap_or(0))
}
