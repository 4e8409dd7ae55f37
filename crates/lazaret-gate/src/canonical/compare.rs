//! Whether bytes are what the writer would write, without writing it: whoever reads a record has its bytes at hand already.
//!
//! What is told as equal is equal. What isn't may be: objects whose fields have to be put in order, and texts with escapes or
//! keys beyond ASCII, are left to the writer.

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize};

use super::write::has_escapes;
use crate::limits::MAX_EXACT;

/// Whether these bytes are certainly the canonical form of this value.
pub(super) fn is_form_of<T: Serialize + ?Sized>(bytes: &[u8], value: &T) -> bool {
    let mut rest = bytes;
    value.serialize(Compare { rest: &mut rest }).is_ok() && rest.is_empty()
}

/// They differ, or it can't be told here.
#[derive(Debug)]
struct Unlike;

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("other bytes")
    }
}

impl std::error::Error for Unlike {}

impl ser::Error for Unlike {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Goes through the bytes as a value goes through its parts.
struct Compare<'a, 'b> {
    /// What is not yet compared.
    rest: &'a mut &'b [u8],
}

impl<'a, 'b> Compare<'a, 'b> {
    fn eat(&mut self, expected: &[u8]) -> Result<(), Unlike> {
        *self.rest = self.rest.strip_prefix(expected).ok_or(Unlike)?;
        Ok(())
    }

    fn literal(mut self, text: &str) -> Result<(), Unlike> {
        self.eat(text.as_bytes())
    }

    fn string(&mut self, text: &str) -> Result<(), Unlike> {
        self.eat(b"\"")?;
        self.eat(text.as_bytes())?;
        self.eat(b"\"")?;
        if has_escapes(text) { Err(Unlike) } else { Ok(()) }
    }

    fn number(self, number: impl TryInto<u64>) -> Result<(), Unlike> {
        /// Of [`MAX_EXACT`].
        const MOST_DIGITS: usize = 16;
        let number = number.try_into().map_err(|_| Unlike)?;
        let len = self.rest.iter().take(MOST_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(len);
        let spelled = digits.iter().fold(0_u64, |sum, digit| sum.wrapping_mul(10) + u64::from(digit - b'0'));
        let padded = len == 0 || len > MOST_DIGITS || (len > 1 && digits[0] == b'0');
        if padded || spelled != number || number > MAX_EXACT {
            return Err(Unlike);
        }
        *self.rest = rest;
        Ok(())
    }

    fn open(mut self, begin: &[u8], end: &'static [u8]) -> Result<Compound<'a, 'b>, Unlike> {
        self.eat(begin)?;
        Ok(Compound { rest: self.rest, end, begun: false, last: &[] })
    }

    /// An object whose only key names the variant.
    fn variant(&mut self, variant: &str) -> Result<(), Unlike> {
        self.eat(b"{")?;
        self.string(variant)?;
        self.eat(b":")
    }
}

/// A list or an object in the middle.
struct Compound<'a, 'b> {
    rest: &'a mut &'b [u8],
    end: &'static [u8],
    begun: bool,
    /// The last key, with its quotes.
    last: &'b [u8],
}

impl<'b> Compound<'_, 'b> {
    fn next(&mut self) -> Compare<'_, 'b> {
        Compare { rest: self.rest }
    }

    fn comma(&mut self) -> Result<(), Unlike> {
        if std::mem::replace(&mut self.begun, true) { self.next().eat(b",") } else { Ok(()) }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unlike> {
        self.comma()?;
        value.serialize(self.next())
    }

    /// A key that follows the last one in the order of bytes, which for ASCII is the canonical one.
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unlike> {
        self.comma()?;
        let before = *self.rest;
        key.serialize(self.next())?;
        let spelled = &before[..before.len() - self.rest.len()];
        // A key that another one begins with ends in its quote where that goes on, so both are looked at without.
        let bare = |key: &'b [u8]| key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
        let follows = self.last.is_empty() || bare(self.last) < bare(spelled);
        if spelled.first() != Some(&b'"') || !spelled.is_ascii() || !follows {
            return Err(Unlike);
        }
        self.last = spelled;
        self.next().eat(b":")
    }

    fn close(mut self) -> Result<(), Unlike> {
        let end = self.end;
        self.next().eat(end)
    }
}

impl<'a, 'b> ser::Serializer for Compare<'a, 'b> {
    type Ok = ();
    type Error = Unlike;
    type SerializeSeq = Compound<'a, 'b>;
    type SerializeTuple = Compound<'a, 'b>;
    type SerializeTupleStruct = Compound<'a, 'b>;
    type SerializeTupleVariant = Compound<'a, 'b>;
    type SerializeMap = Compound<'a, 'b>;
    type SerializeStruct = Compound<'a, 'b>;
    type SerializeStructVariant = Compound<'a, 'b>;

    fn serialize_bool(self, value: bool) -> Result<(), Unlike> {
        self.literal(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Unlike> {
        self.number(value)
    }

    fn serialize_f32(self, _: f32) -> Result<(), Unlike> {
        Err(Unlike)
    }

    fn serialize_f64(self, _: f64) -> Result<(), Unlike> {
        Err(Unlike)
    }

    fn serialize_char(mut self, value: char) -> Result<(), Unlike> {
        self.string(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(mut self, value: &str) -> Result<(), Unlike> {
        self.string(value)
    }

    fn collect_str<T: fmt::Display + ?Sized>(mut self, value: &T) -> Result<(), Unlike> {
        self.eat(b"\"")?;
        write!(Texts(&mut self), "{value}").map_err(|_| Unlike)?;
        self.eat(b"\"")
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Unlike> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Unlike> {
        self.literal("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unlike> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unlike> {
        self.literal("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unlike> {
        self.literal("null")
    }

    fn serialize_unit_variant(mut self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Unlike> {
        self.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Unlike> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unlike> {
        self.variant(variant)?;
        value.serialize(Compare { rest: &mut *self.rest })?;
        self.eat(b"}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'a, 'b>, Unlike> {
        self.open(b"[", b"]")
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'a, 'b>, Unlike> {
        self.open(b"[", b"]")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'a, 'b>, Unlike> {
        self.open(b"[", b"]")
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a, 'b>, Unlike> {
        self.variant(variant)?;
        self.open(b"[", b"]}")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'a, 'b>, Unlike> {
        self.open(b"{", b"}")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Compound<'a, 'b>, Unlike> {
        self.open(b"{", b"}")
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a, 'b>, Unlike> {
        self.variant(variant)?;
        self.open(b"{", b"}}")
    }
}

/// A text that comes in parts.
struct Texts<'c, 'a, 'b>(&'c mut Compare<'a, 'b>);

impl fmt::Write for Texts<'_, '_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let same = self.0.eat(part.as_bytes()).is_ok() && !has_escapes(part);
        if same { Ok(()) } else { Err(fmt::Error) }
    }
}

impl ser::SerializeSeq for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unlike> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

impl ser::SerializeTuple for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unlike> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

impl ser::SerializeTupleStruct for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unlike> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

impl ser::SerializeTupleVariant for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unlike> {
        self.item(value)
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

impl ser::SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unlike> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unlike> {
        value.serialize(self.next())
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

impl ser::SerializeStruct for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unlike> {
        self.key(key)?;
        value.serialize(self.next())
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

impl ser::SerializeStructVariant for Compound<'_, '_> {
    type Ok = ();
    type Error = Unlike;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unlike> {
        self.key(key)?;
        value.serialize(self.next())
    }

    fn end(self) -> Result<(), Unlike> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::record::Judged;

    /// A field out of order would be read right all the same, and every turn would be written to be read.
    #[test]
    fn what_is_read_with_every_turn_needs_no_writing() {
        let entry = concat!(
            r#"{"body":{"turn":{"agent":"counter","budget":{"bytes":67108864,"effects":100000,"fuel":2000000000,"memory":"#,
            r#"134217728,"wall_ms":30000},"component":"281ed95dfb7a9004209a6da2aaf94d8ff7570aa1fe83f6c2f97fba322f0910ec","#,
            r#""ending":{"replied":{"body":"dG90YWw9MQ==","content_type":"text/plain; charset=utf-8"}},"engine":"#,
            r#""8685697a8c0f85214a63b11981a371d491fefe576673208097ac8841dab8e543","fuel":7798,"grants":["storage","log","#,
            r#""clock","random"],"image_after":null,"image_before":null,"input":{"body":"YWRkIDE=","content_type":"#,
            r#""text/plain","sender":null},"judged":"36279312a6062654df0ee2b6c93f274c10feedc6d012b8b4c34af4fe70135617","#,
            r#""previous":"ea33c8df7af35b9e8e43b1172bfc9487bb76180f8152e2ae9d4f85423f8ba1c0","tape":[{"effect":{"key":"#,
            r#""total","kind":"storage.set","value":"MQ=="},"outcome":{"done":{"version":1}},"ruling":0}],"turn":1}},"#,
            r#""prev":"ea33c8df7af35b9e8e43b1172bfc9487bb76180f8152e2ae9d4f85423f8ba1c0","seq":4,"time":1794919991104}"#,
        );
        let read: Entry = serde_json::from_str(entry).unwrap();
        assert!(is_form_of(entry.as_bytes(), &read));
        let judged = concat!(
            r#"{"caps":{"at_cap":"pause","currency":null,"day":{"bytes_out":7,"effects":9},"per_action":null,"rails":[],"#,
            r#""run":{},"total":{},"turn":{}},"day":20774,"labels":["untrusted"],"rulings":[{"asked":[],"risk":{"score":50,"#,
            r#""terms":[{"adds":50,"name":"own-write"}],"tier":"low"},"rules":["own-storage"],"under":{"facts":{"device":"#,
            r#"null,"labels":[],"run":"counter-1","spent":0,"tier":"A","time":1794919991000,"trust":80},"rulebook":"#,
            r#""462b95d9f66cbcf75dc4dea67a7d9dc71d8b6929a914c60c11007bb98850e7eb","switches":{"all":null,"spend":null}},"#,
            r#""warnings":[]}],"spending":{"day":20774,"holder":"agent:counter","next":3,"open":[],"runs":{},"today":{"#,
            r#""day":20774,"used":{"bytes_out":{"spent":1},"effects":{"spent":2},"fuel":{"spent":3},"memory":{"spent":4},"#,
            r#""money:EUR":{"spent":5},"output_bytes":{"spent":6},"wall_ms":{"spent":7}}},"total":{"day":20774,"used":{}},"#,
            r#""turns":{}}}"#,
        );
        let read: Judged = serde_json::from_str(judged).unwrap();
        assert!(is_form_of(judged.as_bytes(), &read));
    }
}
