//! Python's pickle format, protocols 2 to 5, without Python: a reader that runs no code and builds no tree, and a writer.
//!
//! A pickle is a program for a small stack machine. This one carries out what builds plain data (dictionaries, lists,
//! tuples, texts, numbers) and refuses, by name, whatever would import or call something. What is built goes to a
//! [`Sink`] as it closes, so a file with millions of dictionaries never becomes millions of objects.
//!
//! ```
//! use oomproof_pickle::{Handle, Limits, Sink, TextNumber, Value, Writer, read};
//!
//! /// Adds up the numbers of all lists.
//! #[derive(Default)]
//! struct Total(i64);
//!
//! impl Sink for Total {
//!     type Error = std::convert::Infallible;
//!     fn text(&mut self, _: &str) -> Result<TextNumber, Self::Error> { Ok(TextNumber(0)) }
//!     fn name(&self, _: TextNumber) -> &str { "" }
//!     fn append(&mut self, _: Handle, items: &[Value], _: usize) -> Result<(), Self::Error> {
//!         for item in items {
//!             if let Value::Int(number) = item { self.0 += number; }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let mut writer = Writer::new();
//! writer.begin_list();
//! writer.int(30);
//! writer.int(12);
//! writer.end();
//! let file = writer.finish();
//!
//! let mut total = Total::default();
//! let pickle = read(&file, &Limits::for_length(file.len()), &mut total)?;
//! assert_eq!((total.0, pickle.protocol, pickle.len), (42, 4, file.len()));
//!
//! let attack = b"\x80\x04cposix\nsystem\n(X\x02\x00\x00\x00lstR.";
//! let error = read(attack, &Limits::for_length(attack.len()), &mut total).unwrap_err();
//! assert_eq!(error.to_string(), "the pickle names the global `posix.system` at byte 2, which only running code could give");
//! # Ok::<(), oomproof_pickle::ReadError<std::convert::Infallible>>(())
//! ```
//!
//! **Invariant:** knows nothing of PyTorch; runs no code, does no IO, and needs memory in proportion to the input's length
//! whatever the input says.

mod error;
mod input;
mod limits;
mod machine;
mod memo;
mod objects;
mod opcode_table;
mod sink;
mod value;
mod writer;

pub use error::{ReadError, Trouble};
pub use limits::Limits;
pub use machine::{Pickle, read};
pub use sink::Sink;
pub use value::{Handle, TextNumber, Value};
pub use writer::{Reference, Writer};
