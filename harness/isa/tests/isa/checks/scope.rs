//! Tests how the bits of instructions determine their scope.

use device::Arch::{self, Gfx90a, Gfx906, Gfx942, Gfx950, Gfx1030, Gfx1151, Gfx1201};
use isa::inside::{
    checks::scope::{NEAR, Scope, Strength::*, caches},
    text::{Site, Text},
};

fn of(arch: Arch, line: &str) -> Scope {
    Scope::parse(&Text::parse(line, &Site::for_arch(arch)).expect(line))
}

/// The lines are the code that LLVM's guide lists for atomic and plain loads and stores with agent scope.
#[test]
fn distinguishes_atomic_from_plain_accesses() {
    for (arch, load, marks) in [
        (Gfx906, "global_load_dword v0, v[2:3], off", " glc"),
        (Gfx90a, "global_load_dword v0, v[2:3], off", " glc"),
        (Gfx942, "global_load_dword v0, v[2:3], off", " sc1"),
        (Gfx950, "global_load_dword v0, v[2:3], off", " sc1"),
        (Gfx1030, "global_load_dword v0, v[2:3], off", " glc dlc"),
        (Gfx1151, "global_load_b32 v0, v[2:3], off", " glc"),
        (Gfx1201, "global_load_b32 v0, v[2:3], off", " scope:SCOPE_DEV"),
    ] {
        assert_eq!(of(arch, load).load, Plain, "{arch}");
        assert_eq!(of(arch, &format!("{load}{marks}")).load, Synchronising, "{arch}");
    }
    let store = "global_store_dword v[2:3], v0, off";
    for arch in [Gfx906, Gfx90a, Gfx1030] {
        assert_eq!(of(arch, store).store, Unknown, "{arch}");
    }
    for arch in [Gfx942, Gfx950] {
        let plain = of(arch, store);
        assert_eq!((plain.store, plain.stays_cached), (Plain, true));
        let through = of(arch, &format!("{store} sc1"));
        assert_eq!((through.store, through.stays_cached), (Synchronising, false));
    }
    assert_eq!(of(Gfx1201, "global_store_b32 v[2:3], v0, off").store, Plain);
    let store = "global_store_b32 v[2:3], v0, off scope:SCOPE_SYS";
    assert_eq!(of(Gfx1201, store).store, Synchronising);
}

/// The lines are the code for atomic loads and stores with workgroup scope, on architectures whose instructions encode
/// the scope.
#[test]
fn distinguishes_workgroup_from_agent_scope() {
    for (arch, load) in [
        (Gfx942, "global_load_dword v0, v[2:3], off sc0"),
        (Gfx1030, "global_load_dword v0, v[2:3], off glc"),
        (Gfx1201, "global_load_b32 v0, v[2:3], off scope:SCOPE_SE"),
    ] {
        assert_eq!(of(arch, load).load, Workgroup, "{arch}");
    }
    for (arch, store) in [
        (Gfx942, "global_store_dword v[2:3], v0, off sc0"),
        (Gfx1201, "global_store_b32 v[2:3], v0, off scope:SCOPE_SE"),
    ] {
        assert_eq!(of(arch, store).store, Workgroup, "{arch}");
    }
    assert_eq!(Workgroup.to(true), Synchronising);
    assert_eq!(Workgroup.to(false), Plain);
}

#[test]
fn fences_invalidate_all_caches_in_between() {
    let all = |arch, lines: &[&str]| {
        let dropped = lines.iter().fold(0, |all, line| all | of(arch, line).invalidated_caches);
        assert_eq!(dropped, caches(arch), "{arch}");
    };
    all(Gfx906, &["buffer_wbinvl1_vol"]);
    all(Gfx90a, &["buffer_wbinvl1_vol"]);
    all(Gfx942, &["buffer_inv sc1"]);
    all(Gfx950, &["buffer_inv sc1"]);
    all(Gfx1030, &["buffer_gl0_inv", "buffer_gl1_inv"]);
    all(Gfx1151, &["buffer_gl1_inv", "buffer_gl0_inv"]);
    all(Gfx1201, &["global_inv scope:SCOPE_DEV"]);
    // This instruction has workgroup scope.
    assert_eq!(of(Gfx942, "buffer_inv sc0").invalidated_caches, 0);
    assert_eq!(of(Gfx1201, "global_inv scope:SCOPE_SE").invalidated_caches, NEAR);
    assert_eq!(of(Gfx1201, "global_inv scope:SCOPE_CU").invalidated_caches, 0);
    assert!(of(Gfx942, "buffer_wbl2 sc1").writes_back);
}
