//! Any bytes as a pickle: it ends, and what reaches the sink keeps the promises of the trait.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oomproof_pickle::{Handle, Limits, Sink, TextNumber, Value, read};

#[derive(Default)]
struct Promises {
    n_texts: u32,
    /// Of each container: what it is, and whether it became part of another.
    objects: Vec<(u8, bool)>,
}

impl Promises {
    fn add(&mut self, new: Handle, kind: u8) {
        assert_eq!(new.0 as usize, self.objects.len());
        self.objects.push((kind, false));
    }

    fn parts(&mut self, items: &[Value]) {
        for item in items {
            match item {
                Value::Object(handle) => self.objects[handle.0 as usize].1 = true,
                Value::Text(text) => assert!(text.0 < self.n_texts),
                _ => {}
            }
        }
    }
}

impl Sink for Promises {
    type Error = ();

    fn text(&mut self, _: &str) -> Result<TextNumber, ()> {
        self.n_texts += 1;
        Ok(TextNumber(self.n_texts - 1))
    }

    fn name(&self, _: TextNumber) -> &str {
        "text"
    }

    fn dict(&mut self, new: Handle) -> Result<(), ()> {
        self.add(new, 0);
        Ok(())
    }

    fn list(&mut self, new: Handle) -> Result<(), ()> {
        self.add(new, 1);
        Ok(())
    }

    fn tuple(&mut self, new: Handle, items: &[Value]) -> Result<(), ()> {
        self.parts(items);
        self.add(new, 2);
        Ok(())
    }

    fn set_items(&mut self, dict: Handle, items: &[Value], _: usize) -> Result<(), ()> {
        assert_eq!(self.objects[dict.0 as usize], (0, false));
        assert!(items.len().is_multiple_of(2));
        self.parts(items);
        Ok(())
    }

    fn append(&mut self, list: Handle, items: &[Value], _: usize) -> Result<(), ()> {
        assert_eq!(self.objects[list.0 as usize], (1, false));
        self.parts(items);
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(pickle) = read(bytes, &Limits::for_length(bytes.len()), &mut Promises::default()) {
        assert!(pickle.len <= bytes.len());
    }
});
