use super::*;

/// Returns the result for code whose instructions have one dword each. `lines` contains the text of each instruction
/// and the lower 16 bits of its dword.
fn read(arch: Arch, shares_units: bool, lines: &[(&str, u16)]) -> KernelBarriers {
    let dword = |(at, line): (usize, &(&str, u16))| (at as u32) << 16 | u32::from(line.1);
    let code: Vec<u8> = lines.iter().enumerate().flat_map(|it| dword(it).to_le_bytes()).collect();
    let mut reader = BarrierReader::new(arch, |at, _| {
        let text = lines[at as usize / 4].0.to_owned();
        Ok((text != "data").then_some(DecodedInstruction { text, size: 4, executable: true }))
    });
    reader.read(&code, shares_units).expect("a disassembler")
}

/// A loop with a barrier at its beginning and a store at its end, without a wait.
const TAIL: [(&str, u16); 5] = [
    ("s_mov_b32 s0, 0", 0),
    ("s_barrier", 0),
    ("buffer_gl0_inv", 0),
    ("global_store_dword v[0:1], v3, off", 0),
    ("s_cbranch_scc1 65532", 65532),
];

/// Returns the numbers of a barrier and of an operation in `lines`, and the kind of the operation.
fn line(it: &Outstanding) -> (u32, u32, MemoryOperation) {
    (it.barrier / 4, it.operation / 4, it.kind)
}

fn lost(result: &KernelBarriers) -> Vec<(u32, u32, MemoryOperation)> {
    result.lost.iter().map(line).collect()
}

/// Returns [`TAIL`] with `lines` instead of the `count` instructions that start at index `at`.
fn tail_with(at: usize, count: usize, lines: &[(&'static str, u16)]) -> Vec<(&'static str, u16)> {
    let mut code = TAIL.to_vec();
    code.splice(at..at + count, lines.iter().copied());
    let back = 65535 - (code.len() as u16 - 2);
    if let Some(last) = code.last_mut() {
        last.1 = back;
    }
    code.push(("s_endpgm", 0));
    code
}

#[test]
fn stores_without_a_wait_are_found_in_wgp_mode_only() {
    let code = tail_with(0, 0, &[]);
    let found = read(Arch::Gfx1030, true, &code);
    assert_eq!(lost(&found), [(1, 3, MemoryOperation::GlobalWrite)]);
    assert_eq!((found.fenced, found.bare, found.instructions), (1, 0, 6));
    let found = read(Arch::Gfx1030, false, &code);
    assert_eq!((lost(&found), found.fenced, found.bare), (vec![], 0, 1));
}

#[test]
fn each_operation_has_its_wait() {
    use MemoryOperation::{GlobalRead, GlobalWrite, LdsRead, LdsWrite};
    let check = |arch, operation, wait: (&'static str, u16), kind: MemoryOperation| {
        let loop_with = |wait: &[(&'static str, u16)]| {
            let mut lines = vec![(operation, 0)];
            lines.extend(wait);
            read(arch, true, &tail_with(3, 1, &lines))
        };
        assert_eq!(lost(&loop_with(&[])), [(1, 3, kind)], "{operation}");
        assert_eq!(lost(&loop_with(&[wait])), [], "{operation} {wait:?}");
        // A wait that allows another number of outstanding operations is not sufficient.
        let mut one = wait;
        one.1 |= 0x0511;
        assert_eq!(lost(&loop_with(&[one])), [(1, 3, kind)], "{operation} {one:?}");
    };
    let vscnt = ("s_waitcnt_vscnt null, 0x0", 0);
    check(Arch::Gfx1030, "global_store_dword v[0:1], v3, off", vscnt, GlobalWrite);
    check(Arch::Gfx1030, "global_atomic_add v[0:1], v3, off", vscnt, GlobalWrite);
    check(Arch::Gfx1030, "global_load_dword v3, v[0:1], off", ("s_waitcnt", 0x3f70), GlobalRead);
    let atomic = "global_atomic_add v4, v[0:1], v3, off glc";
    check(Arch::Gfx1030, atomic, ("s_waitcnt", 0x3f70), GlobalRead);
    check(Arch::Gfx1030, "ds_write_b32 v0, v1", ("s_waitcnt", 0xc07f), LdsWrite);
    check(Arch::Gfx1151, "buffer_store_b32 v0, off, s[0:3], 0", vscnt, GlobalWrite);
    check(Arch::Gfx1151, "ds_load_b32 v0, v1", ("s_waitcnt", 0xfc07), LdsRead);
    check(Arch::Gfx1201, "global_store_b32 v[0:1], v3, off", ("s_wait_storecnt", 0), GlobalWrite);
    check(Arch::Gfx1201, "ds_store_b32 v0, v1", ("s_wait_dscnt", 0), LdsWrite);
    check(Arch::Gfx1201, "ds_store_b32 v0, v1", ("s_wait_storecnt_dscnt", 0), LdsWrite);
    let atomic = "global_atomic_add_u32 v4, v[0:1], v3, off th:TH_ATOMIC_RETURN";
    check(Arch::Gfx1201, atomic, ("s_wait_loadcnt", 0), GlobalRead);
}

#[test]
fn operations_that_other_waves_cannot_observe_are_ignored() {
    for operation in [
        "scratch_store_b32 off, v0, s33",
        "flat_store_dword v[0:1], v2",
        "buffer_store_dword v0, off, s[0:3], s32",
        "ds_bpermute_b32 v0, v1, v2",
        "ds_add_u32 v0, v1 gds",
        "s_load_dword s0, s[4:5], 0x8",
    ] {
        assert_eq!(lost(&read(Arch::Gfx1030, true, &tail_with(3, 1, &[(operation, 0)]))), []);
    }
}

#[test]
fn only_an_invalidation_directly_after_a_barrier_proves_a_fence() {
    let fenced = |lines: &[(&'static str, u16)]| {
        let found = read(Arch::Gfx1030, true, &tail_with(2, 1, lines));
        assert_eq!(found.lost.is_empty(), found.fenced == 0);
        assert_eq!(found.unexplained, []);
        found.fenced
    };
    let inv = ("buffer_gl0_inv", 0);
    assert_eq!(fenced(&[("v_mov_b32_e32 v0, v1", 0), ("s_load_dword s0, s[4:5], 0x8", 0), inv]), 1);
    assert_eq!(fenced(&[("global_load_dword v9, v[0:1], off", 0), ("s_waitcnt", 0), inv]), 0);
    assert_eq!(fenced(&[("buffer_gl1_inv", 0), inv]), 0);
    assert_eq!(fenced(&[]), 0);
    // The fence after a barrier without fences contains its own wait.
    let waits = [("s_waitcnt_vscnt null, 0x0", 0), inv];
    assert_eq!(lost(&read(Arch::Gfx1030, true, &tail_with(2, 1, &waits))), []);
}

#[test]
fn operations_that_the_compiler_may_not_know_are_unexplained() {
    let check = |lines: &[(&str, u16)], expected: &[(u32, u32, MemoryOperation)]| {
        let found = read(Arch::Gfx1030, true, lines);
        assert_eq!(lost(&found), []);
        assert_eq!(found.unexplained.iter().map(line).collect::<Vec<_>>(), expected);
    };
    // A straight path leads from the store to the barrier.
    let straight = [TAIL[3], TAIL[1], TAIL[2], ("s_endpgm", 0)];
    check(&straight, &[(1, 0, MemoryOperation::GlobalWrite)]);
    // One of the two barriers in this loop is also reached on a straight path.
    let both = tail_with(4, 0, &[TAIL[1], TAIL[2]]);
    let write = MemoryOperation::GlobalWrite;
    check(&both, &[(1, 3, write), (4, 3, write)]);
    // This is the pattern of the inline assembly in rocPRIM.
    let assembly = tail_with(4, 0, &[("s_waitcnt", 0x3f70)]);
    check(&assembly, &[(1, 3, write)]);
}

#[test]
fn paths_that_cannot_be_followed_are_reported() {
    let check = |line: (&'static str, u16), expected: &[&str]| {
        let code = [TAIL[3], line, TAIL[1], TAIL[2], ("s_endpgm", 0)];
        let found = read(Arch::Gfx1030, true, &code);
        assert_eq!(found.unknown.into_iter().collect::<Vec<_>>(), expected, "{line:?}");
        assert_eq!((found.lost, found.unexplained), (vec![], vec![]), "{line:?}");
        assert!(read(Arch::Gfx1030, false, &code).unknown.is_empty());
        assert!(read(Arch::Gfx90a, true, &code).unknown.is_empty());
    };
    check(("s_swappc_b64 s[30:31], s[16:17]", 0), &["call"]);
    check(("s_setpc_b64 s[30:31]", 0), &["indirect branch"]);
    check(("data", 0), &["bytes that are not an instruction"]);
    check(("s_branch 100", 100), &["path leaves the function"]);
    check(("s_branch 65000", 65000), &["path leaves the function"]);
}

#[test]
fn lds_writes_at_bare_barriers_are_suspects_in_loops_only() {
    let code = |wait: u16| {
        let lines = [("ds_write_b32 v0, v1", 0), ("s_waitcnt", wait)];
        let found = read(Arch::Gfx90a, true, &tail_with(2, 2, &lines));
        assert_eq!((found.lost.len(), found.fenced, found.bare), (0, 0, 1));
        found.suspects.len()
    };
    assert_eq!((code(0xc07f), code(0xcf7f)), (0, 1));
    let straight = [("ds_write_b32 v0, v1", 0), TAIL[1], ("s_endpgm", 0)];
    assert_eq!(read(Arch::Gfx90a, true, &straight).suspects, []);
}

/// The dwords are from kernels that were compiled with LLVM 22.
#[test]
fn code_without_barrier_or_invalidation_is_skipped() {
    let bytes = |dwords: &[u32]| dwords.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    let check = |arch, barrier: u32, invalidation: u32| {
        let reader = BarrierReader::new(arch, |_, _| Ok(None));
        let both = bytes(&[0xbf80_0000, barrier, invalidation, 0]);
        assert!(reader.has_barrier(&both) && reader.may_find(&both));
        assert!(!reader.has_barrier(&bytes(&[invalidation, 0])));
        assert!(!reader.may_find(&bytes(&[barrier])));
    };
    check(Arch::Gfx1030, 0xbf8a_0000, 0xe1c4_0000);
    check(Arch::Gfx1151, 0xbfbd_0000, 0xe0ac_0000);
    check(Arch::Gfx1201, 0xbe80_4ec1, 0xee0a_c07c);
}
