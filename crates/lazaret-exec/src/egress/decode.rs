//! A response's body as it comes in: counted, and unpacked if it is packed in a way that is known.
//!
//! gzip, deflate and Brotli, one of them, once. What is packed twice is refused; what is packed in another way is
//! handed on as it is, with the header that says so.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use lazaret_gate::Target;

use super::{EgressError, Limits};

/// What is unpacked at a time.
const PIECE: usize = 16 << 10;

/// A body that is being read.
pub(super) struct Unpacked<'a> {
    target: &'a Target,
    limits: &'a Limits,
    /// How much may come out, if that is less than is taken of anybody.
    leave: Option<usize>,
    packing: Packing,
    /// Bytes as they came.
    taken: usize,
}

enum Packing {
    None(Vec<u8>),
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// Some send it with a frame around, as written, and some without: the first two bytes tell.
    Deflate(Vec<u8>, Sink),
    Inflate(Box<Inflate>),
    Brotli(Box<DecompressorWriter<Sink>>),
}

/// Where unpacked bytes go, as long as there aren't too many.
#[derive(Default)]
struct Sink {
    bytes: Vec<u8>,
    /// Bytes that were put in, packed.
    taken: usize,
    most: usize,
    ratio: usize,
    ratio_from: usize,
    full: Option<Full>,
}

#[derive(Clone, Copy)]
enum Full {
    Size,
    Ratio,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.bytes.len() + bytes.len();
        if len > self.most {
            self.full = Some(Full::Size);
        } else if len > self.ratio_from && len > self.taken.saturating_mul(self.ratio) {
            self.full = Some(Full::Ratio);
        }
        if self.full.is_some() {
            return Err(io::Error::other("too much"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Deflate, which the library's own writer takes for done wherever it stops.
struct Inflate {
    state: Decompress,
    sink: Sink,
    ended: bool,
}

impl Write for Inflate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut rest, mut piece) = (bytes, [0; PIECE]);
        while !self.ended {
            let (taken, made) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(rest, &mut piece, FlushDecompress::None)?;
            let taken = usize::try_from(self.state.total_in() - taken).unwrap_or(rest.len());
            let made = usize::try_from(self.state.total_out() - made).unwrap_or(PIECE);
            self.sink.write_all(&piece[..made.min(PIECE)])?;
            rest = &rest[taken.min(rest.len())..];
            self.ended = status == Status::StreamEnd;
            if taken == 0 && made == 0 && !self.ended {
                break;
            }
        }
        if self.ended && !rest.is_empty() {
            return Err(io::Error::other("it goes on after its end"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> Unpacked<'a> {
    /// `packing` are the values of `Content-Encoding`, or nothing if what comes is to be left as it is; `most` is how much may
    /// come out.
    pub(super) fn new(
        packing: &[&[u8]],
        most: Option<usize>,
        target: &'a Target,
        limits: &'a Limits,
    ) -> Result<Self, EgressError> {
        let leave = most.filter(|most| *most < limits.body);
        let most = leave.unwrap_or(limits.body);
        let sink = Sink { most, ratio: limits.ratio, ratio_from: limits.ratio_from, ..Sink::default() };
        let names = packing.iter().map(|value| String::from_utf8_lossy(value).to_ascii_lowercase());
        let names: Vec<String> = names
            .flat_map(|value| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>())
            .filter(|name| !name.is_empty() && name != "identity")
            .collect();
        let packing = match names.as_slice() {
            [] => Packing::None(Vec::new()),
            [name] => match name.as_str() {
                "gzip" | "x-gzip" => Packing::Gzip(Box::new(MultiGzDecoder::new(sink))),
                "deflate" => Packing::Deflate(Vec::new(), sink),
                "br" => Packing::Brotli(Box::new(DecompressorWriter::new(sink, PIECE))),
                _ => Packing::None(Vec::new()),
            },
            many => {
                let why = format!("it is packed {} times over", many.len());
                return Err(EgressError::Packing { host: target.host_text().to_owned(), why });
            }
        };
        Ok(Self { target, limits, leave, packing, taken: 0 })
    }

    /// Whether bytes come out other than they went in.
    pub(super) fn is_packed(&self) -> bool {
        !matches!(self.packing, Packing::None(_))
    }

    /// How long it will be as it comes, if that is known.
    pub(super) fn expect(&self, length: Option<u64>) -> Result<(), EgressError> {
        let too_long = length.is_some_and(|length| length > self.most() as u64);
        if too_long { Err(self.too_large()) } else { Ok(()) }
    }

    /// How many bytes may come. What is packed may be larger so than unpacked, and is held to what is taken of anybody.
    fn most(&self) -> usize {
        self.leave.filter(|_| !self.is_packed()).unwrap_or(self.limits.body)
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), EgressError> {
        self.taken += bytes.len();
        if self.taken > self.most() {
            return Err(self.too_large());
        }
        if let Packing::Deflate(first, sink) = &mut self.packing {
            first.extend_from_slice(bytes);
            let [one, two, ..] = first[..] else { return Ok(()) };
            let framed = one & 0x0f == 8 && (u16::from(one) << 8 | u16::from(two)) % 31 == 0;
            let (first, sink) = (std::mem::take(first), std::mem::take(sink));
            self.packing = Packing::Inflate(Box::new(Inflate { state: Decompress::new(framed), sink, ended: false }));
            return self.unpack(&first);
        }
        self.unpack(bytes)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<(), EgressError> {
        let taken = self.taken;
        let done = match &mut self.packing {
            Packing::None(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            Packing::Deflate(..) => Ok(()),
            Packing::Gzip(decoder) => into(decoder.as_mut(), MultiGzDecoder::get_mut, taken, bytes),
            Packing::Inflate(decoder) => into(decoder.as_mut(), |decoder| &mut decoder.sink, taken, bytes),
            Packing::Brotli(decoder) => into(decoder.as_mut(), DecompressorWriter::get_mut, taken, bytes),
        };
        done.map_err(|(full, why)| self.fault(full, &why))
    }

    /// The whole body. What was packed must have come to its end.
    pub(super) fn end(mut self) -> Result<Vec<u8>, EgressError> {
        // A response without a body may still say how it would be packed.
        if self.taken == 0 {
            return Ok(Vec::new());
        }
        let (done, sink) = match &mut self.packing {
            Packing::None(body) => return Ok(std::mem::take(body)),
            Packing::Deflate(..) => (Err(io::Error::other("it ends at once")), Sink::default()),
            Packing::Gzip(decoder) => (decoder.try_finish(), std::mem::take(decoder.get_mut())),
            Packing::Inflate(decoder) if decoder.ended => (Ok(()), std::mem::take(&mut decoder.sink)),
            Packing::Inflate(_) => (Err(io::Error::other("it ends early")), Sink::default()),
            Packing::Brotli(decoder) => (decoder.close(), std::mem::take(decoder.get_mut())),
        };
        match done {
            Ok(()) => Ok(sink.bytes),
            Err(why) => Err(self.fault(sink.full, &why)),
        }
    }

    fn too_large(&self) -> EgressError {
        let host = self.target.host_text().to_owned();
        match self.leave.filter(|_| !self.is_packed()) {
            Some(limit) => EgressError::OverLeave { host, limit },
            None => EgressError::BodyTooLarge { host, limit: self.limits.body },
        }
    }

    fn fault(&self, full: Option<Full>, why: &io::Error) -> EgressError {
        let host = self.target.host_text().to_owned();
        match (full, self.leave) {
            (Some(Full::Size), Some(limit)) => EgressError::OverLeave { host, limit },
            (Some(Full::Size), None) => EgressError::UnpackedTooLarge { host, limit: self.limits.body },
            (Some(Full::Ratio), _) => EgressError::Ratio { host, limit: self.limits.ratio },
            (None, _) => EgressError::Packing { host, why: why.to_string() },
        }
    }
}

/// Puts packed bytes in; if that fails, says whether it is because too many came out.
fn into<D: Write>(
    decoder: &mut D,
    sink: fn(&mut D) -> &mut Sink,
    taken: usize,
    bytes: &[u8],
) -> Result<(), (Option<Full>, io::Error)> {
    sink(decoder).taken = taken;
    decoder.write_all(bytes).map_err(|why| (sink(decoder).full, why))
}
