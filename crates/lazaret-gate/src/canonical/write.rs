//! Writing canonical JSON (RFC 8785) in one pass. A general writer keeps every object in a tree until it ends; here a
//! field goes straight to the output, and an object is only put in order at its end if its fields weren't: records are
//! written and compared on every turn's path.

use std::cmp::Ordering;
use std::fmt;
use std::io::Write as _;

use serde::ser::{self, Serialize};

use crate::limits::MAX_EXACT;

/// Fields of objects that are open at the same time, in most records.
const USUAL_FIELDS: usize = 48;

/// Appends a value.
pub(super) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Unwritable> {
    value.serialize(Writer { out, fields: &mut Vec::with_capacity(USUAL_FIELDS) })
}

/// A value that has no canonical form.
#[derive(Debug)]
pub(super) struct Unwritable(String);

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unwritable {}

impl ser::Error for Unwritable {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self(why.to_string())
    }
}

/// JSON's numbers are doubles for most readers: what they would round is refused, and so is what isn't whole.
fn inexact(number: impl fmt::Display) -> Unwritable {
    Unwritable(format!("the number {number} is not a whole one up to {MAX_EXACT}"))
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Of all objects that are open, the innermost one's last.
    fields: &'a mut Vec<Field>,
}

impl<'a> Writer<'a> {
    fn literal(self, text: &str) -> Result<(), Unwritable> {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn number<N: Copy + fmt::Display + TryInto<u64>>(self, number: N) -> Result<(), Unwritable> {
        match number.try_into() {
            Ok(whole) if whole <= MAX_EXACT => plain(self.out, &whole),
            _ => Err(inexact(number)),
        }
    }

    fn open(self, kind: Kind) -> Compound<'a> {
        let end = kind.closed_by();
        Compound::begin(self, kind, end)
    }

    /// An object whose only key names the variant.
    fn open_variant(self, variant: &'static str, kind: Kind) -> Result<Compound<'a>, Unwritable> {
        self.out.push(b'{');
        string(self.out, variant)?;
        self.out.push(b':');
        let end = if kind == Kind::Object { "}}" } else { "]}" };
        Ok(Compound::begin(self, kind, end))
    }
}

/// RFC 8785 escapes what JSON must escape and nothing else, in the way that `serde_json` does.
fn string(out: &mut Vec<u8>, text: &str) -> Result<(), Unwritable> {
    if has_escapes(text) {
        return plain(out, text);
    }
    quoted(out, text);
    Ok(())
}

fn quoted(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Whether something in a text has to be escaped. Most texts are digests and names, and copying them is all there is to do.
pub(super) fn has_escapes(text: &str) -> bool {
    // All of it, because that is quicker than stopping in the middle.
    text.bytes().fold(false, |found, byte| found | (byte < 0x20) | (byte == b'"') | (byte == b'\\'))
}

/// Whether a text is ASCII with nothing to escape.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & (0x20..0x80).contains(&byte) & (byte != b'"') & (byte != b'\\'))
}

/// What `serde_json` writes canonically by itself: texts and whole numbers.
fn plain<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Unwritable> {
    serde_json::to_writer(out, value).map_err(|why| Unwritable(why.to_string()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    Object,
}

impl Kind {
    fn closed_by(self) -> &'static str {
        if self == Self::Object { "}" } else { "]" }
    }
}

/// A list or an object that is being written.
struct Compound<'a> {
    out: &'a mut Vec<u8>,
    fields: &'a mut Vec<Field>,
    kind: Kind,
    end: &'static str,
    /// Where the first item begins.
    start: usize,
    /// Where this object's fields begin among those of all that are open.
    first: usize,
}

/// Where `"key":value` stands in the output.
#[derive(Clone, Copy)]
struct Field {
    begins: usize,
    colon: usize,
    ends: usize,
    /// The key is ASCII with nothing escaped.
    plain: bool,
}

impl Field {
    /// The key, without its quotes.
    fn key<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        out.get(self.begins + 1..self.colon - 1).unwrap_or_default()
    }

    fn text(&self, out: &[u8]) -> String {
        serde_json::from_slice(&out[self.begins..self.colon]).unwrap_or_default()
    }

    /// By UTF-16 code units, as RFC 8785 says. For plain keys, which all of our own are, that is by bytes.
    fn order(&self, other: &Self, out: &[u8]) -> Ordering {
        if self.plain && other.plain {
            self.key(out).cmp(other.key(out))
        } else {
            self.text(out).encode_utf16().cmp(other.text(out).encode_utf16())
        }
    }
}

impl<'a> Compound<'a> {
    fn begin(writer: Writer<'a>, kind: Kind, end: &'static str) -> Self {
        let Writer { out, fields } = writer;
        out.push(if kind == Kind::Object { b'{' } else { b'[' });
        Self { start: out.len(), first: fields.len(), out, fields, kind, end }
    }

    fn write<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        value.serialize(Writer { out: self.out, fields: self.fields })
    }

    fn comma(&mut self) {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.comma();
        self.write(value)
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.comma();
        let begins = self.out.len();
        self.write(key)?;
        let colon = self.out.len();
        let spelled = &self.out[begins..];
        if spelled.first() != Some(&b'"') {
            return Err(Unwritable("a key that is no text".to_owned()));
        }
        let plain = spelled.is_ascii() && !spelled.contains(&b'\\');
        self.out.push(b':');
        self.fields.push(Field { begins, colon, ends: colon, plain });
        Ok(())
    }

    /// A key that is a field's name, which is an identifier for all but a few.
    fn name(&mut self, name: &'static str) -> Result<(), Unwritable> {
        if !is_plain(name) {
            return self.key(name);
        }
        self.out.reserve(name.len() + 4);
        self.comma();
        let begins = self.out.len();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        let colon = self.out.len() - 1;
        self.fields.push(Field { begins, colon, ends: colon, plain: true });
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.write(value)?;
        let ends = self.out.len();
        self.fields.last_mut().ok_or_else(|| Unwritable("a value without its key".to_owned()))?.ends = ends;
        Ok(())
    }

    fn close(mut self) -> Result<(), Unwritable> {
        if self.kind == Kind::Object {
            self.sort()?;
            self.fields.truncate(self.first);
        }
        self.out.extend_from_slice(self.end.as_bytes());
        Ok(())
    }

    fn sort(&mut self) -> Result<(), Unwritable> {
        let Self { out, fields, start, first, .. } = self;
        let fields = &mut fields[*first..];
        if fields.is_sorted_by(|one, next| one.order(next, out).is_lt()) {
            return Ok(());
        }
        fields.sort_by(|one, next| one.order(next, out));
        if let Some(twice) = fields.windows(2).find(|pair| pair[0].order(&pair[1], out).is_eq()) {
            return Err(Unwritable(format!("the key {:?} stands twice", twice[0].text(out))));
        }
        // In order behind what is there, and then over it: no other room is needed.
        let unsorted = out.len();
        for field in fields {
            if out.len() > unsorted {
                out.push(b',');
            }
            out.extend_from_within(field.begins..field.ends);
        }
        let sorted = out.len() - unsorted;
        out.copy_within(unsorted.., *start);
        out.truncate(*start + sorted);
        Ok(())
    }
}

impl<'a> ser::Serializer for Writer<'a> {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Compound<'a>;
    type SerializeTuple = Compound<'a>;
    type SerializeTupleStruct = Compound<'a>;
    type SerializeTupleVariant = Compound<'a>;
    type SerializeMap = Compound<'a>;
    type SerializeStruct = Compound<'a>;
    type SerializeStructVariant = Compound<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Unwritable> {
        self.literal(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Unwritable> {
        self.number(value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Unwritable> {
        Err(inexact(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Unwritable> {
        Err(inexact(value))
    }

    fn serialize_char(self, value: char) -> Result<(), Unwritable> {
        string(self.out, value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Unwritable> {
        string(self.out, value)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        let begins = self.out.len();
        self.out.push(b'"');
        write!(self.out, "{value}").map_err(|why| Unwritable(why.to_string()))?;
        self.out.push(b'"');
        let escaped = str::from_utf8(&self.out[begins + 1..self.out.len() - 1]).ok().filter(|text| has_escapes(text));
        if let Some(text) = escaped.map(str::to_owned) {
            self.out.truncate(begins);
            return plain(self.out, &text);
        }
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Unwritable> {
        self.literal("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unwritable> {
        self.literal("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unwritable> {
        self.literal("null")
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Unwritable> {
        string(self.out, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        self.out.push(b'{');
        string(self.out, variant)?;
        self.out.push(b':');
        value.serialize(Writer { out: &mut *self.out, fields: self.fields })?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::List))
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::List))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::List))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a>, Unwritable> {
        self.open_variant(variant, Kind::List)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::Object))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::Object))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a>, Unwritable> {
        self.open_variant(variant, Kind::Object)
    }
}

impl ser::SerializeSeq for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl ser::SerializeTuple for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl ser::SerializeTupleStruct for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl ser::SerializeTupleVariant for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl ser::SerializeStruct for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unwritable> {
        self.name(key)?;
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl ser::SerializeStructVariant for Compound<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unwritable> {
        self.name(key)?;
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}
