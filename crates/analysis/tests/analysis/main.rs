//! Timelines and what is said of them.

mod hostile;
mod notation;
mod processes;
mod ranks;
mod refusals;
mod verdicts;
