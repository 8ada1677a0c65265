//! The reader against pickles written by hand, by Python and by our own writer, and against random bytes.

use std::fmt::Write as _;

use oomproof_pickle::{
    Handle, Limits, Pickle, ReadError, Sink, TextNumber, Trouble, Value, Writer, read,
};
use proptest::prelude::*;

/// Keeps everything, to print it as Python would.
#[derive(Default)]
struct Tree {
    texts: Vec<String>,
    objects: Vec<(char, Vec<Value>)>,
    n_appends: usize,
}

impl Sink for Tree {
    type Error = String;

    fn text(&mut self, text: &str) -> Result<TextNumber, String> {
        self.texts.push(text.to_owned());
        Ok(TextNumber(self.texts.len() as u32 - 1))
    }

    fn name(&self, text: TextNumber) -> &str {
        &self.texts[text.0 as usize]
    }

    fn dict(&mut self, new: Handle) -> Result<(), String> {
        assert_eq!(new.0 as usize, self.objects.len());
        self.objects.push(('{', Vec::new()));
        Ok(())
    }

    fn list(&mut self, new: Handle) -> Result<(), String> {
        assert_eq!(new.0 as usize, self.objects.len());
        self.objects.push(('[', Vec::new()));
        Ok(())
    }

    fn tuple(&mut self, new: Handle, items: &[Value]) -> Result<(), String> {
        assert_eq!(new.0 as usize, self.objects.len());
        self.objects.push(('(', items.to_vec()));
        Ok(())
    }

    fn set_items(&mut self, dict: Handle, items: &[Value], _: usize) -> Result<(), String> {
        assert_eq!(self.objects[dict.0 as usize].0, '{');
        self.objects[dict.0 as usize].1.extend(items);
        Ok(())
    }

    fn append(&mut self, list: Handle, items: &[Value], _: usize) -> Result<(), String> {
        assert_eq!(self.objects[list.0 as usize].0, '[');
        self.objects[list.0 as usize].1.extend(items);
        self.n_appends += 1;
        Ok(())
    }
}

impl Tree {
    fn print(&self, value: Value, out: &mut String) {
        match value {
            Value::None => out.push_str("None"),
            Value::Bool(value) => out.push_str(if value { "True" } else { "False" }),
            Value::Int(number) => write!(out, "{number}").unwrap(),
            Value::Unsigned(number) => write!(out, "{number}").unwrap(),
            Value::Wide => out.push_str("wide"),
            Value::Float(number) => write!(out, "{number:?}").unwrap(),
            Value::Text(text) => write!(out, "{:?}", self.texts[text.0 as usize]).unwrap(),
            Value::Bytes => out.push_str("bytes"),
            Value::Object(handle) => {
                let (kind, items) = &self.objects[handle.0 as usize];
                out.push(*kind);
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(if *kind == '{' && index % 2 == 1 {
                            ": "
                        } else {
                            ", "
                        });
                    }
                    self.print(*item, out);
                }
                out.push(match kind {
                    '{' => '}',
                    '[' => ']',
                    _ => ')',
                });
            }
        }
    }
}

fn try_read(bytes: &[u8]) -> Result<(String, Pickle), ReadError<String>> {
    let mut tree = Tree::default();
    let pickle = read(bytes, &Limits::for_length(bytes.len()), &mut tree)?;
    let mut printed = String::new();
    tree.print(pickle.value, &mut printed);
    Ok((printed, pickle))
}

fn check(bytes: &[u8], expected: &str) {
    assert_eq!(try_read(bytes).unwrap().0, expected);
}

fn check_error(bytes: &[u8], expected: &str) {
    assert_eq!(try_read(bytes).unwrap_err().to_string(), expected);
}

/// `{"a": [1, -2, 300, 70000, 2**40, 2**63, 1.5, None, True], "b": (), "c": (1,), "d": ((1, 2), (1, 2, 3), (1, 2, 3, 4)), "e": "a"}`,
/// which Python 3.11 wrote with each protocol.
const BY_PYTHON: &str = r#"{"a": [1, -2, 300, 70000, 1099511627776, 9223372036854775808, 1.5, None, True], "b": (), "c": (1), "d": ((1, 2), (1, 2, 3), (1, 2, 3, 4)), "e": "a"}"#;

#[test]
fn reads_what_python_writes() {
    let protocol_2 = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00G?\xf8\x00\x00\x00\x00\x00\x00N\x88eX\x01\x00\x00\x00bq\x03)X\x01\x00\x00\x00cq\x04K\x01\x85q\x05X\x01\x00\x00\x00dq\x06K\x01K\x02\x86q\x07K\x01K\x02K\x03\x87q\x08(K\x01K\x02K\x03K\x04tq\x09\x87q\x0aX\x01\x00\x00\x00eq\x0bh\x01u.";
    let protocol_4 = b"\x80\x04\x95l\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00G?\xf8\x00\x00\x00\x00\x00\x00N\x88e\x8c\x01b\x94)\x8c\x01c\x94K\x01\x85\x94\x8c\x01d\x94K\x01K\x02\x86\x94K\x01K\x02K\x03\x87\x94(K\x01K\x02K\x03K\x04t\x94\x87\x94\x8c\x01e\x94h\x01u.";
    let protocol_5 = b"\x80\x05\x95l\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00G?\xf8\x00\x00\x00\x00\x00\x00N\x88e\x8c\x01b\x94)\x8c\x01c\x94K\x01\x85\x94\x8c\x01d\x94K\x01K\x02\x86\x94K\x01K\x02K\x03\x87\x94(K\x01K\x02K\x03K\x04t\x94\x87\x94\x8c\x01e\x94h\x01u.";
    check(protocol_2, BY_PYTHON);
    check(protocol_4, BY_PYTHON);
    check(protocol_5, BY_PYTHON);
    assert_eq!(try_read(protocol_2).unwrap().1.protocol, 2);
}

#[test]
fn reads_rarer_instructions() {
    check(b"}.", "{}");
    check(b"}(K\x01K\x02u.", "{1: 2}");
    check(b"}K\x01K\x02s.", "{1: 2}");
    check(b"]K\x01aK\x02a.", "[1, 2]");
    check(b"]2\x86.", "([], [])");
    check(b"K\x01K\x020.", "1");
    check(b"K\x01(K\x02K\x031.", "1");
    check(b"\x8b\x02\x00\x00\x00\xff\x00.", "255");
    check(b"C\x03abc.", "bytes");
    check(b"\x96\x01\x00\x00\x00\x00\x00\x00\x00a.", "bytes");
    check(b"\x8d\x01\x00\x00\x00\x00\x00\x00\x00a.", "\"a\"");
    check(b"\x8c\x02\xff\xfe.", "\"\u{fffd}\u{fffd}\"");
    check(b"K\x07r\x03\x00\x00\x000j\x03\x00\x00\x00.", "7");
    check(b"K\x01.rest", "1");
}

#[test]
fn refuses_what_runs_code() {
    check_error(
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        "the pickle names the global `os.system` at byte 14, which only running code could give",
    );
    check_error(
        b"ios\nsystem\n.",
        "the pickle names the global `os.system` at byte 0, which only running code could give",
    );
    check_error(
        b"K\x01K\x02R.",
        "the pickle wants to run code with `REDUCE` at byte 4",
    );
    check_error(
        b"]K\x02b.",
        "the pickle wants to run code with `BUILD` at byte 3",
    );
    check_error(
        b"K\x01\x82\x01.",
        "the pickle wants to run code with `EXT1` at byte 2",
    );
    check_error(
        b"K\x01Q.",
        "the pickle wants to run code with `BINPERSID` at byte 2",
    );
}

#[test]
fn says_what_is_wrong_and_where() {
    check_error(b"", "the pickle is cut off in the instruction at byte 0");
    check_error(
        b"\x80\x04X\xff\xff\xff\xffabc",
        "the pickle is cut off in the instruction at byte 2",
    );
    check_error(
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc",
        "the pickle is cut off in the instruction at byte 0",
    );
    check_error(
        b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "the pickle is cut off in the instruction at byte 0",
    );
    check_error(
        b"\x8b\xff\xff\xff\xffabc",
        "the pickle has a negative length at byte 0",
    );
    check_error(
        b"\x80\x06.",
        "the pickle has protocol 6 at byte 0, and 5 is the last one known",
    );
    check_error(
        b"\x07",
        "byte 0 of the pickle is 0x07, which is no instruction",
    );
    check_error(
        b"0.",
        "the pickle takes more from its stack than is there at byte 0",
    );
    check_error(
        b"K\x01(0.",
        "the pickle takes more from its stack than is there at byte 3",
    );
    check_error(
        b"K\x01(.",
        "the pickle takes more from its stack than is there at byte 3",
    );
    check_error(
        b"](ee.",
        "the pickle takes more from its stack than is there at byte 3",
    );
    check_error(
        b"}(K\x01e.",
        "the pickle uses something as a list that is none at byte 4",
    );
    check_error(
        b"](K\x01K\x01u.",
        "the pickle uses something as a dictionary that is none at byte 6",
    );
    check_error(
        b"K\x01K\x02a.",
        "the pickle uses something as a list that is none at byte 4",
    );
    check_error(
        b"}(K\x01u.",
        "the pickle has a key without a value at byte 4",
    );
    check_error(
        b"h\x03.",
        "the pickle uses number 3 of its memo before storing it, at byte 0",
    );
    check_error(
        b"I7\n.",
        "the pickle has the instruction `INT` at byte 0, which plain data does not need",
    );
    check_error(
        b"\x8f.",
        "the pickle has the instruction `EMPTY_SET` at byte 0, which plain data does not need",
    );
}

#[test]
fn refuses_cycles() {
    let cyclic = |bytes: &[u8]| assert_eq!(try_read(bytes).unwrap_err().trouble, Trouble::Cyclic);
    cyclic(b"]\x94h\x00a.");
    cyclic(b"]\x94(h\x00e.");
    cyclic(b"}\x94(K\x01h\x00u.");
    cyclic(b"]\x94](h\x00eh\x00K\x01a.");
    cyclic(b"]\x94h\x00\x85\x94h\x00h\x01a.");
}

#[test]
fn bounds_what_a_short_file_can_ask_for() {
    let too_many = |bytes: &[u8], what: &str| match try_read(bytes).unwrap_err().trouble {
        Trouble::TooMany(found, _) => assert_eq!(found, what),
        other => panic!("{other:?}"),
    };
    too_many(&b"N".repeat(1 << 20), "values on its stack");
    too_many(&b"(".repeat(1 << 20), "nested marks");
    too_many(&b"}0".repeat(1 << 20), "containers");
    too_many(&b"]]a".repeat(1 << 20), "containers");
    too_many(&b")0".repeat(1 << 20), "containers");
    too_many(
        &[b"K\x01".as_slice(), &b"\x94".repeat(1 << 20)].concat(),
        "memo entries",
    );
    too_many(b"K\x01r\xff\xff\xff\xff.", "memo entries");
}

/// Any plain data, as the tree that is written.
#[derive(Clone, Debug)]
enum Data {
    None,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Pair(u64, u64),
    List(Vec<Data>),
    Dict(Vec<(Data, Data)>),
}

fn data() -> impl Strategy<Value = Data> {
    let number = prop_oneof![
        any::<i64>(),
        any::<i32>().prop_map(i64::from),
        any::<u16>().prop_map(i64::from)
    ];
    let leaf = prop_oneof![
        Just(Data::None),
        any::<bool>().prop_map(Data::Bool),
        number.prop_map(Data::Int),
        any::<u64>().prop_map(Data::Unsigned),
        (-1e300..1e300).prop_map(Data::Float),
        "[a-c]{0,3}".prop_map(Data::Text),
        ".{0,300}".prop_map(Data::Text),
        (any::<u64>(), any::<u64>()).prop_map(|(first, second)| Data::Pair(first, second)),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Data::List),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Data::Dict),
        ]
    })
}

fn write_data(data: &Data, writer: &mut Writer) {
    match data {
        Data::None => writer.none(),
        Data::Bool(value) => writer.bool(*value),
        Data::Int(number) => writer.int(*number),
        Data::Unsigned(number) => writer.unsigned(*number),
        Data::Float(number) => writer.float(*number),
        Data::Text(text) => writer.text(text),
        Data::Pair(first, second) => {
            writer.pair(*first, *second);
        }
        Data::List(items) => {
            writer.begin_list();
            for item in items {
                write_data(item, writer);
            }
            writer.end();
        }
        Data::Dict(items) => {
            writer.begin_dict();
            for (key, value) in items {
                write_data(key, writer);
                write_data(value, writer);
            }
            writer.end();
        }
    }
}

fn print_data(data: &Data) -> String {
    let list = |items: &[Data]| items.iter().map(print_data).collect::<Vec<_>>().join(", ");
    match data {
        Data::None => "None".to_owned(),
        Data::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
        Data::Int(number) => number.to_string(),
        Data::Unsigned(number) => number.to_string(),
        Data::Float(number) => format!("{number:?}"),
        Data::Text(text) => format!("{text:?}"),
        Data::Pair(first, second) => format!("({first}, {second})"),
        Data::List(items) => format!("[{}]", list(items)),
        Data::Dict(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|(key, value)| format!("{}: {}", print_data(key), print_data(value)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

#[test]
fn writes_in_batches() {
    let mut writer = Writer::new();
    writer.begin_list();
    for number in 0..2500 {
        writer.int(number);
    }
    let file = writer.finish();
    let expected: Vec<String> = (0..2500).map(|number: i64| number.to_string()).collect();
    check(&file, &format!("[{}]", expected.join(", ")));
    let mut tree = Tree::default();
    read(&file, &Limits::for_length(file.len()), &mut tree).unwrap();
    assert_eq!(tree.n_appends, 3);
}

proptest! {
    #[test]
    fn reads_what_the_writer_writes(data in data()) {
        let mut writer = Writer::new();
        write_data(&data, &mut writer);
        let file = writer.finish();
        let (printed, pickle) = try_read(&file).unwrap();
        prop_assert_eq!(printed, print_data(&data));
        prop_assert_eq!(pickle.len, file.len());
    }

    #[test]
    fn survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = try_read(&bytes);
    }

    #[test]
    fn survives_any_instructions(bytes in prop::collection::vec(prop::sample::select(b"()]}N0112GJKMXaeuhjqrst.\x80\x85\x86\x87\x88\x8a\x8b\x8c\x94\x95\x00\x01".as_slice()), 0..400)) {
        let _ = try_read(&bytes);
    }

    #[test]
    fn survives_damage(data in data(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut writer = Writer::new();
        write_data(&data, &mut writer);
        let mut file = writer.finish();
        let cut = cut.index(file.len());
        let at = at.index(file.len());
        prop_assert!(try_read(&file[..cut]).is_err());
        file[at] = byte;
        let _ = try_read(&file);
    }
}
