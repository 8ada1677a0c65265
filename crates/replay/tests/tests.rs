//! Programs are made up, run on an allocator above a card, and written down as PyTorch would; then the replay of what
//! was written is compared with what happened.

/// Programs, and the snapshots that they leave.
mod recorder;

/// The replay equals the recording.
mod exact;
