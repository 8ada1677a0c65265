//! `per-batch-transfer`: a data set that lies on the device whole can come over batch by batch.

use crate::lever::{Lever, Offered};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::PerBatchTransfer,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script| match script.facts.resident_dataset_bytes {
        Some(bytes) if bytes.get() > 0 => Ok(()),
        _ => Err("no data set lies on the device whole".to_owned()),
    },
    options: |_| vec![Parameters::new()],
    shape,
    describe: |_| "data that come to the device batch by batch".to_owned(),
    code: |_, _| {
        Some("# the data stay on the host; in the loop:\nbatch = batch.to(device, non_blocking=True)\n".to_owned())
    },
};

fn shape(_: &LeverUse, workload: &mut Workload) {
    workload.resident -= workload.dataset;
    // One batch of it, of which the number is not known, is small beside a step.
    workload.add_time(TimePart::Other, 0.01 * workload.step_ns);
    workload.dataset = 0.0;
}
