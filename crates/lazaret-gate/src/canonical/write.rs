//! Writing canonical JSON (RFC 8785) in one pass. A general writer keeps every object in a tree until it ends; here a
//! field goes straight to the output, and an object is only put in order at its end if its fields weren't: records are
//! written and compared on every turn's path.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use serde::ser::{self, Serialize};

use crate::limits::MAX_EXACT;

/// Appends a value.
pub(super) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Unwritable> {
    value.serialize(Writer { out })
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
}

impl<'a> Writer<'a> {
    fn literal(self, text: &str) -> Result<(), Unwritable> {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn number<N: Copy + fmt::Display + TryInto<u64>>(self, number: N) -> Result<(), Unwritable> {
        match number.try_into() {
            Ok(whole) if whole <= MAX_EXACT => write!(self.out, "{whole}").map_err(|why| Unwritable(why.to_string())),
            _ => Err(inexact(number)),
        }
    }

    /// `fields`: how many an object will have, as far as that is known.
    fn open(self, kind: Kind, fields: usize) -> Compound<'a> {
        let end = kind.closed_by();
        Compound::begin(self.out, kind, end, fields)
    }

    /// An object whose only key names the variant.
    fn open_variant(self, variant: &'static str, kind: Kind, fields: usize) -> Result<Compound<'a>, Unwritable> {
        self.out.push(b'{');
        string(self.out, variant)?;
        self.out.push(b':');
        let end = if kind == Kind::Object { "}}" } else { "]}" };
        Ok(Compound::begin(self.out, kind, end, fields))
    }
}

/// RFC 8785 escapes what JSON must escape and nothing else, in the way that `serde_json` does.
fn string(out: &mut Vec<u8>, text: &str) -> Result<(), Unwritable> {
    serde_json::to_writer(out, text).map_err(|why| Unwritable(why.to_string()))
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
    kind: Kind,
    end: &'static str,
    /// Where the first item begins.
    start: usize,
    /// Keys, and where `"key":value` begins and ends.
    fields: Vec<Field>,
}

struct Field {
    key: Cow<'static, str>,
    ascii: bool,
    begins: usize,
    ends: usize,
}

impl Field {
    /// By UTF-16 code units, as RFC 8785 says. For ASCII, which all of our own keys are, that is by bytes.
    fn precedes(&self, other: &Self) -> std::cmp::Ordering {
        if self.ascii && other.ascii {
            self.key.cmp(&other.key)
        } else {
            self.key.encode_utf16().cmp(other.key.encode_utf16())
        }
    }
}

impl<'a> Compound<'a> {
    fn begin(out: &'a mut Vec<u8>, kind: Kind, end: &'static str, fields: usize) -> Self {
        out.push(if kind == Kind::Object { b'{' } else { b'[' });
        let start = out.len();
        Self { out, kind, end, start, fields: Vec::with_capacity(fields) }
    }

    fn comma(&mut self) {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.comma();
        write(self.out, value)
    }

    fn key(&mut self, key: Cow<'static, str>) -> Result<(), Unwritable> {
        self.comma();
        let begins = self.out.len();
        string(self.out, &key)?;
        self.out.push(b':');
        self.fields.push(Field { ascii: key.is_ascii(), key, begins, ends: begins });
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        write(self.out, value)?;
        let ends = self.out.len();
        self.fields.last_mut().ok_or_else(|| Unwritable("a value without its key".to_owned()))?.ends = ends;
        Ok(())
    }

    fn close(mut self) -> Result<(), Unwritable> {
        if self.kind == Kind::Object {
            self.sort()?;
        }
        self.out.extend_from_slice(self.end.as_bytes());
        Ok(())
    }

    fn sort(&mut self) -> Result<(), Unwritable> {
        if self.fields.is_sorted_by(|one, next| one.precedes(next).is_lt()) {
            return Ok(());
        }
        self.fields.sort_by(Field::precedes);
        if let Some(twice) = self.fields.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(Unwritable(format!("the key {:?} stands twice", twice[0].key)));
        }
        let unsorted = self.out.split_off(self.start);
        for field in &self.fields {
            if self.out.len() > self.start {
                self.out.push(b',');
            }
            self.out.extend_from_slice(&unsorted[field.begins - self.start..field.ends - self.start]);
        }
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
        write(self.out, value)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::List, 0))
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::List, 0))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::List, 0))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a>, Unwritable> {
        self.open_variant(variant, Kind::List, 0)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::Object, 0))
    }

    fn serialize_struct(self, _: &'static str, fields: usize) -> Result<Compound<'a>, Unwritable> {
        Ok(self.open(Kind::Object, fields))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        fields: usize,
    ) -> Result<Compound<'a>, Unwritable> {
        self.open_variant(variant, Kind::Object, fields)
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
        let mut spelled = Vec::new();
        write(&mut spelled, key)?;
        let text =
            serde_json::from_slice::<String>(&spelled).map_err(|_| Unwritable("a key that is no text".to_owned()))?;
        self.key(text.into())
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
        self.key(key.into())?;
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
        self.key(key.into())?;
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}
