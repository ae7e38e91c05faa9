//! The table of operations: what each mnemonic does.

pub(crate) mod atomic;
mod branch;
pub(crate) mod buffer;
mod convert;
mod cross_lane;
mod dot;
mod float;
mod gather;
mod half;
pub(crate) mod image;
mod indexed;
mod integer;
pub(crate) mod lds;
mod matrix;
pub(crate) mod memory;
mod packed;
mod rounded;
mod scalar_alu;
mod scalar_float;
pub(crate) mod scalar_memory;
mod scratch;
mod special;
pub(crate) mod sync;
mod transpose;
pub(crate) mod typed;
mod vector_compare;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use device::Arch;

use crate::{
    exec::{Binder, Bound},
    text::{Text, Unsupported},
};

pub(crate) use buffer::SWIZZLE_ENABLE;
pub(crate) use indexed::moved;
pub(crate) use rounded::{ROUND, bind as bind_rounded, is_rounded};

/// An operation that is not the same on all architectures.
fn by_arch(choose: impl Fn(Arch) -> Binder + Send + Sync + 'static) -> Binder {
    Box::new(move |text| choose(text.site.arch)(text))
}

pub(crate) type Table = HashMap<String, Arc<Binder>>;

/// Adds an operation, of which there is one for each name.
pub(crate) fn add(table: &mut Table, name: &str, binder: Arc<Binder>) {
    let before = table.insert(name.to_owned(), binder);
    assert!(before.is_none(), "two operations are called {name}");
}

/// One line per operation: its names over the generations, and what it does.
macro_rules! operations {
    ($table:ident; $($($name:literal)|+ => $binder:expr;)+) => {
        $(
            let binder: std::sync::Arc<$crate::exec::Binder> = std::sync::Arc::new($binder);
            for name in [$($name),+] {
                $crate::ops::add($table, name, binder.clone());
            }
        )+
    };
}
pub(crate) use operations;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    scalar_alu::register(&mut table);
    scalar_float::register(&mut table);
    integer::register(&mut table);
    float::register(&mut table);
    half::register(&mut table);
    special::register(&mut table);
    convert::register(&mut table);
    vector_compare::register(&mut table);
    cross_lane::register(&mut table);
    packed::register(&mut table);
    dot::register(&mut table);
    indexed::register(&mut table);
    branch::register(&mut table);
    table
});

/// Instructions that have no effect here: there is no timing, no cache and no hazard to wait for.
const NO_EFFECT: [&str; 33] = [
    "s_nop",
    "s_delay_alu",
    "s_clause",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_setprio",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_dcache_inv_vol",
    "s_icache_inv",
    "s_gl1_inv",
    "s_sendmsg",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_version",
    "s_code_end",
    "s_wakeup",
    "s_incperflevel",
    "s_decperflevel",
    "s_prefetch_inst",
    "s_prefetch_inst_pc_rel",
    "s_prefetch_data",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_wbl2",
    "buffer_inv",
    "buffer_invl2",
    "buffer_wbinvl1_vol",
    "buffer_wbinvl1",
    "global_inv",
    "global_wb",
    "global_wbinv",
    "v_nop",
];

/// Binds one instruction.
pub(crate) fn bind(text: &Text) -> Bound {
    let name = text.mnemonic.as_str();
    if text.has("clamp") {
        let saturating = format!("{name} clamp");
        if let Some(binder) = TABLE.get(&saturating) {
            let mut text = text.clone();
            text.mnemonic = saturating;
            return binder(&text);
        }
    }
    if let Some(binder) = TABLE.get(name) {
        return binder(text);
    }
    if NO_EFFECT.contains(&name) || name.starts_with("s_waitcnt") || name.starts_with("s_wait_") {
        return crate::exec::on_wave(|_| {});
    }
    match name.split_once('_') {
        Some(("s", _)) => scalar_memory::bind(text),
        Some(("global" | "flat" | "scratch", _)) => memory::bind(text),
        Some(("buffer", _)) => buffer::bind(text),
        Some(("ds", _)) => lds::bind(text),
        Some(("image", _)) => image::bind(text),
        Some(("v", rest))
            if ["mfma_", "smfmac_", "wmma_", "swmmac_"].iter().any(|f| rest.starts_with(f)) =>
        {
            matrix::bind(text)
        }
        _ => Err(Unsupported),
    }
}
