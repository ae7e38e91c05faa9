//! Applies copies and memsets of rows and boxes to the buffers of the reference model.

use super::{Bytes, CurrentStep, Model, Ranges};
use crate::{Box3d, BufferAddress};

impl<'a, B: Bytes> Model<'a, B> {
    /// Copies `height` rows of `width` bytes. `to` and `from` contain the place of the first row, and the distance
    /// between two rows in bytes.
    pub(super) fn rows(
        &mut self,
        now: CurrentStep<'a>,
        (to, to_pitch): (&BufferAddress, u64),
        (from, from_pitch): (&BufferAddress, u64),
        width: u64,
        height: u64,
    ) {
        if width == 0 || height == 0 {
            return self.check_buffers(now, [&from.buffer, &to.buffer]);
        }
        if let Some(pitch) = [from_pitch, to_pitch].into_iter().find(|pitch| *pitch < width) {
            return self.report(
                now.step,
                format!("rows of {width} bytes do not fit into a pitch of {pitch} bytes"),
            );
        }
        let at = |place: &BufferAddress, pitch: u64, row: u64| BufferAddress {
            buffer: place.buffer.clone(),
            offset: place.offset.saturating_add(row.saturating_mul(pitch)),
        };
        for (place, pitch) in [(from, from_pitch), (to, to_pitch)] {
            if self.checked_range(now.step, &at(place, pitch, height - 1), width).is_none() {
                return;
            }
        }
        let rows = |place: &BufferAddress, pitch| {
            let first = place.offset;
            (0..height).map(move |row| first + row * pitch)
        };
        if to.buffer == from.buffer && overlap(rows(from, from_pitch), rows(to, to_pitch), width) {
            return self.report(now.step, "source and target of the copy overlap".to_owned());
        }
        for row in 0..height {
            let Some((data, unknown)) = self.read(now.step, &at(from, from_pitch, row), width)
            else {
                return;
            };
            self.write(now, &at(to, to_pitch, row), &data, &unknown);
        }
    }
}

impl<'a, B: Bytes> Model<'a, B> {
    pub(super) fn boxes(&mut self, now: CurrentStep<'a>, to: &Box3d, from: &Box3d, size: [u64; 3]) {
        if size.contains(&0) {
            return self.check_buffers(now, [&from.buffer, &to.buffer]);
        }
        if !self.check_box(now, from, size) || !self.check_box(now, to, size) {
            return;
        }
        let [width, height, depth] = size;
        let starts = |of: &Box3d| {
            let each = (0..depth).flat_map(|slice| (0..height).map(move |row| (row, slice)));
            each.map(|(row, slice)| of.offset(row, slice)).collect::<Vec<u64>>()
        };
        let (reads, writes) = (starts(from), starts(to));
        if to.buffer == from.buffer && overlap(reads.iter().copied(), writes.iter().copied(), width)
        {
            return self.report(now.step, "source and target of the copy overlap".to_owned());
        }
        for (from_offset, to_offset) in reads.into_iter().zip(writes) {
            let place = |of: &Box3d, offset| BufferAddress { buffer: of.buffer.clone(), offset };
            let Some((data, unknown)) = self.read(now.step, &place(from, from_offset), width)
            else {
                return;
            };
            self.write(now, &place(to, to_offset), &data, &unknown);
        }
    }

    pub(super) fn set_box(&mut self, now: CurrentStep<'a>, to: &Box3d, value: u8, size: [u64; 3]) {
        if size.contains(&0) {
            return self.check_buffers(now, [&to.buffer]);
        }
        if !self.check_box(now, to, size) {
            return;
        }
        let [width, height, depth] = size;
        for (slice, row) in (0..depth).flat_map(|slice| (0..height).map(move |row| (slice, row))) {
            let place = BufferAddress { buffer: to.buffer.clone(), offset: to.offset(row, slice) };
            self.write(now, &place, &B::repeat(&[value], width), &Ranges::default());
        }
    }

    /// Reports a mistake for each buffer that does not exist. This check is for copies of zero bytes, because the
    /// checks of accesses do not apply to them.
    fn check_buffers<const N: usize>(&mut self, now: CurrentStep<'a>, buffers: [&str; N]) {
        for buffer in buffers {
            self.live_buffer(now.step, buffer);
        }
    }

    /// Reports a mistake and returns false if the box extends beyond its buffer, its rows are longer than the pitch, or
    /// its slices overlap.
    fn check_box(
        &mut self,
        now: CurrentStep<'a>,
        of: &Box3d,
        [width, height, depth]: [u64; 3],
    ) -> bool {
        let (Box3d { buffer, pitch, rows, .. }, [x, y, _]) = (of, of.at);
        if x.saturating_add(width) > *pitch {
            let message = format!(
                "rows of {width} bytes from byte {x} on do not fit into a pitch of {pitch} bytes"
            );
            self.report(now.step, message);
            return false;
        }
        if depth > 1 && y.saturating_add(height) > *rows {
            let message =
                format!("{height} rows from row {y} on do not fit into the {rows} rows of a slice");
            self.report(now.step, message);
            return false;
        }
        let last =
            BufferAddress { buffer: buffer.clone(), offset: of.offset(height - 1, depth - 1) };
        self.checked_range(now.step, &last, width).is_some()
    }
}

/// Returns true if a range of `width` bytes in list `a` shares a byte with one in list `b`. The lists contain the
/// starts of the ranges in ascending order.
fn overlap(a: impl Iterator<Item = u64>, b: impl Iterator<Item = u64>, width: u64) -> bool {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    while let (Some(&x), Some(&y)) = (a.peek(), b.peek()) {
        if x.abs_diff(y) < width {
            return true;
        }
        if x < y {
            a.next()
        } else {
            b.next()
        };
    }
    false
}
