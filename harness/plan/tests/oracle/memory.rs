//! Memory that is modelled byte by byte, and the effect of each call on it. This code was written from the sources of
//! the kernels and the documentation of the calls. It shares two definitions with the crate `plan`: the pattern of a
//! fill, and the small numbers.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Arg, Box3d, BufferAddress, Call, Dtype, MatmulProblem, Operands, ScalarType};

/// An allocation, as the name of the buffer and a number that differs between allocations.
pub(crate) type Block = (String, u32);

pub(crate) type At = (Block, u64);

type Byte = Option<u8>;

pub(crate) struct Memory {
    blocks: BTreeMap<Block, Vec<Byte>>,
    pub(crate) written: BTreeSet<Block>,
    /// Blocks that may contain unknown bytes. A write of a whole block removes the block from the set.
    pub(crate) doubtful: BTreeSet<Block>,
    /// Bytes that were read (`read`) and written (`stored`) since the two sets were last cleared.
    pub(crate) read: BTreeSet<At>,
    pub(crate) stored: BTreeSet<At>,
}

pub(crate) struct Illegal(pub(crate) &'static str);

pub(crate) type Done<T = ()> = Result<T, Illegal>;

/// Function that maps the name of a buffer to its current allocation.
pub(crate) type Blocks<'a> = &'a dyn Fn(&str) -> Block;

impl Memory {
    pub(crate) fn new() -> Self {
        Memory {
            blocks: BTreeMap::new(),
            written: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            read: BTreeSet::new(),
            stored: BTreeSet::new(),
        }
    }

    pub(crate) fn allocate(&mut self, block: Block, bytes: u64) {
        self.doubtful.insert(block.clone());
        self.blocks.insert(block, vec![None; bytes as usize]);
    }

    pub(crate) fn len(&self, block: &Block) -> u64 {
        self.blocks.get(block).map_or(0, |bytes| bytes.len() as u64)
    }

    pub(crate) fn load(&mut self, block: &Block, at: u64) -> Done<Byte> {
        self.read.insert((block.clone(), at));
        let bytes = self.blocks.get(block).ok_or(Illegal("not allocated"))?;
        bytes.get(at as usize).copied().ok_or(Illegal("read outside"))
    }

    pub(crate) fn store(&mut self, block: &Block, at: u64, byte: Byte) -> Done {
        self.stored.insert((block.clone(), at));
        let bytes = self.blocks.get_mut(block).ok_or(Illegal("not allocated"))?;
        *bytes.get_mut(at as usize).ok_or(Illegal("written outside"))? = byte;
        self.written.insert(block.clone());
        if byte.is_none() {
            self.doubtful.insert(block.clone());
        }
        Ok(())
    }

    fn load_word(&mut self, block: &Block, at: u64) -> Done<Option<u32>> {
        let mut word = Some(0);
        for n in 0..4 {
            let byte = self.load(block, at + n)?;
            word = word.zip(byte).map(|(word, byte)| word | u32::from(byte) << (8 * n));
        }
        Ok(word)
    }

    fn store_word(&mut self, block: &Block, at: u64, word: Option<u32>) -> Done {
        for n in 0..4 {
            self.store(block, at + n, word.map(|word| (word >> (8 * n)) as u8))?;
        }
        Ok(())
    }

    pub(crate) fn all(&self, block: &Block) -> Option<Vec<u8>> {
        self.blocks.get(block)?.iter().copied().collect()
    }

    pub(crate) fn apply(&mut self, call: &Call, occurrence: u32, of: Blocks<'_>) -> Done {
        match call {
            Call::Poison { buffer } => {
                let (block, was) = (of(buffer), self.written.contains(&of(buffer)));
                for at in 0..self.len(&block) {
                    self.store(&block, at, Some(0xA5))?;
                }
                // Poison does not initialise a block: a block that was uninitialised before the call still is.
                if !was {
                    self.written.remove(&block);
                }
                self.doubtful.remove(&block);
            }
            Call::Fill { buffer, stamp } => {
                let block = of(buffer);
                let mut bytes = vec![0; self.len(&block) as usize];
                plan::pattern(u64::from(occurrence) * (1 << 32) + u64::from(*stamp), &mut bytes);
                self.put(&block, &bytes)?;
            }
            Call::FillNumbers { buffer, dtype, stamp } => {
                let block = of(buffer);
                let elements = self.len(&block) / dtype.bytes();
                let mut bytes = vec![0; (elements * dtype.bytes()) as usize];
                let stamp = u64::from(occurrence) * (1 << 32) + u64::from(*stamp);
                plan::small_numbers(*dtype, stamp, &mut bytes);
                self.put(&block, &bytes)?;
                // The host writes the whole block.
                self.written.insert(block);
            }
            Call::Copy { to, from, bytes, .. } => self.rows(to, 0, from, 0, *bytes, 1, of)?,
            Call::Copy2d { to, to_pitch, from, from_pitch, width, height, .. } => {
                if *width > 0 && *height > 0 && (to_pitch < width || from_pitch < width) {
                    return Err(Illegal("a pitch below the width"));
                }
                self.rows(to, *to_pitch, from, *from_pitch, *width, *height, of)?;
            }
            Call::Copy3d { to, from, width, height, depth, .. } => {
                let size = [*width, *height, *depth];
                if size.contains(&0) {
                    return Ok(());
                }
                let (target, source) = (of(&to.buffer), of(&from.buffer));
                let (places, sources) = (in_box(to, size)?, in_box(from, size)?);
                self.must_be_written(&source)?;
                if target == source && places.iter().any(|at| sources.contains(at)) {
                    return Err(Illegal("source and target of the copy overlap"));
                }
                for (to, from) in places.into_iter().zip(sources) {
                    let byte = self.load(&source, from)?;
                    self.store(&target, to, byte)?;
                }
            }
            Call::SetRows { to, value, width, height, depth, .. } => {
                let size = [*width, *height, depth.unwrap_or(1)];
                if size.contains(&0) {
                    return Ok(());
                }
                for at in in_box(to, size)? {
                    self.store(&of(&to.buffer), at, Some(*value))?;
                }
            }
            Call::Set { to, value, words, bytes, .. } => {
                // cuMemsetD32: "dstDevice pointer must be 4-byte aligned"; the function counts 32-bit words.
                if *words && (to.offset % 4 != 0 || bytes % 4 != 0) {
                    return Err(Illegal("words that are not aligned"));
                }
                for n in 0..*bytes {
                    let shift = if *words { 8 * (n % 4) } else { 0 };
                    self.store(&of(&to.buffer), to.offset + n, Some((value >> shift) as u8))?;
                }
                self.whole(&of(&to.buffer), to.offset, *bytes);
            }
            // cuMemsetD16: the same rules apply to elements of two bytes.
            Call::SetHalves { to, value, count, .. } => {
                if to.offset % 2 != 0 {
                    return Err(Illegal("halves that are not aligned"));
                }
                for n in 0..*count {
                    for (at, byte) in (0..).zip(value.to_le_bytes()) {
                        self.store(&of(&to.buffer), to.offset + 2 * n + at, Some(byte))?;
                    }
                }
                self.whole(&of(&to.buffer), to.offset, 2 * count);
            }
            Call::HostFunc { buffer, .. } => {
                let block = of(buffer);
                self.must_be_written(&block)?;
                for at in 0..self.len(&block) {
                    let byte = self.load(&block, at)?;
                    self.store(&block, at, byte.map(|byte| byte.wrapping_add(1)))?;
                }
            }
            Call::RandGenerate { to, count, .. } => {
                for n in 0..4 * count {
                    self.store(&of(&to.buffer), to.offset + n, None)?;
                }
            }
            Call::Launch { kernel, grid, block, args, .. } => {
                self.launch(kernel, *grid, *block, args, of)?;
            }
            Call::BlasltMatmul { problem, operands, .. }
            | Call::RocblasGemm { problem, operands, .. } => {
                self.multiply(problem, operands, of)?
            }
            other => unreachable!("{other:?} does nothing to bytes"),
        }
        Ok(())
    }

    fn put(&mut self, block: &Block, bytes: &[u8]) -> Done {
        for (at, byte) in (0..).zip(bytes) {
            self.store(block, at, Some(*byte))?;
        }
        self.whole(block, 0, bytes.len() as u64);
        Ok(())
    }

    /// Removes a block from `doubtful` if the range covers the whole block and all its bytes are known.
    fn whole(&mut self, block: &Block, offset: u64, bytes: u64) {
        if offset == 0 && bytes == self.len(block) && self.all(block).is_some() {
            self.doubtful.remove(block);
        }
    }

    fn must_be_written(&self, block: &Block) -> Done {
        match self.written.contains(block) {
            true => Ok(()),
            false => Err(Illegal("read before it is written")),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "those of hipMemcpy2D")]
    fn rows(
        &mut self,
        to: &BufferAddress,
        to_pitch: u64,
        from: &BufferAddress,
        from_pitch: u64,
        width: u64,
        height: u64,
        of: Blocks<'_>,
    ) -> Done {
        let (target, source) = (of(&to.buffer), of(&from.buffer));
        self.must_be_written(&source)?;
        let mut bytes = Vec::new();
        for row in 0..height {
            for column in 0..width {
                let at = from.offset + row * from_pitch + column;
                bytes.push((to.offset + row * to_pitch + column, at, self.load(&source, at)?));
            }
        }
        let read: BTreeSet<u64> = bytes.iter().map(|(_, from, _)| *from).collect();
        for (at, _, byte) in bytes {
            if target == source && read.contains(&at) {
                return Err(Illegal("source and target of the copy overlap"));
            }
            self.store(&target, at, byte)?;
        }
        self.whole(&target, to.offset, if height == 1 { width } else { 0 });
        Ok(())
    }

    /// Executes the work-items of a launch one after the other, as the source of the kernel describes.
    pub(crate) fn launch(
        &mut self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
        of: Blocks<'_>,
    ) -> Done {
        let mut places = args.iter().filter_map(|arg| match arg {
            Arg::Address(place) => Some(place),
            _ => None,
        });
        let mut numbers = args.iter().filter_map(Arg::as_u32);
        let Some(out) = places.next() else { return Err(Illegal("no output")) };
        let (dst, dst_at) = (of(&out.buffer), out.offset);
        let source = places.next();
        if let Some(place) = source {
            self.must_be_written(&of(&place.buffer))?;
        }
        let (src, src_at) =
            source.map_or_else(|| (dst.clone(), 0), |place| (of(&place.buffer), place.offset));
        let n = u64::from(numbers.next().unwrap_or(0));
        let k = numbers.next().unwrap_or(0);
        let items: u64 = grid.iter().chain(&block).map(|x| u64::from(*x)).product();
        if source.is_some() && src == dst {
            let shared = |item: u64| match name {
                // Only one workgroup is launched, and a barrier separates its reads from its write.
                "sum_u32" => false,
                // Any work-item may add to any of the 16 bins.
                "histogram_u32" => in_elements((src_at + 4 * item, 4), (dst_at, 64)),
                _ => {
                    let size = if name == "copy_u8" { 1 } else { 4 };
                    let others = (0..items.min(n)).filter(|other| *other != item);
                    let read = (src_at + size * item, size);
                    others.into_iter().any(|i| in_elements(read, (dst_at + size * i, size)))
                }
            };
            if (0..items.min(n)).any(shared) {
                return Err(Illegal("an item reads what another one writes"));
            }
        }
        match name {
            "sum_u32" => {
                let mut sum = Some(0u32);
                for i in 0..n {
                    let x = self.load_word(&src, src_at + 4 * i)?;
                    sum = sum.zip(x).map(|(sum, x)| sum.wrapping_add(x));
                }
                return self.store_word(&dst, dst_at, sum);
            }
            "shuffle_u32" => return self.shuffle((&dst, dst_at), (&src, src_at), n, items),
            _ => {}
        }
        for i in 0..items {
            if i >= n {
                continue;
            }
            if name == "copy_u8" {
                let byte = self.load(&src, src_at + i)?;
                self.store(&dst, dst_at + i, byte)?;
                continue;
            }
            let x = if name == "fill_u32" { None } else { self.load_word(&src, src_at + 4 * i)? };
            let y = match name {
                "fill_u32" => Some(k.wrapping_add(i as u32)),
                "copy_u32" => x,
                "add_u32" => x.map(|x| x.wrapping_add(k)),
                "to_f32" => x.map(|x| ((x % 16) as f32).to_bits()),
                "variable_u32" => x.map(|x| x.wrapping_add(10u32.pow(i as u32 % 4))),
                "lcg_u32" => x.map(|mut x| {
                    for _ in 0..k {
                        x = x.wrapping_mul(1664525).wrapping_add(1013904223);
                    }
                    x
                }),
                "saxpy_f32" => {
                    let a = args.iter().find_map(|arg| match arg {
                        Arg::Number(a) if a.ty == ScalarType::F32 => Some(a.as_f64()),
                        _ => None,
                    });
                    let y = self.load_word(&dst, dst_at + 4 * i)?;
                    // f64 is exact here, except for the sum. The double rounding of the sum does not occur in these
                    // tests.
                    x.zip(y).zip(a).map(|((x, y), a)| {
                        let wide = |bits| f64::from(f32::from_bits(bits));
                        ((a * wide(x) + wide(y)) as f32).to_bits()
                    })
                }
                "histogram_u32" => {
                    // If it is unknown which bin is counted, all bins become unknown.
                    let bins = x.map_or(0..16, |x| u64::from(x % 16)..u64::from(x % 16) + 1);
                    for bin in bins {
                        let count = self.load_word(&dst, dst_at + 4 * bin)?;
                        let more = count.zip(x).map(|(count, _)| count.wrapping_add(1));
                        self.store_word(&dst, dst_at + 4 * bin, more)?;
                    }
                    continue;
                }
                other => unreachable!("{other}"),
            };
            self.store_word(&dst, dst_at + 4 * i, y)?;
        }
        Ok(())
    }

    /// Executes `shuffle_u32` in groups of 32 work-items, as the comment above the kernel's source describes.
    fn shuffle(
        &mut self,
        (dst, dst_at): (&Block, u64),
        (src, src_at): (&Block, u64),
        n: u64,
        items: u64,
    ) -> Done {
        let x = |memory: &mut Memory, i: u64| match i < n {
            true => memory.load_word(src, src_at + 4 * i),
            false => Ok(Some(0)),
        };
        let mut results = Vec::new();
        for i in 0..items.min(n) {
            let first = i - i % 32;
            let mut group = Vec::new();
            for lane in first..first + 32 {
                group.push(x(self, lane)?);
            }
            let lane = (i - first) as usize;
            let group: Option<Vec<u32>> = group.into_iter().collect();
            results.push((
                i,
                group.map(|x| {
                    let sum =
                        |lanes: &[u32]| lanes.iter().fold(0u32, |sum, x| sum.wrapping_add(*x));
                    // The last lane reads its own value.
                    let next = if lane == 31 { x[31] } else { x[lane + 1] };
                    sum(&x[..=lane])
                        .wrapping_sub(next)
                        .wrapping_add(x[lane ^ 5].wrapping_mul(3))
                        .wrapping_add(sum(&x).wrapping_mul(7))
                }),
            ));
        }
        for (i, y) in results {
            self.store_word(dst, dst_at + 4 * i, y)?;
        }
        Ok(())
    }

    /// Computes D = op(A) op(B), column-major, in integers. Supports only the types that this module can read and
    /// write.
    fn multiply(&mut self, problem: &MatmulProblem, operands: &Operands, of: Blocks<'_>) -> Done {
        let MatmulProblem { dtype, m, n, k, transpose_a, transpose_b, .. } = *problem;
        assert_eq!(dtype, Dtype::I8, "what is drawn");
        let (a, b, d) = (of(&operands.a), of(&operands.b), of(&operands.d));
        // rocblas_gemm_ex allows D to be C. Reference BLAS forbids D to be A or B.
        if d == a || d == b {
            return Err(Illegal("a product in the place of a factor"));
        }
        for block in [&a, &b] {
            self.must_be_written(block)?;
        }
        let mut results = Vec::new();
        for column in 0..n {
            for row in 0..m {
                let mut sum = Some(0i32);
                for i in 0..k {
                    let at_a = if transpose_a { row * k + i } else { i * m + row };
                    let at_b = if transpose_b { i * n + column } else { column * k + i };
                    let (x, y) = (self.load(&a, at_a)?, self.load(&b, at_b)?);
                    let product = x.zip(y).map(|(x, y)| i32::from(x as i8) * i32::from(y as i8));
                    sum = sum.zip(product).map(|(sum, product)| sum + product);
                }
                results.push((4 * (column * m + row), sum));
            }
        }
        for (at, sum) in results {
            self.store_word(&d, at, sum.map(|sum| sum as u32))?;
        }
        Ok(())
    }
}

/// Returns true if two ranges share a byte. Each range consists of its start and its length.
fn in_elements((a, of_a): (u64, u64), (b, of_b): (u64, u64)) -> bool {
    (a..a + of_a).any(|at| (b..b + of_b).contains(&at))
}

/// Returns the offset of every byte of a box, slice by slice and row by row. Source: hip/driver_types.h, hipPitchedPtr
/// and hipPos.
pub(crate) fn in_box(of: &Box3d, [width, height, depth]: [u64; 3]) -> Result<Vec<u64>, Illegal> {
    let [x, y, z] = of.at;
    if x + width > of.pitch {
        return Err(Illegal("a pitch below the width"));
    }
    if depth > 1 && y + height > of.rows {
        return Err(Illegal("a slice below the height"));
    }
    let mut found = Vec::new();
    for slice in z..z + depth {
        for row in y..y + height {
            for byte in x..x + width {
                found.push(slice * of.rows * of.pitch + row * of.pitch + byte);
            }
        }
    }
    Ok(found)
}
