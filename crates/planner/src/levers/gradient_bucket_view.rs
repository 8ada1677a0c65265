//! `gradient-bucket-view`: distributed training copies gradients into buckets; as views of the buckets they exist once.

use crate::lever::{Framework, Lever, Offered};
use crate::lever_name::LeverName;
use crate::lever_use::Parameters;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::GradientBucketView,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script| {
        let shows = |name: &String| name.contains("DistributedDataParallel");
        if script.facts.frameworks.iter().any(shows) {
            Ok(())
        } else {
            Err("the model is not wrapped in `DistributedDataParallel`".to_owned())
        }
    },
    options: |_| vec![Parameters::new()],
    shape: |_, workload| workload.resident = (workload.resident - workload.gradients).max(0.0),
    describe: |_| "gradients as views of the buckets of distributed training".to_owned(),
    code: |_, writing| {
        Some(match writing.framework {
 Framework::Lightning => "trainer = Trainer(..., strategy=DDPStrategy(gradient_as_bucket_view=True))\n".to_owned(),
 Framework::Accelerate => "accelerator = Accelerator(..., kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])\n".to_owned(),
 Framework::Plain | Framework::Trainer => "model = DistributedDataParallel(model, ..., gradient_as_bucket_view=True)\n".to_owned(),
 })
    },
};
