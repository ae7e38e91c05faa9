//! Launches a kernel: distributes its workgroups over host threads, and sets the initial state of their waves.
//!
//! Source for the initial state: LLVM's AMDGPU usage guide, "Kernel Descriptor" and "Initial Kernel Execution State".

use std::{
    any::Any,
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::ScopedJoinHandle,
};

use device::Arch;
pub use device::model::LARGEST_WORKGROUP;

use crate::{
    AddressSpace, Executed, Launch, Trap,
    able::CpuFeatures,
    checks::{Checks, between::MemoryRaceDetector},
    machine::Machine,
    ops::SWIZZLE_ENABLE,
    program::{Code, Detours},
    registers::ROWS,
    registers::{HALF, Row},
    residents::{Failed, Progress, Resident, Residents},
    text::{PRIVATE_APERTURE, register},
    wave::{FP16_OVFL, INDEXING, State, Wave, active},
    workgroup::{Clock, Group, race_between},
};

/// Maximum scratch memory of a wave on any architecture, in bytes: `SPI_TMPRING_SIZE.WAVESIZE` of GFX12 has 18 bits and
/// counts units of 256 bytes.
const MAX_SCRATCH_BYTES: u64 = 64 << 20;

struct Descriptor {
    entry: u64,
    lanes: usize,
    register_granule: usize,
    /// Values of the registers `COMPUTE_PGM_RSRC1` and `COMPUTE_PGM_RSRC2` that the kernel descriptor contains.
    rsrc1: u32,
    rsrc2: u32,
    /// Field `KERNEL_CODE_PROPERTIES` of the kernel descriptor, a bit mask.
    properties: u16,
    preload: u16,
}

fn descriptor(launch: &Launch<'_>, machine: &mut Machine<'_>) -> Result<Descriptor, Trap> {
    let at = launch.descriptor;
    let bytes = machine
        .read::<64>(at)
        .map_err(|_| Trap::Unmapped { what: "kernel descriptor", address: at })?;
    let word = |offset: usize| {
        u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
    };
    let entry = u64::from(word(16)) | u64::from(word(20)) << 32;
    let properties = word(56) as u16;
    Ok(Descriptor {
        entry: at.wrapping_add(entry),
        lanes: if properties >> 10 & 1 == 1 { 32 } else { 64 },
        register_granule: launch.arch.facts().register_granule,
        rsrc1: word(48),
        rsrc2: word(52),
        properties,
        preload: (word(56) >> 16) as u16,
    })
}

pub(crate) fn run(launch: &Launch<'_>, space: &dyn AddressSpace) -> Result<Executed, Trap> {
    let able = CpuFeatures::find().map_err(|features| Trap::InvalidLaunch {
        reason: format!("the host processor lacks {features}"),
    })?;
    let descriptor = descriptor(launch, &mut Machine::new(able, space))?;
    let size = launch.workgroup.map(|n| n.max(1));
    let grid = launch.grid.map(|n| n.max(1));
    let items = size.iter().fold(1u32, |product, n| product.saturating_mul(*n));
    if items > LARGEST_WORKGROUP {
        return Err(Trap::InvalidLaunch {
            reason: format!("a workgroup of {items} work-items; the limit is {LARGEST_WORKGROUP}"),
        });
    }
    let largest_lds = launch.arch.facts().lds_bytes;
    if launch.group_segment_bytes > largest_lds {
        let wanted = launch.group_segment_bytes;
        return Err(Trap::InvalidLaunch {
            reason: format!("{wanted} bytes of LDS for a workgroup; the limit is {largest_lds}"),
        });
    }
    let lanes = descriptor.lanes;
    if !launch.arch.facts().wave_sizes.contains(&(lanes as u32)) {
        let reason = format!("waves of {lanes} lanes, which {} does not have", launch.arch);
        return Err(Trap::InvalidLaunch { reason });
    }
    let scratch = u64::from(launch.private_segment_bytes) * descriptor.lanes as u64;
    if scratch > MAX_SCRATCH_BYTES {
        return Err(Trap::InvalidLaunch {
            reason: format!(
                "{scratch} bytes of scratch per wave; the limit is {MAX_SCRATCH_BYTES}"
            ),
        });
    }
    let waves = (items as usize).div_ceil(descriptor.lanes);
    let grid = Grid {
        items: (0..waves).map(|index| Items::new(index, launch, &descriptor)).collect(),
        groups: [0, 1, 2].map(|axis| u64::from(grid[axis].div_ceil(size[axis]))),
        launch,
        descriptor,
        features: able,
        space,
        next: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        progress: Progress::new(launch.patience),
    };
    grid.run()
}

/// All workgroups of a launch. Each host thread takes the next workgroup that has not been started.
struct Grid<'a> {
    launch: &'a Launch<'a>,
    descriptor: Descriptor,
    features: CpuFeatures,
    space: &'a dyn AddressSpace,
    items: Vec<Items>,
    groups: [u64; 3],
    /// Number of the next workgroup to start.
    next: AtomicU64,
    /// True if a workgroup has failed. Then no further workgroup is started.
    stopped: AtomicBool,
    progress: Progress,
}

/// Result of one host thread: the numbers of instructions and waves that it executed, or the failed workgroup with the
/// reason.
type Part = Result<Executed, Failed>;

impl Grid<'_> {
    fn run(&self) -> Result<Executed, Trap> {
        // The sanitizer needs a single thread, because it tracks one workgroup after another.
        let threads = if self.space.is_watched() { 1 } else { u64::from(self.launch.threads) };
        let threads = threads.min(self.groups.iter().product());
        let parts: Vec<Part> = std::thread::scope(|scope| {
            let thread = || {
                let thread = std::thread::Builder::new().name("device workgroups".into());
                // If a thread cannot be created, the other threads execute its share.
                thread.spawn_scoped(scope, || self.work(threads)).ok()
            };
            let others: Vec<_> = (1..threads).filter_map(|_| thread()).collect();
            let own = self.work(threads);
            let join = |other: ScopedJoinHandle<'_, Part>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            others.into_iter().map(join).chain([own]).collect()
        });
        let mut all = Executed::default();
        let mut first: Option<Box<(u64, Trap)>> = None;
        for part in parts {
            match part {
                Ok(executed) => {
                    all.waves += executed.waves;
                    all.instructions += executed.instructions;
                }
                Err(trap) if first.as_ref().is_none_or(|first| trap.0 < first.0) => {
                    first = Some(trap);
                }
                Err(_) => {}
            }
        }
        first.map_or(Ok(all), |first| Err(first.1))
    }

    fn work(&self, threads: u64) -> Part {
        let mut machine = Machine::new(self.features, self.space);
        machine.sync = self.launch.sync;
        let (arch, lanes) = (self.launch.arch, self.descriptor.lanes);
        let (late, watched) = (self.launch.late_results, self.space.is_watched());
        machine.follows = watched && self.space.is_traced();
        let checked = watched || late;
        let checks = move || Checks::new(watched, late, Code::reader);
        if checked {
            let mut checks = checks();
            if watched {
                let groups = self.groups.iter().product();
                let apart = self.descriptor.has_two_units();
                let between = MemoryRaceDetector::new(arch, apart, groups, self.items.len());
                checks.between = between.map(Box::new);
            }
            machine.watch = Some(Box::new(checks));
        }
        let group = Group {
            code: Code::new(arch, lanes, checked, self.space),
            detours: Detours::default(),
            machine,
            waves: Vec::new(),
            number: 0,
            entry: self.descriptor.entry,
            limit: self.launch.step_limit,
            clock: Clock::new(self.launch.turns, 0),
            reported: HashSet::new(),
        };
        let new = || {
            let waves = self.items.iter().map(|_| Wave::new(lanes)).collect();
            let watch = checked.then(|| Box::new(checks()) as Box<dyn Any>);
            Resident::new(waves, Clock::new(self.launch.turns, 0), watch)
        };
        let room = u64::from(self.launch.room) / threads;
        let mut residents =
            Residents::new(group, &self.progress, room as usize, self.descriptor.rows());
        let mut executed = Executed::default();
        let stop = |failed| {
            self.stopped.store(true, Ordering::Relaxed);
            failed
        };
        let mut go_on = |residents: &mut Residents<'_, '_>| {
            while !self.stopped.load(Ordering::Relaxed)
                && residents.fill(new, |group| self.begin(group))?
            {
                let ended = |waves: &[Wave]| {
                    executed.waves += waves.len() as u64;
                    executed.instructions += waves.iter().map(|wave| wave.executed).sum::<u64>();
                };
                residents.turn(ended)?;
            }
            Ok(())
        };
        let result = go_on(&mut residents);
        // Races are reported even if the launch failed.
        let told = self.tell_races(&mut residents);
        told.and(result).map_err(stop)?;
        residents.keep();
        Ok(executed)
    }

    fn tell_races(&self, residents: &mut Residents<'_, '_>) -> Result<(), Failed> {
        let found = Checks::end(residents.checks());
        residents.group.report_finding(found).map_err(|trap| Box::new((0, trap)))?;
        let checks = Checks::from_state(&mut residents.group.machine.watch);
        let between = checks.and_then(|checks| checks.between.as_mut());
        let races = between.map(|between| between.end()).unwrap_or_default();
        for race in races {
            let workgroup = race.sides[1].workgroup;
            let finding = race_between(race, self.descriptor.entry);
            if self.space.found(&finding).is_break() {
                return Err(Box::new((workgroup, Trap::Found(Box::new(finding)))));
            }
        }
        Ok(())
    }

    /// Starts the next workgroup and returns its number; `None` if all have been started.
    fn begin(&self, group: &mut Group<'_>) -> Result<Option<u64>, Failed> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [x, y, z] = self.groups;
        if number >= x * y * z {
            return Ok(None);
        }
        let id = [number % x, number / x % y, number / x / y].map(|id| id as u32);
        group.clock = Clock::new(self.launch.turns, number);
        let facts = self.launch.arch.facts();
        group.machine.give_lds(self.launch.group_segment_bytes, facts.lds_granule);
        for (wave, items) in group.waves.iter_mut().zip(&self.items) {
            start(wave, items, self.launch, &self.descriptor, &mut group.machine, id)
                .map_err(|trap| Box::new((number, trap)))?;
            if self.space.breaks(number) && items.ids.len() > 1 {
                for row in &mut wave.vector[..items.rows.len()] {
                    row[0][0] = row[0][1];
                }
            }
        }
        if let Some(checks) = Checks::from_state(&mut group.machine.watch) {
            checks.begin(self.items.len(), number);
        }
        Ok(Some(number))
    }
}

impl Descriptor {
    /// Returns the number of vector registers that the kernel descriptor requests (GRANULATED_WORKITEM_VGPR_COUNT).
    fn rows(&self) -> usize {
        ROWS.min(((self.rsrc1 as usize & 63) + 1) * self.register_granule)
    }

    /// Returns true if the workgroup runs in WGP mode, in which it may use two compute units with separate caches
    /// (`ENABLE_WGP_MODE` of GFX10 and later; the bit is 0 on older GPUs).
    fn has_two_units(&self) -> bool {
        self.rsrc1 >> 29 & 1 == 1
    }
}

/// Returns the initial MODE register of a wave: FLOAT_MODE, FP16_OVFL in bit 23, and before GFX12 ENABLE_DX10_CLAMP and
/// ENABLE_IEEE_MODE. Source: the AMDGPU usage guide, `compute_pgm_rsrc1`.
pub fn initial_mode(rsrc1: u32, arch: Arch) -> u32 {
    let overflow = if rsrc1 >> 26 & 1 == 1 { FP16_OVFL } else { 0 };
    let rules = match arch.facts().has_ieee_mode {
        false => 0,
        true => (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9,
    };
    rsrc1 >> 12 & 0xff | rules | overflow
}

fn start(
    wave: &mut Wave,
    items: &Items,
    launch: &Launch<'_>,
    descriptor: &Descriptor,
    machine: &mut Machine<'_>,
    group: [u32; 3],
) -> Result<(), Trap> {
    wave.scalar = [0; register::COUNT];
    wave.pc = descriptor.entry;
    (wave.state, wave.awaits) = (State::Running, None);
    wave.executed = 0;
    wave.set_detour(INDEXING, false);
    wave.index = items.wave;
    wave.set_mode(initial_mode(descriptor.rsrc1, launch.arch));
    let halves = wave.halves();
    for row in &mut wave.vector[..descriptor.rows()] {
        row[..halves].fill([0; HALF]);
    }
    wave.scratch.clear();
    wave.scratch.resize(launch.private_segment_bytes.div_ceil(4) as usize * 4 * wave.lanes, 0);
    initial_scalars(wave, launch, descriptor, machine, group)?;
    initial_items(wave, items, launch, group);
    Ok(())
}

fn initial_scalars(
    wave: &mut Wave,
    launch: &Launch<'_>,
    descriptor: &Descriptor,
    machine: &mut Machine<'_>,
    group: [u32; 3],
) -> Result<(), Trap> {
    let enabled = |bit: u32| descriptor.properties >> bit & 1 == 1;
    let mut next = 0u16;
    let pair = |wave: &mut Wave, value: u64, next: &mut u16| {
        wave.set_pair(*next, value);
        *next += 2;
    };
    if enabled(0) {
        // The buffer descriptor for scratch. An access that uses this descriptor is recognised by the swizzle bit.
        pair(wave, u64::from(PRIVATE_APERTURE) << 32 | u64::from(SWIZZLE_ENABLE) << 32, &mut next);
        pair(wave, u64::from(u32::MAX), &mut next);
    }
    for (bit, value) in [(1, launch.packet), (2, launch.queue), (3, launch.kernarg), (4, 0), (5, 0)]
    {
        if enabled(bit) {
            pair(wave, value, &mut next);
        }
    }
    if enabled(6) {
        wave.scalar[usize::from(next)] = launch.private_segment_bytes;
        next += 1;
    }
    let preload = (descriptor.preload & 0x7f, descriptor.preload >> 7);
    for word in 0..preload.0 {
        let address = launch.kernarg.wrapping_add(u64::from(preload.1 + word) * 4);
        let bytes = machine
            .read::<4>(address)
            .map_err(|_| Trap::Unmapped { what: "kernel arguments", address })?;
        wave.scalar[usize::from(next + word)] = u32::from_le_bytes(bytes);
    }
    // The system registers follow the user registers, including those user registers that the kernel does not use.
    let user = (descriptor.rsrc2 >> 1 & 31) as u16;
    next = (next + preload.0).max(user);
    if launch.arch.facts().ids_in_trap_temporaries {
        // TTMP9 contains the x of the workgroup's id, TTMP7 contains y and z.
        wave.scalar[usize::from(register::TTMP) + 9] = group[0];
        wave.scalar[usize::from(register::TTMP) + 7] = (group[1] & 0xffff) | group[2] << 16;
        // TTMP8[29:25] contains the number of the wave in its workgroup (LLVM, `lowerWaveID` in
        // AMDGPULegalizerInfo.cpp).
        wave.scalar[usize::from(register::TTMP) + 8] = wave.index << 25;
    } else {
        for (axis, id) in group.iter().enumerate() {
            if descriptor.rsrc2 >> (7 + axis) & 1 == 1 {
                wave.scalar[usize::from(next)] = *id;
                next += 1;
            }
        }
    }
    // On hardware, registers with workgroup info and with the scratch offset of the wave follow. The interpreter leaves
    // these two registers at zero, because it keeps the scratch of each wave separately.
    Ok(())
}

/// Work-items of one wave, with their ids. The ids are the same in all workgroups, so they are computed once per
/// launch.
struct Items {
    wave: u32,
    /// For each lane, the id of its work-item within the workgroup. The last wave may have fewer work-items than lanes.
    ids: Vec<[u32; 3]>,
    /// First vector registers of the wave at its start, which contain `ids`. Each lane has the id of its work-item:
    /// packed into one register, or in one register per axis, as the architecture requires.
    rows: Vec<Row>,
}

impl Items {
    fn new(wave: usize, launch: &Launch<'_>, descriptor: &Descriptor) -> Items {
        let size = launch.workgroup.map(|n| n.max(1));
        let packed = launch.arch.facts().packs_work_item_ids;
        let first = wave * descriptor.lanes;
        let ids: Vec<_> = (first..first + descriptor.lanes)
            .map(|item| item as u32)
            .map(|item| [item % size[0], item / size[0] % size[1], item / size[0] / size[1]])
            .take_while(|id| id[2] < size[2])
            .collect();
        let mut rows = vec![[[0; HALF]; 2]; if packed { 1 } else { 3 }];
        for (lane, id) in ids.iter().enumerate() {
            let values = if packed { [id[0] | id[1] << 10 | id[2] << 20, 0, 0] } else { *id };
            for (row, value) in rows.iter_mut().zip(values) {
                row[lane / HALF][lane % HALF] = value;
            }
        }
        Items { wave: wave as u32, ids, rows }
    }
}

fn initial_items(wave: &mut Wave, items: &Items, launch: &Launch<'_>, group: [u32; 3]) {
    wave.vector[..items.rows.len()].copy_from_slice(&items.rows);
    // Number of work-items of the grid along each axis, counted from the start of this workgroup. The last workgroup of
    // an axis may extend past the grid.
    let inside = [0, 1, 2].map(|axis| {
        let before = u64::from(group[axis]) * u64::from(launch.workgroup[axis].max(1));
        u64::from(launch.grid[axis].max(1)) - before
    });
    let mut exec = u64::MAX >> (64 - items.ids.len());
    if (0..3).any(|axis| inside[axis] < u64::from(launch.workgroup[axis])) {
        for lane in active(exec) {
            if (0..3).any(|axis| u64::from(items.ids[lane][axis]) >= inside[axis]) {
                exec &= !(1 << lane);
            }
        }
    }
    wave.set_pair(register::EXEC, exec);
    if exec == 0 {
        wave.state = State::Ended;
    }
}
