//! Derives the memory accesses of an instruction: the address for each lane, and the registers with the data.

use std::sync::Arc;

use crate::{
    ops::{
        atomic::{Atomic, returns_old_value},
        buffer, has_no_effect,
        image::{self, Action},
        lds,
        memory::{self, Location, Segment, Transfer},
        scalar_memory,
        to_lds::ToLds,
        transpose, typed,
    },
    source::Source,
    text::{Text, Unsupported},
    wave::Wave,
};

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads the location.
    Load,
    /// Writes the location.
    Store,
    /// Reads and writes the location in one step.
    Atomic,
}

impl Kind {
    /// Returns the name of the kind, for messages.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Load => "read",
            Kind::Store => "write",
            Kind::Atomic => "atomic",
        }
    }
}

/// Function that returns the location that a lane accesses; `None` if the instruction skips the lane.
type Locate = Box<dyn Fn(&Wave, usize) -> Option<Location> + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Consecutive vector registers, given by the number of the first one.
    Rows(usize),
    /// Upper half of the vector register with this number. The access keeps the lower half.
    UpperHalf(usize),
    /// Consecutive scalar registers, given by the number of the first one.
    Scalars(u16),
    /// No register: a load from memory to the LDS, or a result that is not used.
    Nothing,
}

/// One of the accesses that an instruction makes, with a fixed number of bytes per lane. The data is in consecutive
/// registers.
pub struct Piece {
    pub kind: Kind,
    pub(crate) data: Data,
    pub bytes: u64,
    pub(crate) returned: Data,
    /// True if the access is made once for the whole wave instead of once per lane.
    pub(crate) uniform: bool,
    /// True for an atomic that replaces the value: it stores its operand, whatever the old value is.
    pub(crate) exchange: bool,
    locate: Locate,
}

impl Piece {
    fn new(
        kind: Kind,
        data: Data,
        bytes: u64,
        locate: impl Fn(&Wave, usize) -> Option<Location> + Send + Sync + 'static,
    ) -> Piece {
        let locate = Box::new(locate);
        let (uniform, exchange) = (false, false);
        Piece { kind, data, bytes, returned: Data::Nothing, uniform, exchange, locate }
    }

    fn uniform(mut self) -> Piece {
        self.uniform = true;
        self
    }

    fn atomic(self, name: &str, returned: Option<usize>) -> Piece {
        let exchange = ["swap", "wrxchg", "storexchg"].iter().any(|start| name.starts_with(start));
        Piece { returned: returned.map_or(Data::Nothing, Data::Rows), exchange, ..self }
    }

    pub fn of(&self, wave: &Wave, lane: usize) -> Option<Location> {
        (self.locate)(wave, lane)
    }
}

fn transferred(transfer: Transfer, row: usize) -> (Data, u64) {
    let bytes = buffer::bytes(transfer);
    match transfer {
        Transfer::Half { high: true, keep: true, .. } => (Data::UpperHalf(row), bytes),
        _ => (Data::Rows(row), bytes),
    }
}

/// Returns the accesses of an instruction. The list is empty if the instruction does not access memory.
pub fn pieces(text: &Text) -> Result<Vec<Piece>, Unsupported> {
    match text.mnemonic.split_once('_') {
        Some(("global", rest)) => vector(text, Segment::Global, rest),
        Some(("flat", rest)) => vector(text, Segment::Flat, rest),
        Some(("scratch", rest)) => vector(text, Segment::Scratch, rest),
        Some(("buffer", rest)) => match typed::Access::parse(text, rest) {
            Some(access) => Ok(elements(access?)),
            None => buffers(text, rest),
        },
        Some(("image", rest)) => images(text, rest),
        Some(("ds", rest)) => local(text, rest),
        Some(("s", rest)) => scalars(text, rest),
        _ => Ok(Vec::new()),
    }
}

/// Handles an unknown memory instruction. Returns an empty list if the instruction only operates on caches. Otherwise
/// returns an error, because the instruction may access anything.
fn nothing(text: &Text) -> Result<Vec<Piece>, Unsupported> {
    if has_no_effect(&text.mnemonic) { Ok(Vec::new()) } else { Err(Unsupported) }
}

fn vector(text: &Text, segment: Segment, name: &str) -> Result<Vec<Piece>, Unsupported> {
    let moves = |kind, transfer, row, address: memory::Address| {
        let (data, bytes) = transferred(transfer, row);
        vec![Piece::new(kind, data, bytes, move |wave, lane| Some(address.of(wave, lane)))]
    };
    if let Some(name) = name.strip_prefix("load_tr_") {
        let bytes = if name == "b64" { 8 } else { 16 };
        let address = memory::Address::parse(text, segment, 1, 2)?;
        let of = move |wave: &Wave, lane| Some(address.of(wave, lane));
        return Ok(vec![Piece::new(Kind::Load, Data::Nothing, bytes, of)]);
    }
    if let (Segment::Global, Some(name)) = (segment, name.strip_prefix("load_lds_")) {
        return Ok(to_lds(ToLds::of_global(text, name)?));
    }
    if let Some(name) = name.strip_prefix("load_") {
        let transfer = Transfer::parse_load(name, text.site.arch).ok_or(Unsupported)?;
        let address = memory::Address::parse(text, segment, 1, 2)?;
        return Ok(moves(Kind::Load, transfer, text.row(0, transfer.words())?, address));
    }
    if let Some(name) = name.strip_prefix("store_") {
        let transfer = Transfer::parse(name).ok_or(Unsupported)?;
        let address = memory::Address::parse(text, segment, 0, 2)?;
        return Ok(moves(Kind::Store, transfer, text.row(1, transfer.words())?, address));
    }
    let Some(name) = name.strip_prefix("atomic_") else { return nothing(text) };
    let atomic = Atomic::parse(name).ok_or(Unsupported)?;
    let returned = if returns_old_value(text) { Some(text.row(0, atomic.words())?) } else { None };
    let first = usize::from(returned.is_some());
    let address = memory::Address::parse(text, segment, first, first + 2)?;
    let data = Data::Rows(text.row(first + 1, atomic.data_words())?);
    let bytes = u64::from(atomic.words()) * 4;
    let piece =
        Piece::new(Kind::Atomic, data, bytes, move |wave, lane| Some(address.of(wave, lane)));
    Ok(vec![piece.atomic(name, returned)])
}

fn to_lds(moved: ToLds) -> Vec<Piece> {
    let piece = |word| {
        let from = move |wave: &Wave, lane| moved.source(wave, lane, word);
        let to = move |wave: &Wave, lane| Some(moved.target(wave, lane, word));
        [
            Piece::new(Kind::Load, Data::Nothing, 4, from),
            Piece::new(Kind::Store, Data::Nothing, 4, to),
        ]
    };
    (0..moved.words).flat_map(piece).collect()
}

/// Returns the accesses of a buffer instruction. There is one access per dword, because hardware checks the range of a
/// buffer dword by dword.
fn buffers(text: &Text, name: &str) -> Result<Vec<Piece>, Unsupported> {
    if text.has("lds") {
        return Ok(to_lds(ToLds::of_buffer(text, name)?));
    }
    let moves = |kind, transfer: Transfer, row: usize, address: buffer::Address| {
        let (part, step) = buffer::parts(transfer);
        let words = 0..usize::from(transfer.words());
        let piece = words.map(|word| {
            let (data, bytes) = transferred(part, row + word);
            let place = move |wave: &Wave, lane| address.of(wave, lane, 4 * word as u64, step);
            Piece::new(kind, data, bytes, place)
        });
        piece.collect()
    };
    if let Some(name) = name.strip_prefix("load_") {
        let transfer = Transfer::parse_load(name, text.site.arch).ok_or(Unsupported)?;
        let row = text.row(0, transfer.words())?;
        return Ok(moves(Kind::Load, transfer, row, buffer::Address::parse(text, 1)?));
    }
    if let Some(name) = name.strip_prefix("store_") {
        let transfer = Transfer::parse(name).ok_or(Unsupported)?;
        let row = text.row(0, transfer.words())?;
        return Ok(moves(Kind::Store, transfer, row, buffer::Address::parse(text, 1)?));
    }
    let Some(name) = name.strip_prefix("atomic_") else { return nothing(text) };
    let atomic = Atomic::parse(name).ok_or(Unsupported)?;
    let row = text.row(0, atomic.data_words())?;
    let address = buffer::Address::parse(text, 1)?;
    let bytes = u64::from(atomic.words()) * 4;
    let place = move |wave: &Wave, lane| address.of(wave, lane, 0, bytes);
    let piece = Piece::new(Kind::Atomic, Data::Rows(row), bytes, place);
    Ok(vec![piece.atomic(name, returns_old_value(text).then_some(row))])
}

/// Possible sizes of texels and buffer elements in bytes. The actual size is in the descriptor, which is known only at
/// run time. Therefore an instruction has one piece for each size, and only the piece with the right size is active.
const TEXELS: [u64; 5] = [1, 2, 4, 8, 16];

fn elements(access: typed::Access) -> Vec<Piece> {
    let kind = if access.is_load { Kind::Load } else { Kind::Store };
    let piece = |bytes: u64| {
        let place = move |wave: &Wave, lane| {
            let (format, _) = access.format(wave)?;
            let fits = format.bytes() as u64 == bytes;
            access.of(wave, lane, format.bytes()).filter(|_| fits).map(Location::Global)
        };
        Piece::new(kind, Data::Nothing, bytes, place)
    };
    TEXELS.into_iter().map(piece).collect()
}

/// Returns the accesses of an image instruction. The registers of the instruction contain values that were converted or
/// filtered, so they differ from the bytes in memory.
fn images(text: &Text, name: &str) -> Result<Vec<Piece>, Unsupported> {
    let access = Arc::new(image::Access::parse(text)?);
    let (kind, texels) = match access.action {
        Action::Load => (Kind::Load, 1),
        Action::Sample | Action::Gather => (Kind::Load, 8),
        Action::Store => (Kind::Store, 1),
        Action::Atomic(_) => (Kind::Atomic, 1),
    };
    let piece = |bytes: u64, texel: usize| {
        let access = access.clone();
        let place = move |wave: &Wave, lane| {
            let image = access.image(wave).ok()?;
            let fits = image.format.bytes() as u64 == bytes;
            access.place(wave, lane, &image, texel).filter(|_| fits).map(Location::Global)
        };
        Piece::new(kind, Data::Nothing, bytes, place)
    };
    if let Action::Atomic(atomic) = access.action {
        let row = text.row(0, atomic.data_words())?;
        let piece = Piece { data: Data::Rows(row), ..piece(4 * u64::from(atomic.words()), 0) };
        let name = name.strip_prefix("atomic_").unwrap_or(name);
        return Ok(vec![piece.atomic(name, returns_old_value(text).then_some(row))]);
    }
    Ok(TEXELS.iter().flat_map(|bytes| (0..texels).map(|at| piece(*bytes, at))).collect())
}

fn local(text: &Text, name: &str) -> Result<Vec<Piece>, Unsupported> {
    // These instructions do not access memory or the LDS.
    if ["bpermute", "permute", "swizzle", "nop", "gws_"].iter().any(|start| name.starts_with(start))
    {
        return Ok(Vec::new());
    }
    if name == "append" || name == "consume" {
        let counter = lds::counter(text)?;
        let place = move |wave: &Wave, _| Some(counter(wave));
        let piece = Piece::new(Kind::Atomic, Data::Nothing, 4, place);
        return Ok(vec![piece.atomic(name, Some(text.row(0, 1)?)).uniform()]);
    }
    let at = |address: Source, offset: u32| {
        move |wave: &Wave, lane| Some(lds::at(address.word(wave, lane, 0), offset))
    };
    for (prefix, kind) in [
        ("read2", Kind::Load),
        ("load_2addr_", Kind::Load),
        ("write2", Kind::Store),
        ("store_2addr_", Kind::Store),
    ] {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        let (words, offsets) = lds::two_offsets(text, rest)?;
        let load = kind == Kind::Load;
        let address = text.plain_source::<u32>(usize::from(load))?;
        let rows = if load {
            let row = text.row(0, words * 2)?;
            [row, row + usize::from(words)]
        } else {
            [text.row(1, words)?, text.row(2, words)?]
        };
        let piece = |(row, offset)| {
            let place = at(address.clone(), offset);
            Piece::new(kind, Data::Rows(row), u64::from(words) * 4, place)
        };
        return Ok(rows.into_iter().zip(offsets).map(piece).collect());
    }
    let offset = text.number("offset")? as u32;
    if let Some(transposed) = transpose::Local::parse(name) {
        let place = at(text.plain_source::<u32>(1)?, offset);
        return Ok(vec![Piece::new(Kind::Load, Data::Nothing, transposed.bytes(), place)]);
    }
    if let Some(rest) = name.strip_prefix("read_").or(name.strip_prefix("load_")) {
        let transfer = Transfer::parse_load(rest, text.site.arch).ok_or(Unsupported)?;
        let (data, bytes) = transferred(transfer, text.row(0, transfer.words())?);
        let place = at(text.plain_source::<u32>(1)?, offset);
        return Ok(vec![Piece::new(Kind::Load, data, bytes, place)]);
    }
    if let Some(rest) = name.strip_prefix("write_").or(name.strip_prefix("store_")) {
        let transfer = Transfer::parse(rest).ok_or(Unsupported)?;
        let (data, bytes) = transferred(transfer, text.row(1, transfer.words())?);
        let place = at(text.plain_source::<u32>(0)?, offset);
        return Ok(vec![Piece::new(Kind::Store, data, bytes, place)]);
    }
    let words = if name.starts_with("cmpst") {
        1 + u16::from(name.ends_with("64"))
    } else {
        lds::atomic(name).ok_or(Unsupported)?.words()
    };
    let first = usize::from(name.contains("_rtn"));
    let returned = if first == 1 { Some(text.row(0, words)?) } else { None };
    let place = at(text.plain_source::<u32>(first)?, offset);
    let data = Data::Rows(text.row(first + 1, words)?);
    let piece = Piece::new(Kind::Atomic, data, u64::from(words) * 4, place);
    Ok(vec![piece.atomic(name, returned)])
}

fn scalars(text: &Text, name: &str) -> Result<Vec<Piece>, Unsupported> {
    let (kind, suffix) = match name.split_once('_') {
        Some(("load", suffix)) => (Kind::Load, suffix),
        Some(("store", suffix)) => (Kind::Store, suffix),
        Some(("atomic", suffix)) => (Kind::Atomic, suffix),
        Some(("buffer", rest)) => match rest.strip_prefix("load_") {
            Some(suffix) => (Kind::Load, suffix),
            None => return Err(Unsupported),
        },
        _ => return Ok(Vec::new()),
    };
    let (bytes, aligned) = if kind == Kind::Atomic {
        (u64::from(Atomic::parse(suffix).ok_or(Unsupported)?.words()) * 4, false)
    } else {
        scalar_memory::bytes(suffix).ok_or(Unsupported)?
    };
    let data = text.scalar(0, bytes.div_ceil(4) as u16)?;
    let is_buffer = name.starts_with("buffer");
    let address = scalar_memory::Address::parse(text, is_buffer, aligned)?;
    let place = move |wave: &Wave, _| address.of(wave, bytes).map(Location::Global);
    let mut piece = Piece::new(kind, Data::Scalars(data), bytes, place).uniform();
    if kind == Kind::Atomic && text.has("glc") {
        piece.returned = Data::Scalars(data);
    }
    Ok(vec![piece])
}

/// Returns true if an atomic on memory writes the old value to a register.
pub(crate) fn returns(text: &Text) -> bool {
    returns_old_value(text)
}
