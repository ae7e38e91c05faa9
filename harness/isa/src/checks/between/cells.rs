//! Records the last accesses to each byte of memory. If all accesses to a page are to whole dwords, there is one entry
//! per dword.

use std::collections::HashMap;

use super::clock::Time;

#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    /// Time of the last write. Here and in `reads`, 0 means that there was no such access.
    pub(super) write: Time,
    /// Two reads since the last write: the last read by the wave that read the cell first, and the last read by any
    /// other wave.
    pub(super) reads: [Time; 2],
    /// True if a synchronising access or an atomic has accessed the cell.
    pub(super) synchronises: bool,
    pub(super) is_swapped: bool,
    /// True if the last write and the write before it are unordered, but stored the same value.
    pub(super) wrote_same_value: bool,
}

const PAGE: u64 = 4096;

struct Page {
    size: u64,
    cells: Vec<Cell>,
}

/// All cells, by page. A page that has not been accessed has no cells.
#[derive(Default)]
pub(super) struct Cells {
    pages: Vec<Page>,
    index: HashMap<u64, u32>,
    /// Recently used pages: the number of the page and the index of its cells. The low bits of the page number select
    /// the entry.
    recent: [Option<(u64, u32)>; 32],
    len: usize,
}

/// The part of an address range that is in one page, with its cells.
pub(super) struct PageRange<'a> {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) cells: &'a mut [Cell],
    /// Address at which this part of the range ends and the next part starts.
    pub(super) end: u64,
}

impl Cells {
    pub(super) fn part(&mut self, start: u64, end: u64) -> PageRange<'_> {
        let number = start / PAGE;
        let end = end.min((number + 1).saturating_mul(PAGE));
        let recent = &mut self.recent[number as usize % 32];
        let index = match *recent {
            Some((known, index)) if known == number => index,
            _ => {
                let Cells { pages, len, .. } = self;
                let index = *self.index.entry(number).or_insert_with(|| {
                    pages.push(Page { size: 4, cells: vec![Cell::default(); PAGE as usize / 4] });
                    *len += PAGE as usize / 4;
                    pages.len() as u32 - 1
                });
                *recent = Some((number, index));
                index
            }
        };
        let page = &mut self.pages[index as usize];
        if page.size == 4 && !(start.is_multiple_of(4) && end.is_multiple_of(4)) {
            page.cells = page.cells.iter().flat_map(|cell| [*cell; 4]).collect();
            page.size = 1;
            self.len += page.cells.len() * 3 / 4;
        }
        let first = (start % PAGE / page.size) as usize;
        let count = ((end - start) / page.size) as usize;
        PageRange { start, size: page.size, cells: &mut page.cells[first..first + count], end }
    }

    /// Returns the cell of a byte. If the byte has not been accessed, returns a default cell.
    pub(super) fn at(&self, address: u64) -> Cell {
        let index = self.index.get(&(address / PAGE));
        index.map_or_else(Cell::default, |index| {
            let page = &self.pages[*index as usize];
            page.cells[(address % PAGE / page.size) as usize]
        })
    }

    pub(super) fn agree(&mut self, address: u64) {
        if let Some(index) = self.index.get(&(address / PAGE)) {
            let page = &mut self.pages[*index as usize];
            page.cells[(address % PAGE / page.size) as usize].wrote_same_value = true;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
