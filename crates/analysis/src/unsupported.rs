//! Functions that are not modelled, each told once: the first call is where to look.

use std::collections::HashMap;

use crate::timeline::{Timeline, UnsupportedCall};
use crate::verdict::Unsupported;

pub(crate) fn unsupported(timeline: &Timeline) -> Vec<Unsupported> {
    let mut found: Vec<Unsupported> = Vec::new();
    let mut index = HashMap::new();
    for UnsupportedCall {
        function,
        library,
        site,
    } in timeline.unsupported.iter().copied()
    {
        let group = *index.entry((function, library)).or_insert(found.len());
        if let Some(calls) = found.get_mut(group) {
            calls.count += 1;
        } else {
            let text = |id| timeline.legend.text(id).unwrap_or("unknown").to_owned();
            found.push(Unsupported {
                function: text(function),
                count: 1,
                r#where: timeline.legend.place(site),
                library: text(library),
            });
        }
    }
    found
}
