//! What the device says of the process that it is in, to whoever started it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use device::{Identity, Mapped, WITNESS_VARIABLE, Witness};
use object::{
    Object as _,
    read::{ReadCache, elf::ElfFile64},
};

/// How the names of the libraries begin that come between a program and this device.
const NAMES: [&str; 3] = ["libamdhip64.so", "libhsa-runtime64.so", "libamd_comgr.so"];

/// Adds a line to the file that [`WITNESS_VARIABLE`] names. Where it cannot be written nobody hears of this process, and the run
/// proves nothing.
pub(crate) fn tell(identity: &Identity) {
    let Some(file) = std::env::var_os(WITNESS_VARIABLE) else { return };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let witness = Witness {
        pid: std::process::id(),
        identity: identity.clone(),
        libraries: libraries(&maps),
    };
    let Ok(mut line) = serde_json::to_string(&witness) else { return };
    line.push('\n');
    // A line in one piece: other processes of the program may write theirs.
    let opened = File::options().append(true).create(true).open(file);
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}

fn libraries(maps: &str) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    for path in maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let known = found.iter().any(|library| library.path == path);
        if !known && NAMES.iter().any(|start| name.starts_with(start)) {
            let build_id = build_id(Path::new(path));
            found.push(Mapped { name: name.to_owned(), path: path.to_owned(), build_id });
        }
    }
    found
}

/// The GNU build id of a file, of which only the parts that are needed are read.
fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_of_rocm_is_named_once() {
        let maps = "7f00-7f10 r--p 00000000 00:2a 1 /usr/lib/libamdhip64.so.7\n\
                    7f10-7f20 r-xp 00010000 00:2a 1 /usr/lib/libamdhip64.so.7\n\
                    7f20-7f30 rw-p 00000000 00:00 0 \n\
                    7f30-7f40 r--p 00000000 00:2a 2 /usr/lib/libc.so.6\n\
                    7f40-7f50 r--p 00000000 00:2a 3 /a/libhsa-runtime64.so.1\n";
        let names: Vec<_> = libraries(maps).into_iter().map(|found| found.path).collect();
        assert_eq!(names, ["/usr/lib/libamdhip64.so.7", "/a/libhsa-runtime64.so.1"]);
    }

    #[test]
    fn a_file_without_a_build_id_has_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(build_id(file.path()), None);
        let own = std::env::current_exe().unwrap();
        // That of the linker, where it makes one: forty digits.
        assert!(build_id(&own).is_none_or(|id| id.len() >= 16));
    }
}
