//! The words of the product as small integers: phases, roles, driver actions.

use serde::{Deserialize, Serialize};

macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal => $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant = $code,)+
        }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The code that stands in the file.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The meaning of a code; `None` for one this version does not know.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The word people read and `--json` writes.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

coded! {
    /// What the script is doing.
    Phase {
        /// Building or loading the model and its data, before the first step.
        Load = 0 => "load",
        /// The forward pass of a training step.
        Forward = 1 => "forward",
        /// The backward pass.
        Backward = 2 => "backward",
        /// `optimizer.step()`.
        Optimizer = 3 => "optimizer",
        /// A forward pass without gradients or of a model in `eval()` mode.
        Evaluation = 4 => "evaluation",
        /// Writing a checkpoint.
        Save = 5 => "save",
        /// Between the others, after the first step has begun.
        Idle = 6 => "idle",
    }
}

coded! {
    /// Why the host was given what it was given for bytes whose value is not known.
    Basis {
        /// A flag, a count or an index: zero, unless it says that all is well.
        Plain = 0 => "plain",
        /// A number with a fraction, such as a loss: positive and falling from read to read.
        Number = 1 => "number",
        /// More than decides anything, such as a checkpoint.
        Data = 2 => "data",
        /// It was computed from something that was assumed before.
        Policy = 3 => "policy",
        /// It was computed from the assumption that nothing is broken.
        Health = 4 => "health",
        /// The user said so.
        User = 5 => "user",
    }
}

coded! {
    /// What a piece of device memory is for.
    Role {
        /// Nothing is known of it.
        Unknown = 0 => "unknown",
        /// A parameter of a module.
        Parameter = 1 => "parameter",
        /// The gradient of a parameter.
        Gradient = 2 => "gradient",
        /// State that an optimizer keeps.
        OptimizerState = 3 => "optimizer state",
        /// A buffer of a module.
        Buffer = 4 => "buffer",
        /// Data copied from the host.
        Input = 5 => "input",
        /// Made by a forward pass and kept for the backward pass.
        Activation = 6 => "activation",
        /// Made and released inside one phase.
        Temporary = 7 => "temporary",
        /// Scratch memory handed to a library such as cuBLAS or cuDNN.
        Workspace = 8 => "workspace",
    }
}

coded! {
    /// What the driver was asked to do with memory.
    DriverAction {
        /// `cudaMalloc` and its kin succeeded.
        Malloc = 0 => "malloc",
        /// `cudaFree` and its kin.
        Free = 1 => "free",
        /// Physical memory was made (`cuMemCreate`).
        Create = 2 => "create",
        /// Physical memory was given back (`cuMemRelease`).
        Release = 3 => "release",
        /// A request was refused because the device is full; `size` is what was asked.
        Refused = 4 => "refused",
    }
}

coded! {
    /// How the device saw a block being used for the first time.
    Touch {
        /// Written by a copy from the host.
        HostToDevice = 0 => "host to device",
        /// Handed to a library as scratch memory.
        Workspace = 1 => "workspace",
    }
}
