//! Copies of rows.

use super::{Bytes, Model, Now, Ranges};
use crate::{Box3d, Place};

impl<'a, B: Bytes> Model<'a, B> {
    /// Copies rows; places come with their pitches.
    pub(super) fn rows(
        &mut self,
        now: Now<'a>,
        (to, to_pitch): (&Place, u64),
        (from, from_pitch): (&Place, u64),
        width: u64,
        height: u64,
    ) {
        if width == 0 || height == 0 {
            return self.are_there(now, [&from.buffer, &to.buffer]);
        }
        if let Some(pitch) = [from_pitch, to_pitch].into_iter().find(|pitch| *pitch < width) {
            return self
                .mistake(now.step, format!("rows of {width} bytes have a pitch of {pitch}"));
        }
        let at = |place: &Place, pitch: u64, row: u64| Place {
            buffer: place.buffer.clone(),
            offset: place.offset.saturating_add(row.saturating_mul(pitch)),
        };
        for (place, pitch) in [(from, from_pitch), (to, to_pitch)] {
            if self.range(now.step, &at(place, pitch, height - 1), width).is_none() {
                return;
            }
        }
        let rows = |place: &Place, pitch| {
            let first = place.offset;
            (0..height).map(move |row| first + row * pitch)
        };
        if to.buffer == from.buffer && overlap(rows(from, from_pitch), rows(to, to_pitch), width) {
            return self.mistake(now.step, "the copy overlaps what it reads".to_owned());
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

/// Boxes: slices of rows.
impl<'a, B: Bytes> Model<'a, B> {
    pub(super) fn boxes(&mut self, now: Now<'a>, to: &Box3d, from: &Box3d, size: [u64; 3]) {
        if size.contains(&0) {
            return self.are_there(now, [&from.buffer, &to.buffer]);
        }
        if !self.has_box(now, from, size) || !self.has_box(now, to, size) {
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
            return self.mistake(now.step, "the copy overlaps what it reads".to_owned());
        }
        for (from_offset, to_offset) in reads.into_iter().zip(writes) {
            let place = |of: &Box3d, offset| Place { buffer: of.buffer.clone(), offset };
            let Some((data, unknown)) = self.read(now.step, &place(from, from_offset), width)
            else {
                return;
            };
            self.write(now, &place(to, to_offset), &data, &unknown);
        }
    }

    pub(super) fn set_box(&mut self, now: Now<'a>, to: &Box3d, value: u8, size: [u64; 3]) {
        if size.contains(&0) {
            return self.are_there(now, [&to.buffer]);
        }
        if !self.has_box(now, to, size) {
            return;
        }
        let [width, height, depth] = size;
        for (slice, row) in (0..depth).flat_map(|slice| (0..height).map(move |row| (slice, row))) {
            let place = Place { buffer: to.buffer.clone(), offset: to.offset(row, slice) };
            self.write(now, &place, &B::of(&[value], width), &Ranges::default());
        }
    }

    /// Of buffers of which no byte is touched: they are there.
    fn are_there<const N: usize>(&mut self, now: Now<'a>, buffers: [&str; N]) {
        for buffer in buffers {
            self.live(now.step, buffer);
        }
    }

    /// Whether a box lies in its buffer, its rows in their pitch, and its slices apart; if not, that is told.
    fn has_box(&mut self, now: Now<'a>, of: &Box3d, [width, height, depth]: [u64; 3]) -> bool {
        let (Box3d { buffer, pitch, rows, .. }, [x, y, _]) = (of, of.at);
        if x.saturating_add(width) > *pitch {
            let message = format!("rows of {width} bytes from byte {x} have a pitch of {pitch}");
            self.mistake(now.step, message);
            return false;
        }
        if depth > 1 && y.saturating_add(height) > *rows {
            let message = format!("{height} rows from row {y} are more than the {rows} of a slice");
            self.mistake(now.step, message);
            return false;
        }
        let last = Place { buffer: buffer.clone(), offset: of.offset(height - 1, depth - 1) };
        self.range(now.step, &last, width).is_some()
    }
}

/// Whether any two ranges of this width, which begin at these places, share a byte; the places rise.
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
