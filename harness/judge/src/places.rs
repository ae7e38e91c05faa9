//! Describes addresses relative to the buffers of a plan. The worker reports the addresses of the buffers.

use plan::{Call, Event, Plan};

use crate::index::Index;

/// Size of a page in bytes. A GPU reports a memory fault with the address of the page.
const PAGE: u64 = 4096;
/// Distance in bytes from an address at which a buffer is too far away to be named in the description of the address.
const MAX_DISTANCE: u64 = 16 << 20;
/// Maximum number of buffers in the description of one address.
const MAX_NAMED_BUFFERS: usize = 3;

/// Precision of the address in a log line about a memory fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressPrecision {
    /// The log line contains the exact address.
    Address,
    /// The log line contains the address of the page, as a GPU reports it. An address that is not a multiple of the
    /// page size is exact.
    Page,
}

/// Address range of each buffer, in the order of allocation.
pub struct BufferRanges(Vec<BufferRange>);

struct BufferRange {
    name: String,
    start: u64,
    bytes: u64,
    /// Line of the step that freed the buffer; `None` if the buffer was not freed.
    freed: Option<u32>,
}

impl BufferRanges {
    /// Reads the addresses of the buffers from the events of a worker.
    pub fn from_events(events: &[Event], plan: &Plan) -> BufferRanges {
        let index = Index::new(plan);
        let mut all: Vec<BufferRange> = Vec::new();
        for event in events {
            let Event::End { step, code: 0, address, .. } = event else { continue };
            let Some(step) = index.step(*step) else { continue };
            match (&step.call, address) {
                (Call::Alloc { buffer, .. }, Some(start)) => {
                    let bytes = plan.buffers.get(buffer).map_or(0, |buffer| buffer.bytes);
                    all.push(BufferRange {
                        name: buffer.clone(),
                        start: *start,
                        bytes,
                        freed: None,
                    });
                }
                (Call::Free { buffer, .. }, _) => {
                    let lives =
                        |place: &&mut BufferRange| place.name == *buffer && place.freed.is_none();
                    if let Some(place) = all.iter_mut().rfind(lives) {
                        place.freed = Some(step.line);
                    }
                }
                _ => {}
            }
        }
        BufferRanges(all)
    }

    /// Describes where the address in a log line such as `address 0x7f0000001000` lies relative to the nearest buffers.
    /// Returns `None` if the line contains no address.
    pub(crate) fn describe_in_line(
        &self,
        line: &str,
        precision: AddressPrecision,
    ) -> Option<String> {
        let (_, rest) = line.split_once("address 0x")?;
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        self.describe_address(u64::from_str_radix(&rest[..digits], 16).ok()?, precision)
    }

    fn describe_address(&self, address: u64, precision: AddressPrecision) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let (what, bytes) = match precision {
            AddressPrecision::Page if address.is_multiple_of(PAGE) => ("That page", PAGE),
            AddressPrecision::Address | AddressPrecision::Page => ("That address", 1),
        };
        let end = address.saturating_add(bytes);
        let there: Vec<_> =
            self.0.iter().filter(|place| place.start < end && address < place.end()).collect();
        let live: Vec<_> = there.iter().filter(|place| place.freed.is_none()).collect();
        if !live.is_empty() {
            let named = live.iter().take(MAX_NAMED_BUFFERS).map(|place| place.part(address, end));
            return Some(format!("{what} was in {}", named.collect::<Vec<_>>().join(" and ")));
        }
        if let Some(place) = there.last() {
            let freed = place.freed.map(|line| format!(", freed at line {line}"));
            return Some(format!(
                "{what} was in {}{}",
                place.part(address, end),
                freed.unwrap_or_default()
            ));
        }
        let away = |place: &&BufferRange| {
            if address >= place.end() { address - place.end() } else { place.start - end }
        };
        let nearest =
            self.0.iter().rev().min_by_key(away).filter(|place| away(place) < MAX_DISTANCE);
        Some(nearest.map_or_else(
            || {
                format!(
                    "{what} was at least {} MiB away from every buffer of the plan",
                    MAX_DISTANCE >> 20
                )
            },
            |place| {
                let freed = place.freed.map(|line| format!(", freed at line {line}"));
                let is_behind = address >= place.end();
                let side = if is_behind { "past the end of" } else { "before" };
                // For a page, the message contains the number of bytes between the page and the buffer. For a single
                // address, it contains the distance, which is 1 for the last byte before a buffer.
                let far = away(&place) + u64::from(!is_behind && bytes == 1);
                let far = match far {
                    0 => "right".to_owned(),
                    1 => "1 byte".to_owned(),
                    far => format!("{far} bytes"),
                };
                let name = &place.name;
                format!("{what} was {far} {side} `{name}`{}", freed.unwrap_or_default())
            },
        ))
    }
}

impl BufferRange {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    fn part(&self, from: u64, to: u64) -> String {
        let first = from.saturating_sub(self.start);
        let last = to.min(self.end()) - self.start - 1;
        let BufferRange { name, bytes, .. } = self;
        match first == last {
            true => format!("`{name}`, at byte {first} of {bytes}"),
            false => format!("`{name}`, at bytes {first} to {last} of {bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use plan::Step;

    use super::*;

    fn placed(name: &str, start: u64, bytes: u64, freed: Option<u32>) -> BufferRange {
        BufferRange { name: name.to_owned(), start, bytes, freed }
    }

    fn places() -> BufferRanges {
        BufferRanges(vec![
            placed("old", 0x10_0000, 8192, Some(14)),
            placed("src", 0x20_0000, 6000, None),
            placed("dst", 0x20_1800, 100, None),
            placed("again", 0x10_1000, 16, Some(20)),
        ])
    }

    #[test]
    fn addresses_are_described_by_nearby_buffers() {
        for (line, expected) in [
            (
                "on address 0x200000. Reason: Unknown.",
                "That page was in `src`, at bytes 0 to 4095 of 6000",
            ),
            (
                "  in page starting at address 0x0000000000201000 from client 10",
                "That page was in `src`, at bytes 4096 to 5999 of 6000 and `dst`, at bytes 0 to 99 of 100",
            ),
            ("unmapped address 0x200004 by x", "That address was in `src`, at byte 4 of 6000"),
            (
                "address 0x100fff",
                "That address was in `old`, at byte 4095 of 8192, freed at line 14",
            ),
            (
                "address 0x101000",
                "That page was in `again`, at bytes 0 to 15 of 16, freed at line 20",
            ),
            ("address 0x203000", "That page was 6044 bytes past the end of `dst`"),
            ("address 0x1ff000", "That page was right before `src`"),
            ("address 0x1fff10", "That address was 240 bytes before `src`"),
            ("address 0x1fffff", "That address was 1 byte before `src`"),
            (
                "address 0x7f0000001000",
                "That page was at least 16 MiB away from every buffer of the plan",
            ),
        ] {
            assert_eq!(
                places().describe_in_line(line, AddressPrecision::Page).as_deref(),
                Some(expected),
                "{line}"
            );
        }
        assert_eq!(places().describe_in_line("no address", AddressPrecision::Page), None);
        assert_eq!(
            BufferRanges(Vec::new()).describe_in_line("address 0x1000", AddressPrecision::Page),
            None
        );
    }

    #[test]
    fn buffer_addresses_come_from_worker_report() {
        let (plan, mut events) = crate::fixture::recorded();
        for (n, event) in events.iter_mut().enumerate() {
            if let Event::End { address, .. } = event {
                *address = Some((n as u64) << 30);
            }
        }
        let index = Index::new(&plan);
        let step = |event: &Event| match event {
            Event::End { step, code: 0, .. } => index.step(*step),
            _ => None,
        };
        let call = |event: &Event| step(event).map(|step| &step.call);
        let allocates = |event: &&Event| matches!(call(event), Some(Call::Alloc { .. }));
        let frees = |event: &&Event| matches!(call(event), Some(Call::Free { .. }));
        let placed = BufferRanges::from_events(&events, &plan);
        let count = events.iter().filter(allocates).count();
        assert!(count > 1, "the recorded worker allocates");
        assert_eq!(placed.0.len(), count);
        let freed: Vec<_> = events.iter().filter(frees).map(|event| step(event).unwrap()).collect();
        assert!(!freed.is_empty(), "it frees");
        for place in &placed.0 {
            let of_it = |step: &&&Step| matches!(&step.call, Call::Free { buffer, .. } if *buffer == place.name);
            assert_eq!(
                place.freed,
                freed.iter().find(of_it).map(|step| step.line),
                "{}",
                place.name
            );
            assert_eq!(place.bytes, plan.buffers[&place.name].bytes);
        }
    }

    #[test]
    fn buffers_sixteen_mebibytes_away_are_not_named() {
        let described =
            |address| places().describe_address(address, AddressPrecision::Address).unwrap();
        let end = 0x20_1800 + 100;
        assert_eq!(
            described(end + MAX_DISTANCE - 1),
            "That address was 16777215 bytes past the end of `dst`"
        );
        assert!(described(end + MAX_DISTANCE).contains("every buffer"));
    }

    #[test]
    fn descriptions_match_a_byte_by_byte_search() {
        let all = [placed("a", 0x500, 30, None), placed("b", 0x520, 500, None)];
        let owner = |at: u64| all.iter().find(|p| (p.start..p.start + p.bytes).contains(&at));
        let far = |n| match n {
            0 => "right".to_owned(),
            1 => "1 byte".to_owned(),
            n => format!("{n} bytes"),
        };
        let places =
            BufferRanges(all.iter().map(|p| placed(&p.name, p.start, p.bytes, None)).collect());
        for address in 0x400..0x800 {
            let described = places.describe_address(address, AddressPrecision::Address).unwrap();
            let naive = match owner(address) {
                Some(p) => format!("in `{}`, at byte {} of {}", p.name, address - p.start, p.bytes),
                None => {
                    let behind = (0..0x800).find(|n| owner(address.wrapping_sub(n + 1)).is_some());
                    // Distance in bytes from the address to the first byte of the buffer.
                    let front = (0..0x800).find(|n| owner(address + n).is_some());
                    match (behind, front) {
                        // If the address is between two buffers, the closer one is named.
                        (Some(n), f) if f.is_none_or(|f| n < f) => {
                            let name = &owner(address.wrapping_sub(n + 1)).unwrap().name;
                            format!("{} past the end of `{name}`", far(n))
                        }
                        (_, Some(n)) => {
                            format!("{} before `{}`", far(n), owner(address + n).unwrap().name)
                        }
                        _ => unreachable!(),
                    }
                }
            };
            assert_eq!(described, format!("That address was {naive}"), "{address:#x}");
        }
    }
}
