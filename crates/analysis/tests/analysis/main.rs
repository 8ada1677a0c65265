//! Timelines and what is said of them.

mod hostile;
mod notation;
mod ranks;
mod refusals;
mod verdicts;
