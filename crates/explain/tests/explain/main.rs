//! The explanation of texts of our own making.

/// Which cause is named first.
mod causes;
/// Which figures are read out of which text.
mod formats;
/// No bytes make it fail.
mod hostile;
/// What is offered, and what is ruled out.
mod remedies;
/// Snapshots of our own making.
mod snapshots;
/// Tables of `torch.cuda.memory_summary()`.
mod summaries;
/// What holds of every answer.
mod taught;
/// Texts of every generation, written as PyTorch writes them.
mod texts;
mod together;
